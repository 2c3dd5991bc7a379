//! The table of what cleaning costs.

use std::collections::BTreeMap;

use super::{markdown, number};
use crate::durable::cleaning::run::name;
use crate::durable::cleaning::sample::{Cleaning, Updates};
use crate::durable::heaps::Medium;
use crate::sample::Record;
use crate::study::median_of as median;

const COLUMNS: [&str; 11] = [
    "medium",
    "workload",
    "threads",
    "utilisation",
    "runs",
    "live %",
    "tx/s",
    "loss %",
    "CPU ns",
    "bytes per byte",
    "chunks cleaned",
];
const NOTE: &str = "\nloss: of throughput, against the heap with room for everything, in which nothing is cleaned. CPU ns: of all \
    threads, the cleaner's included, for one transaction. bytes per byte: persisted for each byte changed. live: the share of the \
    file's memory that is objects.\n";

type Key = (Medium, Updates, u64, Option<u32>);
type Runs<'a> = BTreeMap<Key, Vec<&'a Cleaning>>;

fn medians(runs: &[&Cleaning], value: impl Fn(&Cleaning) -> f64) -> Option<f64> {
    median(runs.iter().map(|run| value(run)).collect())
}

fn per_s(runs: &[&Cleaning]) -> Option<f64> {
    medians(runs, |run| 1e9 / run.wall_ns)
}

/// The table.
pub fn render(records: &[Record]) -> String {
    let mut runs = Runs::new();
    for record in records {
        if let Record::Cleaning(run) = record {
            let key = (run.medium, run.updates, run.threads, run.utilisation_percent);
            runs.entry(key).or_default().push(run);
        }
    }
    if runs.is_empty() {
        return String::new();
    }
    let lines: Vec<_> = runs.iter().map(|(&key, of)| line(&runs, key, of)).collect();
    markdown("Cleaning: medians", &COLUMNS, &lines) + NOTE
}

fn line(all: &Runs<'_>, (medium, updates, threads, percent): Key, runs: &[&Cleaning]) -> Vec<String> {
    let with_room = all.get(&(medium, updates, threads, None)).and_then(|runs| per_s(runs));
    let loss = with_room.zip(per_s(runs)).map(|(room, here)| 100.0 * (1.0 - here / room));
    vec![
        medium.to_string(),
        updates.to_string(),
        threads.to_string(),
        name(percent),
        runs.len().to_string(),
        number(medians(runs, |run| 100.0 * run.live_share), 1),
        number(per_s(runs), 0),
        number(loss, 1),
        number(medians(runs, |run| run.cpu_ns), 0),
        number(medians(runs, |run| run.written_per_changed), 2),
        number(medians(runs, |run| run.cleaned_chunks as f64), 0),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::durable::store::Setup;
    use crate::machine::Context;

    fn run(utilisation_percent: Option<u32>, wall_ns: f64) -> Record {
        Record::Cleaning(Box::new(Cleaning {
            updates: Updates::Objects,
            medium: Medium::Raw,
            utilisation_percent,
            threads: 1,
            run: 1,
            entries: 1000,
            setup: Setup {
                dir: "/dev/shm".into(),
                is_memory: true,
                capacity_bytes: 1 << 30,
                latency_ns: 500,
                bandwidth_bytes_per_s: 1_000_000_000,
            },
            warmup_transactions: 10,
            transactions: 40,
            cpu_ns: 600.0,
            wall_ns,
            written_per_changed: 1.5,
            cleaned_chunks: 3,
            live_share: 0.75,
            context: Context::default(),
        }))
    }

    #[test]
    fn the_loss_is_against_the_heap_with_room() {
        let text = render(&[run(None, 1000.0), run(Some(90), 1250.0), run(Some(90), 1250.0)]);
        for line in [
            "| raw | objects | 1 | room for everything | 1 | 75.0 | 1000000 | 0.0 | 600 | 1.50 | 3 |",
            "| raw | objects | 1 | 90 % | 2 | 75.0 | 800000 | 20.0 | 600 | 1.50 | 3 |",
        ] {
            assert!(text.contains(line), "{line} is not in {text}");
        }
        assert!(render(&[run(Some(90), 1250.0)]).contains("| 800000 | - |"));
    }
}
