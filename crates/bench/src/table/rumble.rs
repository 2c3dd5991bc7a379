//! The tables of memory for objects whose sizes change: one row for each system, one column for each workload.

use std::collections::BTreeMap;

use aquifer_base::units::format_size;
use clap::ValueEnum;

use super::{markdown, mebibytes, number};
use crate::rumble::breakdown::Breakdown;
use crate::rumble::sample::Sample;
use crate::rumble::system::System;
use crate::rumble::workload::Workload;
use crate::sample::Record;
use crate::study::median_of as median;

const NOTE: &str = "\npeak / live: largest memory over the whole run, over the most live bytes, everything counted. aquifer: memory of \
                    the file, with headers, free chunks and superblock. malloc: growth of the process. pmemobj: runs in use and huge \
                    allocations by its own statistics, without the pool's metadata. near the cap: memory over live bytes at the same \
                    moment, while these were at least 90 % of the most.\n";
const WASTE_NOTE: &str = "\n(peak - live) / peak in percent; of aquifer the peak is without free chunks and superblock, as the paper \
                          leaves the cleaner's reserve out. mean: of W1, W2 and W3.\n";
const COSTS_NOTE: &str = "\nmap: RAM of the map over live bytes at its peak; RAM: all memory of the process that is of no file. file: \
                          largest memory of the file as the kernel counts it, over what is said above. B/B: bytes persisted per byte \
                          allocated.\n";
const PARTS_NOTE: &str = "\nAt the end of the run if the memory is at its peak then, else when it got there. dead: what objects were, in \
                          chunks that are still to be cleaned. lost: what is no object, in percent of all but dead bytes and free \
                          chunks: cleaning does not regain it.\n";
const MEAN_OF: [Workload; 3] = [Workload::W1, Workload::W2, Workload::W3];

/// Live bytes, system, utilisation and chunk size where they matter.
type Row = (u64, System, Option<(u32, u32)>);
type Runs<'a> = BTreeMap<Workload, Vec<&'a Sample>>;

fn medians(runs: &Runs<'_>, workload: Workload, value: impl Fn(&Sample) -> f64) -> Option<f64> {
    median(runs.get(&workload)?.iter().map(|sample| value(sample)).collect())
}

/// All tables for which there are records.
pub fn render(records: &[Record]) -> String {
    let mut rows: BTreeMap<Row, Runs<'_>> = BTreeMap::new();
    for record in records {
        let Record::Rumble(sample) = record else { continue };
        let settings = sample.durable.map(|d| (d.settings.utilisation_percent, d.settings.chunk_bytes));
        let row = rows.entry((sample.live_bytes, sample.system, settings)).or_default();
        row.entry(sample.workload).or_default().push(sample);
    }
    let tables = [ratios(&rows), near_cap(&rows), waste(&rows), costs(&rows), breakdowns(&rows)];
    tables.iter().filter(|table| !table.is_empty()).map(String::as_str).collect::<Vec<_>>().join("\n")
}

fn label((live_bytes, system, settings): Row) -> [String; 2] {
    let settings = settings.map_or(String::new(), |(utilisation, chunk)| {
        format!(" {utilisation} %, chunks of {}", format_size(u64::from(chunk)))
    });
    [format!("{system}{settings}"), format_size(live_bytes)]
}

