//! Databases.

use std::collections::BTreeMap;

use aquifer_base::units::format_size;

use crate::sample::{Record, median};
use crate::table::{markdown, number};
use crate::volume::Cost;
use crate::volume::oltp::Place;
use crate::volume::oltp::sample::{Cell, Oltp};

const COLUMNS: [&str; 12] = [
    "load",
    "journal",
    "database on",
    "runs",
    "transactions/s",
    "least, most",
    "x file system",
    "p50 ms",
    "p99 ms",
    "CPU us each",
    "written KiB each, process",
    "written KiB each, disk",
];
const NOTE: &str = "\nMedians of the runs. RAM: limit of the control group, with SQLite's own buffer of 2 MB, and the page cache or the volume's RAM. \
    Written by the process: the kernel counts a large folio of its page cache as a whole when a part of it is \
    written. By the disk: in the same seconds, with the file system's journal and whatever others write. SQLite ";

/// Size of the database, limit of the memory.
type Files = (u64, u64);
type Runs<'a> = BTreeMap<(Cell, Place), Vec<&'a Oltp>>;

pub fn render(records: &[Record]) -> String {
    let mut studies: BTreeMap<Files, Runs<'_>> = BTreeMap::new();
    for record in records {
        let Record::VolumeOltp(run) = record else { continue };
        let runs = studies.entry((run.data_bytes, run.limit_bytes)).or_default();
        runs.entry((run.cell, run.place)).or_default().push(run);
    }
    let tables = studies.iter().map(|(&(data_bytes, limit_bytes), runs)| {
        let lines: Vec<_> = runs.keys().map(|&(cell, place)| line(runs, cell, place)).collect();
        let (data, ram) = (format_size(data_bytes), format_size(limit_bytes));
        let version = runs.values().flatten().next().map_or("", |run| &run.sqlite);
        markdown(&format!("SQLite: {data} in {ram} of RAM"), &COLUMNS, &lines) + NOTE + version + ".\n"
    });
    tables.collect::<Vec<_>>().join("\n")
}

fn line(all: &Runs<'_>, cell: Cell, place: Place) -> Vec<String> {
    let medians = |place, figure: &dyn Fn(&Oltp) -> f64| {
        median(all.get(&(cell, place))?.iter().map(|run| figure(run)).collect())
    };
    let own = |figure: &dyn Fn(&Oltp) -> f64| medians(place, figure);
    let runs = all.get(&(cell, place)).map_or(&[][..], |runs| runs);
    let least = runs.iter().map(|run| run.per_s()).fold(f64::INFINITY, f64::min);
    let most = runs.iter().map(|run| run.per_s()).fold(0.0, f64::max);
    let per_s = own(&Oltp::per_s);
    let ratio = per_s.zip(medians(Place::FileSystem, &Oltp::per_s)).map(|(own, other)| own / other);
    let each = |total: fn(&Cost) -> u64, scale: f64, digits| {
        number(own(&|run| Cost::each(total(&run.cost), run.transactions) / scale), digits)
    };
    vec![
        cell.load.to_string(),
        cell.journal.to_string(),
        place.to_string(),
        runs.len().to_string(),
        number(per_s, 0),
        format!("{least:.0}, {most:.0}"),
        number(ratio, 2),
        number(own(&|run| run.latency.p50_ns as f64 / 1e6), 2),
        number(own(&|run| run.latency.p99_ns as f64 / 1e6), 2),
        each(|cost| cost.usage.cpu_ns(), 1e3, 0),
        each(|cost| cost.io.written_bytes, 1024.0, 1),
        each(|cost| cost.device.written_bytes, 1024.0, 1),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::cost;
    use super::*;
    use crate::machine::Context;
    use crate::page_size::Journal;
    use crate::page_size::sample::Latency;
    use crate::volume::oltp::Load;

    #[test]
    fn the_volume_is_against_the_file_system() {
        let sample = |place, transactions| {
            Record::VolumeOltp(Box::new(Oltp {
                cell: Cell { load: Load::Tatp, journal: Journal::Delete },
                place,
                run: 1,
                data_bytes: 512 << 20,
                scale: 1000,
                limit_bytes: 256 << 20,
                volume_ram_bytes: None,
                warmup_s: 1.0,
                transactions,
                latency: Latency { mean_ns: 1e6, p50_ns: 500_000, p99_ns: 2_000_000, max_ns: 9_000_000 },
                cost: cost(),
                sqlite: "3.40.1".to_owned(),
                context: Context::default(),
            }))
        };
        let text = render(&[sample(Place::FileSystem, 1000), sample(Place::Volume, 4000)]);
        for line in [
            "### SQLite: 512 MiB in 256 MiB of RAM",
            "| tatp | delete | file system | 1 | 500 | 500, 500 | 1.00 | 0.50 | 2.00 | 1500 | 8.0 | 16.0 |",
            "| tatp | delete | volume | 1 | 2000 | 2000, 2000 | 4.00 | 0.50 | 2.00 | 375 | 2.0 | 4.0 |",
            "SQLite 3.40.1.",
        ] {
            assert!(text.contains(line), "{line} is not in {text}");
        }
    }
}
