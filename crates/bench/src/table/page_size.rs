//! The tables of the page-size study: every cell, and the buffer that small pages need to be as fast as large ones.

use std::collections::{BTreeMap, BTreeSet};

use aquifer_base::units::format_size;

use super::{markdown, number};
use crate::page_size::sample::{Cell, Sample};
use crate::page_size::{Journal, Kind};
use crate::sample::Record;
use crate::study::median_of as median;

const COLUMNS: [&str; 15] = [
    "buffer",
    "page",
    "runs",
    "tx/s",
    "least, most",
    "x smallest page",
    "mean ms",
    "p50 ms",
    "p99 ms",
    "max ms",
    "misses/tx",
    "device share",
    "read KiB/tx",
    "written KiB/tx",
    "CPU us/tx",
];
const NOTE: &str = "\nMedians of the runs; max is the longest transaction of all runs. x smallest page: against the smallest page with the same \
    buffer. Misses: pages that the buffer lacked. Device share: bytes that the device read for each byte of those pages; below 1 the kernel's page cache \
    had some, above 1 something was read twice. Read and written: bytes that the process had the device move. CPU: of the process, user \
    and system.";

/// Runs that can be compared with one another.
type Key = (Kind, Journal, u64);
/// By buffer, then page.
type Cells<'a> = BTreeMap<Cell, Vec<&'a Sample>>;

/// The tables.
pub fn render(records: &[Record]) -> String {
    let mut studies: BTreeMap<Key, Cells<'_>> = BTreeMap::new();
    for record in records {
        if let Record::PageSize(run) = record {
            let key = (run.cell.load, run.settings.journal, run.data_bytes);
            studies.entry(key).or_default().entry(run.cell).or_default().push(run);
        }
    }
    let tables: Vec<_> = studies.iter().map(|(&key, cells)| study(key, cells)).collect();
    tables.join("\n")
}

fn study(key: Key, cells: &Cells<'_>) -> String {
    let title = title(key, cells);
    let lines: Vec<_> = cells.iter().map(|(cell, runs)| line(cells, *cell, runs)).collect();
    let needed = needed(cells);
    let all = markdown(&title, &COLUMNS, &lines) + &note(cells);
    if needed.is_empty() {
        return all;
    }
    let pages: BTreeSet<_> = cells.keys().map(|cell| cell.page_bytes).collect();
    let names: Vec<_> =
        pages.iter().skip(1).map(|&page| format!("as fast as {} pages with", format_size(page))).collect();
    let smallest = pages.first().copied().map_or(String::new(), format_size);
    let columns = [&[format!("{smallest} pages with")][..], &names].concat();
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    format!("{all}\n{}", markdown(&format!("{}: buffers for equal speed", key.0), &columns, &needed))
}

fn title((load, journal, data_bytes): Key, cells: &Cells<'_>) -> String {
    let unit = if load == Kind::TpcB { "branches" } else { "warehouses" };
    let scale = cells.values().flatten().next().map_or(0, |run| run.scale);
    format!("{load}-like, {scale} {unit}, {} of data, journal {journal}", format_size(data_bytes))
}

fn medians(runs: &[&Sample], value: impl Fn(&Sample) -> f64) -> Option<f64> {
    median(runs.iter().map(|run| value(run)).collect())
}

fn per_s(runs: &[&Sample]) -> Option<f64> {
    medians(runs, Sample::per_s)
}

fn line(cells: &Cells<'_>, cell: Cell, runs: &[&Sample]) -> Vec<String> {
    let smallest = cells.iter().find(|(other, _)| other.buffer_bytes == cell.buffer_bytes);
    let ratio = smallest.and_then(|(_, smallest)| Some(per_s(runs)? / per_s(smallest)?));
    let least = runs.iter().map(|run| run.per_s()).fold(f64::INFINITY, f64::min);
    let most = runs.iter().map(|run| run.per_s()).fold(0.0, f64::max);
    let longest_ns = runs.iter().map(|run| run.latency.max_ns).max().unwrap_or(0);
    let milliseconds = |value: fn(&Sample) -> f64| number(medians(runs, value).map(|ns| ns / 1e6), 2);
    let kibibytes =
        |bytes: fn(&Sample) -> u64| number(medians(runs, |run| run.per_transaction(bytes(run)) / 1024.0), 1);
    vec![
        format_size(cell.buffer_bytes),
        format_size(cell.page_bytes),
        runs.len().to_string(),
        number(per_s(runs), 0),
        format!("{least:.0}, {most:.0}"),
        number(ratio, 2),
        milliseconds(|run| run.latency.mean_ns),
        milliseconds(|run| run.latency.p50_ns as f64),
        milliseconds(|run| run.latency.p99_ns as f64),
        number(Some(longest_ns as f64 / 1e6), 0),
        number(medians(runs, |run| run.per_transaction(run.buffer.misses)), 2),
        number(medians(runs, Sample::device_share), 2),
        kibibytes(|run| run.io.read_bytes),
        kibibytes(|run| run.io.written_bytes),
        number(medians(runs, |run| run.per_transaction(run.cpu_ns) / 1e3), 0),
    ]
}

