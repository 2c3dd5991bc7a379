//! Statistics as people read them.

use std::fmt::Write;

use aquifer_base::units::format_size;
use aquifer_status::Subject;

use crate::amounts::{grouped, time};
use crate::borrowed::{Borrowed, rows};
use crate::error::printable;
use crate::reply::{Numbers, Sample};

/// What a row shows.
#[derive(Clone, Copy)]
enum Figure {
    /// Bytes at this moment.
    Bytes(&'static str),
    /// Things at this moment.
    Count(&'static str),
    /// The second bytes are still free of the first.
    BytesLeft(&'static str, &'static str),
    /// Bytes since the heap was opened.
    BytesSoFar(&'static str),
    /// Events since the heap was opened.
    Events(&'static str),
    /// Nanoseconds that threads have spent since the heap was opened.
    Time(&'static str),
    /// The first for each of the second.
    Per(&'static str, &'static str),
}

use Figure::{Bytes, BytesLeft, BytesSoFar, Count, Events, Per, Time};

struct Row {
    label: &'static str,
    figure: Figure,
    /// The row's share of the sum of these numbers, and what to call that sum.
    share: Option<(&'static [&'static str], &'static str)>,
}

const fn row(label: &'static str, figure: Figure) -> Row {
    Row { label, figure, share: None }
}

const fn share(label: &'static str, figure: Figure, of: &'static [&'static str], name: &'static str) -> Row {
    Row { label, figure, share: Some((of, name)) }
}

const BUDGET: &[&str] = &["ram_budget_bytes"];
const GROUP: &[&str] = &["group_limit_bytes"];
const CAPACITY: &[&str] = &["capacity_bytes"];
const FILE: &[&str] = &["file_bytes"];
const PAGES_COMMITTED: &[&str] = &["pages_committed", "patches_committed"];
const FLASH: &[&str] = &["flash_bytes"];
const LOOKUPS: &[&str] = &["hits", "decompressed", "misses"];
const PAGES_READ: &[&str] = &["remote_reads", "decoded_reads", "buffer_reads", "flash_reads"];

/// A title and its rows.
type Group = (&'static str, &'static [Row]);

const OF_HEAPS: &[Group] = &[
    (
        "RAM",
        &[
            row("budget", Bytes("ram_budget_bytes")),
            share("used", Bytes("ram_used_bytes"), BUDGET, "of the budget"),
            share("metadata", Bytes("metadata_bytes"), BUDGET, "of the budget"),
            share("mapped pages", Bytes("page_buffer_bytes"), BUDGET, "of the budget"),
            share("page tables", Bytes("page_table_bytes"), BUDGET, "of the budget"),
            share("object cache", Bytes("cache_bytes"), BUDGET, "of the budget"),
            row("objects in the cache", Count("cache_objects")),
            row("of the process", Bytes("process_ram_bytes")),
            share("of its memory cgroup", Bytes("group_used_bytes"), GROUP, "of its limit"),
        ],
    ),
    ("Objects", &[row("allocated", Count("objects")), row("their bytes", Bytes("object_bytes"))]),
    (
        "Faults",
        &[
            row("all", Events("faults")),
            share("hits in the cache", Events("hits"), LOOKUPS, "of hits and misses"),
            share("hits that were decompressed", Events("decompressed"), LOOKUPS, "of hits and misses"),
            share("misses, read from flash", Events("misses"), LOOKUPS, "of hits and misses"),
            row("objects never written", Events("zero_fills")),
            row("first writes to clean pages", Events("faults_write_upgrade")),
            row("pages evicted", Events("evicted_pages")),
            row("objects evicted", Events("evicted_objects")),
            row("pages compressed", Events("compressed")),
            row("bytes of these then", Bytes("compressed_bytes")),
            row("pages that did not shrink", Events("incompressible")),
            row("waits for the writer", Events("writer_waits")),
            row("threads waited for flash", Time("flash_wait_ns")),
        ],
    ),
    (
        "Flash",
        &[
            row("for objects", Bytes("flash_bytes")),
            share("live", Bytes("flash_live_bytes"), FLASH, "of that"),
            share("free", BytesLeft("flash_bytes", "flash_live_bytes"), FLASH, "of that"),
        ],
    ),
    (
        "Device",
        &[
            row("reads", Events("device_reads")),
            row("bytes read", BytesSoFar("device_read_bytes")),
            row("writes", Events("device_writes")),
            row("bytes written", BytesSoFar("device_written_bytes")),
            row("written for an object byte", Per("device_written_bytes", "objects_written_bytes")),
        ],
    ),
    (
        "Log",
        &[
            row("objects written", Events("objects_written")),
            row("their bytes", BytesSoFar("objects_written_bytes")),
            row("objects moved by cleaning", Events("objects_cleaned")),
            row("their bytes", BytesSoFar("objects_cleaned_bytes")),
            row("segments cleaned", Events("segments_cleaned")),
            row("leaves written", Events("leaves_written")),
            row("their bytes", BytesSoFar("leaves_written_bytes")),
            row("leaves read", Events("leaves_read")),
        ],
    ),
    ("Errors", &[row("device errors", Events("io_errors"))]),
];

const OF_VOLUMES: &[Group] = &[
    (
        "RAM",
        &[
            row("budget", Bytes("ram_budget_bytes")),
            share("used", Bytes("ram_used_bytes"), BUDGET, "of the budget"),
            share("pages of files", Bytes("file_page_bytes"), BUDGET, "of the budget"),
            share("nodes of the table", Bytes("table_node_bytes"), BUDGET, "of the budget"),
            share("that wait for a commit", Bytes("dirty_page_bytes"), BUDGET, "of the budget"),
        ],
    ),
    (
        "Flash",
        &[
            row("for files", Bytes("capacity_bytes")),
            share("used", Bytes("used_bytes"), CAPACITY, "of that"),
            share("free", BytesLeft("capacity_bytes", "used_bytes"), CAPACITY, "of that"),
        ],
    ),
    (
        "Pages",
        &[
            row("read from flash", Events("pages_read")),
            row("nodes of the table read", Events("nodes_read")),
            share("written whole", Events("pages_committed"), PAGES_COMMITTED, "of pages written"),
            share("written as changes", Events("patches_committed"), PAGES_COMMITTED, "of pages written"),
        ],
    ),
    (
        "Log",
        &[
            row("commits", Events("commits")),
            row("segments cleaned", Events("segments_cleaned")),
            row("pages moved by cleaning", Events("pages_moved")),
        ],
    ),
    (
        "Device",
        &[
            row("reads", Events("device_reads")),
            row("bytes read", BytesSoFar("device_read_bytes")),
            row("writes", Events("device_writes")),
            row("bytes written", BytesSoFar("device_written_bytes")),
            row("waits until durable", Events("device_syncs")),
        ],
    ),
    ("Errors", &[row("device errors", Events("io_errors"))]),
];

const OF_DURABLE: &[Group] = &[
    ("RAM", &[row("address map", Bytes("map_bytes"))]),
    (
        "File",
        &[
            row("may become", Bytes("capacity_bytes")),
            share("has", Bytes("file_bytes"), CAPACITY, "of that"),
            share("objects", Bytes("live_bytes"), FILE, "of the file"),
            share("free", Bytes("reserve_bytes"), FILE, "of the file"),
        ],
    ),
    ("Transactions", &[row("commits", Events("commits"))]),
    (
        "Device",
        &[
            row("bytes made durable", BytesSoFar("device_written_bytes")),
            row("waits until durable", Events("device_syncs")),
        ],
    ),
    (
        "Cleaner",
        &[
            row("chunks cleaned", Events("chunks_cleaned")),
            row("bytes copied", BytesSoFar("copied_bytes")),
            row("damaged chunks", Events("damaged_chunks")),
        ],
    ),
];

fn groups(subject: Subject) -> &'static [Group] {
    match subject {
        Subject::Heap => OF_HEAPS,
        Subject::Volume => OF_VOLUMES,
        Subject::Durable => OF_DURABLE,
    }
}

/// Numbers of all donors together.
const REMOTE: &[Row] = &[
    row("parts of the device", Count("parts")),
    share("with all their slabs", Count("placed"), &["parts"], "of the parts"),
    share("pages read from donors", Events("remote_reads"), PAGES_READ, "of pages read"),
    share("made from parity", Events("decoded_reads"), PAGES_READ, "of pages read"),
    share("from the buffer", Events("buffer_reads"), PAGES_READ, "of pages read"),
    share("from flash", Events("flash_reads"), PAGES_READ, "of pages read"),
    row("pages written to donors", Events("remote_writes")),
    row("wrong pages", Events("wrong_pages")),
    row("lost slabs", Events("lost_slabs")),
    row("lost pages", Events("lost_pages")),
];

impl Figure {
    fn names(self) -> Vec<&'static str> {
        match self {
            Bytes(name) | Count(name) | BytesSoFar(name) | Events(name) | Time(name) => vec![name],
            BytesLeft(a, b) | Per(a, b) => vec![a, b],
        }
    }

    /// The number that shares are taken of.
    fn number(self, numbers: &Numbers) -> Option<u64> {
        match self {
            Bytes(name) | Count(name) | BytesSoFar(name) | Events(name) | Time(name) => {
                numbers.get(name).copied()
            }
            BytesLeft(all, used) => Some(numbers.get(all)?.saturating_sub(*numbers.get(used)?)),
            Per(..) => None,
        }
    }

    fn text(self, numbers: &Numbers) -> Option<String> {
        match self {
            Bytes(_) | BytesLeft(..) | BytesSoFar(_) => self.number(numbers).map(format_size),
            Count(_) | Events(_) => self.number(numbers).map(grouped),
            Time(_) => self.number(numbers).map(time),
            Per(a, b) => {
                let (a, b) = (*numbers.get(a)?, *numbers.get(b)?);
                Some(if b == 0 { "-".into() } else { format!("{:.2}", a as f64 / b as f64) })
            }
        }
    }

    /// What came on since `before`, for a second.
    fn rate(self, numbers: &Numbers, before: &Numbers, seconds: f64) -> Option<String> {
        let increase = self.number(numbers)?.saturating_sub(self.number(before)?);
        let rate = (increase as f64 / seconds) as u64;
        match self {
            Events(_) => Some(format!("{}/s", grouped(rate))),
            BytesSoFar(_) => Some(format!("{}/s", format_size(rate))),
            Time(_) => Some(format!("{}/s", time(rate))),
            _ => None,
        }
    }
}

impl Row {
    /// The numbers that it shows.
    fn names(&self) -> Vec<&'static str> {
        let of = self.share.map_or(&[][..], |(of, _)| of);
        self.figure.names().into_iter().chain(of.iter().copied()).collect()
    }

    fn percentage(&self, numbers: &Numbers) -> Option<String> {
        let (of, name) = self.share?;
        let sum: u64 = of.iter().filter_map(|name| numbers.get(*name)).fold(0, |a, &b| a.saturating_add(b));
        let part = self.figure.number(numbers)?;
        (sum > 0).then(|| format!("{:.1} % {name}", part as f64 * 100.0 / sum as f64))
    }
}

/// The table of a sample. With an earlier one and the seconds between them, rates are added.
pub fn table(sample: &Sample, earlier: Option<(&Sample, f64)>) -> String {
    let (subject, version) = (sample.subject.word(), printable(&sample.version));
    let mut out = format!("{subject} of process {}, aquifer {version}\n", sample.pid);
    let stats = earlier.map(|(before, seconds)| (&before.stats, seconds));
    groups(sample.subject)
        .iter()
        .for_each(|(title, rows)| group(&mut out, title, rows, &sample.stats, stats));
    if let Some(borrowed) = &sample.remote {
        let before = earlier.and_then(|(before, seconds)| Some((before.remote.as_ref()?, seconds)));
        remote(&mut out, borrowed, before);
    }
    out + &unknown(sample)
}

/// Donors, and what they have of the device.
fn remote(out: &mut String, borrowed: &Borrowed, earlier: rows::Earlier<'_>) {
    let before = earlier.map(|(before, seconds)| (before.numbers(), seconds));
    let before = before.as_ref().map(|(numbers, seconds)| (numbers, *seconds));
    group(out, "Remote memory", REMOTE, &borrowed.numbers(), before);
    if !borrowed.donors.is_empty() {
        out.push_str("\nDonors\n");
        let rows = rows::donors(borrowed, earlier, usize::MAX);
        rows.iter().for_each(|row| {
            let _ = writeln!(out, "  {}", row.text);
        });
    }
}

/// A title and its rows, as far as their numbers are known.
fn group(out: &mut String, title: &str, rows: &[Row], numbers: &Numbers, earlier: Option<(&Numbers, f64)>) {
    let lines: Vec<String> = rows.iter().filter_map(|row| line(row, numbers, earlier)).collect();
    if !lines.is_empty() {
        let _ = write!(out, "\n{title}\n{}", lines.concat());
    }
}

fn line(row: &Row, numbers: &Numbers, earlier: Option<(&Numbers, f64)>) -> Option<String> {
    let value = row.figure.text(numbers)?;
    let rate = earlier.and_then(|(before, seconds)| row.figure.rate(numbers, before, seconds));
    let rate = earlier.map_or(String::new(), |_| format!("{:>16}", rate.unwrap_or_default()));
    let share = row.percentage(numbers).map_or(String::new(), |text| format!("   {text}"));
    let line = format!("  {:<28}{value:>16}{rate}{share}", row.label);
    Some(line.trim_end().to_owned() + "\n")
}

/// Numbers of a newer library.
fn unknown(sample: &Sample) -> String {
    let known: Vec<&str> =
        groups(sample.subject).iter().flat_map(|(_, rows)| *rows).flat_map(Row::names).collect();
    let others = sample.stats.iter().filter(|(name, _)| !known.contains(&name.as_str()));
    let lines: String =
        others.map(|(name, &n)| format!("  {:<28}{:>16}\n", printable(name), grouped(n))).collect();
    if lines.is_empty() { lines } else { format!("\nOther\n{lines}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::borrowed::tests::borrowed;

    fn sample(numbers: &[(&str, u64)]) -> Sample {
        let stats = numbers.iter().map(|&(name, number)| (name.to_owned(), number)).collect();
        Sample { pid: 7, version: "1.2.3".into(), subject: Subject::default(), stats, remote: None }
    }

    #[test]
    fn every_number_of_the_library_has_its_row() {
        let heap = serde_json::to_value(aquifer::Stats::default()).unwrap();
        let volume = serde_json::to_value(aquifer_volume::Stats::default()).unwrap();
        let durable = serde_json::to_value(aquifer_durable::Stats::default()).unwrap();
        for (subject, all) in [(Subject::Heap, heap), (Subject::Volume, volume), (Subject::Durable, durable)]
        {
            let stats: Numbers = serde_json::from_value(all).unwrap();
            let named: Vec<&str> = groups(subject)
                .iter()
                .flat_map(|(_, rows)| *rows)
                .flat_map(|row| row.figure.names())
                .collect();
            assert!(named.iter().all(|name| stats.contains_key(*name)), "{named:?}");
            let sample = Sample { pid: 1, version: "x".into(), subject, stats, remote: None };
            assert_eq!(unknown(&sample), "");
            assert!(table(&sample, None).starts_with(subject.word()));
        }
    }

    #[test]
    fn shares_ratios_and_what_is_left() {
        let numbers = [
            ("ram_budget_bytes", 1 << 30),
            ("ram_used_bytes", 1 << 29),
            ("hits", 999_000),
            ("misses", 1000),
            ("flash_bytes", 4 << 30),
            ("flash_live_bytes", 3 << 30),
            ("device_written_bytes", 300),
            ("objects_written_bytes", 200),
        ];
        let text = table(&sample(&numbers), None);
        for part in
            ["512 MiB   50.0 % of the budget", "999 000   99.9 % of", "1 GiB   25.0 % of that", "1.50\n"]
        {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
        assert!(!text.contains("page tables"), "what was not sent is not shown\n{text}");
    }

    #[test]
    fn rates_are_of_what_counts_up() {
        let before = sample(&[("faults", 1000), ("objects", 5)]);
        let after = sample(&[("faults", 3000), ("objects", 9)]);
        let text = table(&after, Some((&before, 2.0)));
        assert!(text.contains("3 000         1 000/s"), "{text}");
        assert_eq!(text.matches("/s").count(), 1, "{text}");
    }

    #[test]
    fn donors_have_rows_and_every_number_of_theirs_too() {
        let borrowing = |steps| Sample { remote: Some(borrowed(steps)), ..sample(&[("faults", 7)]) };
        let text = table(&borrowing(3), Some((&borrowing(1), 2.0)));
        for part in [
            "Remote memory\n",
            "80.0 % of the parts",
            "200/s   83.3 % of pages read",
            "Donors\n",
            "alpha:7447",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
        assert!(
            !table(&sample(&[("faults", 7)]), None).contains("Remote"),
            "who borrows nothing reads nothing of it"
        );
        let all = serde_json::to_value(aquifer_remote::far::FarCounters::default()).unwrap();
        let shown: Vec<&str> = REMOTE.iter().flat_map(|row| row.figure.names()).collect();
        let pages: Numbers = serde_json::from_value(all).unwrap();
        assert!(pages.keys().all(|name| shown.contains(&name.as_str())), "{shown:?}");
    }

    #[test]
    fn strange_numbers_do_no_harm() {
        let numbers =
            [("ram_budget_bytes", 0), ("ram_used_bytes", u64::MAX), ("hits", u64::MAX), ("misses", u64::MAX)];
        let text = table(&sample(&numbers), Some((&sample(&[("hits", u64::MAX)]), 0.001)));
        assert!(text.contains("100.0 %"), "{text}");
        assert!(table(&sample(&[("new\x1b", 1)]), None).contains("Other\n  new\u{FFFD}"));
    }
}
