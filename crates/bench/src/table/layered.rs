//! The table of the volume beside layered stacks.

use std::collections::BTreeMap;

use super::{markdown, number};
use crate::sample::Record;
use crate::study::median_of as median;
use crate::volume::layered::sample::Layered;
use crate::volume::layered::{Contestant, Load, Speed};

const COLUMNS: [&str; 14] = [
    "flash",
    "accesses",
    "threads",
    "data:RAM",
    "stack",
    "accesses/s",
    "volume x",
    "mean us",
    "volume's mean",
    "CPU us",
    "hits %",
    "flash reads/access",
    "of them nodes",
    "frames for data and nodes",
];
const NOTE: &str = "\nvolume x: accesses/s of the volume by those of this stack. volume's mean: time of an access by this stack's. flash: time of a \
    read; with none, times are software alone. CPU: of an access, waits for fast flash among it. hits: accesses for which no page of the file was read. Medians over the runs.\n";

type Key = (Speed, Load, u32, u64);
type Runs<'a> = BTreeMap<Contestant, Vec<&'a Layered>>;

/// The table.
pub fn render(records: &[Record]) -> String {
    let mut points: BTreeMap<Key, Runs<'_>> = BTreeMap::new();
    for record in records {
        if let Record::Layered(sample) = record {
            let point = &sample.point;
            let key = (point.speed, point.load, point.threads, point.ratio);
            points.entry(key).or_default().entry(sample.stack).or_default().push(sample);
        }
    }
    if points.is_empty() {
        return String::new();
    }
    let lines: Vec<_> = points
        .iter()
        .flat_map(|(key, runs)| runs.keys().map(move |&stack| line(*key, stack, runs)))
        .collect();
    markdown("One table against three", &COLUMNS, &lines) + NOTE
}

fn line((speed, load, threads, ratio): Key, stack: Contestant, runs: &Runs<'_>) -> Vec<String> {
    let of = |stack, value: fn(&Layered) -> f64| {
        median(runs.get(&stack)?.iter().map(|sample| value(sample)).collect())
    };
    let here = |value| of(stack, value);
    let volume = |value| Some(of(Contestant::Volume, value)? / here(value)?);
    vec![
        speed.to_string(),
        load.to_string(),
        threads.to_string(),
        ratio.to_string(),
        stack.to_string(),
        number(here(Layered::per_s), 0),
        number(volume(Layered::per_s), 2),
        number(here(|sample| sample.measured.mean_ns / 1e3), 2),
        number(volume(|sample| sample.measured.mean_ns), 2),
        number(here(Layered::cpu_us), 2),
        number(here(|sample| 100.0 * sample.hits()), 1),
        number(here(Layered::reads), 2),
        number(here(Layered::node_reads), 2),
        number(here(|sample| sample.division.frames as f64), 0),
    ]
}