/// A table with a column for each workload.
fn by_workload(
    title: &str,
    note: &str,
    more: &[&str],
    rows: &BTreeMap<Row, Runs<'_>>,
    cells: impl Fn(&Runs<'_>) -> Vec<String>,
) -> String {
    let names: Vec<String> =
        Workload::value_variants().iter().map(|workload| format!("{workload:?}")).collect();
    let columns: Vec<&str> = ["system", "live"]
        .into_iter()
        .chain(names.iter().map(String::as_str))
        .chain(more.iter().copied())
        .collect();
    let lines: Vec<_> =
        rows.iter().map(|(row, runs)| label(*row).into_iter().chain(cells(runs)).collect()).collect();
    let table = markdown(title, &columns, &lines);
    if table.is_empty() { table } else { table + note }
}

fn of_each(runs: &Runs<'_>, digits: usize, value: impl Fn(&Sample) -> f64) -> Vec<String> {
    let cell = |&workload: &Workload| number(medians(runs, workload, &value), digits);
    Workload::value_variants().iter().map(cell).collect()
}

fn ratios(rows: &BTreeMap<Row, Runs<'_>>) -> String {
    let runs = rows.values().flat_map(BTreeMap::values).map(Vec::len).max().unwrap_or(0);
    let title = format!("Workloads of Rumble et al.: peak / live, medians of {runs}");
    by_workload(&title, NOTE, &[], rows, |runs| of_each(runs, 3, Sample::ratio))
}

fn near_cap(rows: &BTreeMap<Row, Runs<'_>>) -> String {
    by_workload("Near the cap: largest memory / live", "", &[], rows, |runs| {
        of_each(runs, 3, |sample| sample.ratio_near_cap)
    })
}

fn waste(rows: &BTreeMap<Row, Runs<'_>>) -> String {
    by_workload("The paper's way of counting", WASTE_NOTE, &["mean"], rows, |runs| {
        let percent = |sample: &Sample| 100.0 * sample.waste();
        let three: Option<Vec<f64>> =
            MEAN_OF.iter().map(|&workload| medians(runs, workload, percent)).collect();
        let mean = three.map(|three| three.iter().sum::<f64>() / three.len() as f64);
        [of_each(runs, 1, percent), vec![number(mean, 1)]].concat()
    })
}

fn costs(rows: &BTreeMap<Row, Runs<'_>>) -> String {
    let mut lines = Vec::new();
    for (&row, runs) in rows.iter().filter(|(row, _)| row.1 == System::Aquifer) {
        for &workload in runs.keys() {
            let of = |value: &dyn Fn(&Sample) -> Option<f64>| {
                medians(runs, workload, |sample| value(sample).unwrap_or(f64::NAN))
            };
            let per_live = |bytes: u64, sample: &Sample| bytes as f64 / sample.live_bytes as f64;
            lines.push(vec![
                label(row)[0].clone(),
                format!("{workload:?}"),
                number(of(&|sample| Some(sample.ratio())), 3),
                number(of(&Sample::written_per_allocated), 2),
                number(of(&|sample| Some(per_live(sample.map_bytes, sample))), 3),
                number(of(&|sample| Some(per_live(sample.durable?.ram_max_bytes, sample))), 3),
                number(
                    of(&|sample| Some(sample.durable?.blocks_max_bytes as f64 / sample.peak_bytes as f64)),
                    4,
                ),
                number(
                    of(&|sample| Some(sample.durable?.copied_bytes as f64 / sample.allocated_bytes as f64)),
                    2,
                ),
                number(of(&|sample| Some(sample.seconds)), 1),
            ]);
        }
    }
    let columns =
        ["system", "workload", "peak / live", "B/B", "map / live", "RAM / live", "file", "copied B/B", "s"];
    let table = markdown("What the durable heap pays", &columns, &lines);
    if table.is_empty() { table } else { table + COSTS_NOTE }
}

fn breakdowns(rows: &BTreeMap<Row, Runs<'_>>) -> String {
    let mut lines = Vec::new();
    for (&row, runs) in rows {
        for sample in runs.values().filter_map(|samples| samples.first()) {
            let Some(parts) = sample.durable.and_then(|durable| durable.breakdown) else { continue };
            lines.push(
                [vec![label(row)[0].clone(), format!("{:?}", sample.workload)], parts_of(&parts)].concat(),
            );
        }
    }
    let columns = [
        "system",
        "workload",
        "objects",
        "rounding",
        "dead",
        "headers, index",
        "unfilled",
        "free chunks",
        "lost",
        "all MiB",
        "holes kept",
        "chunks in use",
    ];
    let table = markdown("Where the memory is at the peak, in percent of it: first runs", &columns, &lines);
    if table.is_empty() { table } else { table + PARTS_NOTE }
}

fn parts_of(parts: &Breakdown) -> Vec<String> {
    let percent = |bytes: u64| number(Some(100.0 * bytes as f64 / parts.total_bytes() as f64), 1);
    let shares = [
        parts.object_bytes,
        parts.rounding_bytes,
        parts.dead_bytes,
        parts.index_bytes,
        parts.unfilled_bytes,
        parts.free_bytes,
    ];
    let mut cells: Vec<_> = shares.into_iter().map(percent).collect();
    cells.push(number(Some(100.0 * parts.lost()), 1));
    cells.push(mebibytes(Some(parts.total_bytes() as f64)));
    cells.extend([parts.holes.to_string(), parts.chunks.to_string()]);
    cells
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rumble::sample::tests::sample;

    fn record(system: System, workload: Workload, peak_bytes: u64) -> Record {
        Record::Rumble(Box::new(sample(system, workload, peak_bytes)))
    }

    #[test]
    fn systems_are_rows_and_workloads_columns() {
        let mut records = vec![record(System::Glibc, Workload::W2, 1500)];
        for workload in MEAN_OF {
            records.extend([1400, 1200, 1300].map(|peak| record(System::Aquifer, workload, peak)));
        }
        let text = render(&records);
        let aquifer = "| aquifer 90 %, chunks of 1 MiB | 1000 B | 1.300 | 1.300 | 1.300 | - |";
        assert!(text.contains(aquifer) && text.contains("medians of 3"), "{text}");
        assert!(text.contains("| glibc | 1000 B | - | 1.500 | - | - |"), "{text}");
        assert!(text.contains("| 13.0 | 13.0 | 13.0 | - | - | - | - | - | 13.0 |"), "{text}");
        assert!(
            text.contains("| aquifer 90 %, chunks of 1 MiB | W1 | 1.300 | 3.00 | 0.100 | 0.300 |"),
            "{text}"
        );
        assert!(!text.contains("Where the memory is"));
    }

    #[test]
    fn parts_are_shares_of_their_sum() {
        let mut with = sample(System::Aquifer, Workload::W6, 1200);
        let durable = with.durable.as_mut().expect("a durable heap");
        durable.breakdown = Some(Breakdown {
            object_bytes: 800,
            dead_bytes: 150,
            index_bytes: 100,
            free_bytes: 50,
            chunks: 3,
            ..Breakdown::default()
        });
        let text = render(&[Record::Rumble(Box::new(with))]);
        assert!(text.contains("| W6 | 72.7 | 0.0 | 13.6 | 9.1 | 0.0 | 4.5 | 11.1 | 0 | 0 | 3 |"), "{text}");
    }
}