/// What a reader must know of the numbers.
fn note(cells: &Cells<'_>) -> String {
    let runs: Vec<_> = cells.values().flatten().collect();
    let unlimited = runs.iter().any(|run| run.limit_bytes.is_none());
    let warning = if unlimited {
        " **Without a memory limit: the kernel's page cache stood in for the buffer, and the sizes of buffers mean little.**"
    } else {
        ""
    };
    let versions: BTreeSet<_> = runs.iter().map(|run| run.sqlite.as_str()).collect();
    let versions: Vec<_> = versions.into_iter().collect();
    format!("{NOTE} SQLite {}.{warning}\n", versions.join(", "))
}

/// For each buffer of the smallest pages, the largest buffer with which each larger page is not faster.
fn needed(cells: &Cells<'_>) -> Vec<Vec<String>> {
    let pages: BTreeSet<_> = cells.keys().map(|cell| cell.page_bytes).collect();
    let buffers: BTreeSet<_> = cells.keys().map(|cell| cell.buffer_bytes).collect();
    let load = cells.keys().next().map(|cell| cell.load);
    let (Some(&smallest), Some(load)) = (pages.first(), load) else { return Vec::new() };
    if pages.len() < 2 || buffers.len() < 2 {
        return Vec::new();
    }
    let speed = |page_bytes, buffer_bytes| {
        cells.get(&Cell { load, buffer_bytes, page_bytes }).and_then(|runs| per_s(runs))
    };
    let not_faster = |page, than: f64| {
        let slow = |&&buffer: &&u64| speed(page, buffer).is_some_and(|speed| speed <= than);
        buffers.iter().take_while(slow).last().copied()
    };
    let line = |&buffer: &u64| {
        let own = speed(smallest, buffer)?;
        let others = pages.iter().skip(1).map(|&page| match not_faster(page, own) {
            Some(largest) if buffers.last() == Some(&largest) => format!("{} or more", format_size(largest)),
            Some(largest) => format_size(largest),
            None => "-".to_owned(),
        });
        Some(std::iter::once(format_size(buffer)).chain(others).collect())
    };
    buffers.iter().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page_size::sample::tests::sample;

    fn run(page_kib: u64, buffer_mib: u64, transactions: u64) -> Record {
        Record::PageSize(Box::new(sample(page_kib << 10, buffer_mib << 20, transactions)))
    }

    #[test]
    fn pages_are_against_the_smallest_and_buffers_are_matched() {
        let records = [
            run(4, 8, 4000),
            run(4, 8, 5000),
            run(4, 8, 4500),
            run(16, 8, 2250),
            run(4, 16, 6000),
            run(16, 16, 4600),
            run(16, 32, 5000),
            run(4, 32, 7000),
        ];
        let text = render(&records);
        for line in [
            "### tpc-b-like, 50 branches, 512 MiB of data, journal wal",
            "| 8 MiB | 4 KiB | 3 | 2250 | 2000, 2500 | 1.00 | 0.44 | 0.30 | 2.00 | 9 | 2.22 | 0.50 | 4.4 | 8.9 | 67 |",
            "| 8 MiB | 16 KiB | 1 | 1125 | 1125, 1125 | 0.50 |",
            "user and system. SQLite 3.40.1.\n",
            "### tpc-b: buffers for equal speed",
            "| 4 KiB pages with | as fast as 16 KiB pages with |",
            "| 8 MiB | 8 MiB |",
            "| 16 MiB | 32 MiB or more |",
        ] {
            assert!(text.contains(line), "{line} is not in {text}");
        }
        assert!(!text.contains("Without a memory limit"));
    }

    #[test]
    fn runs_without_a_limit_are_marked() {
        let mut unlimited = sample(4096, 8 << 20, 1000);
        unlimited.limit_bytes = None;
        assert!(render(&[Record::PageSize(Box::new(unlimited))]).contains("Without a memory limit"));
    }
}
