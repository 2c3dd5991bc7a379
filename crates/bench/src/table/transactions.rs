//! The table of transactions: medians, over those of libpmemobj's transactions with as many threads.

use std::collections::BTreeMap;

use super::{markdown, number};
use crate::durable::load::Workload;
use crate::durable::sample::Transactions;
use crate::durable::system::{Contestant, System};
use crate::sample::Record;
use crate::study::median_of as median;

const COLUMNS: [&str; 12] = [
    "workload",
    "threads",
    "system",
    "runs",
    "CPU ns",
    "low-high",
    "x pmemobj",
    "wall ns",
    "x pmemobj",
    "x 1 thread",
    "fences",
    "bytes persisted",
];
const NOTE: &str = "\nAll figures are for one transaction. CPU: of the process from the first begin until its threads rest, a cleaner's among them. Wall: from the \
    first begin to the last end, over the transactions of all threads. x pmemobj: how many times less time than pmemobj with as many threads. x 1 thread: throughput over \
    that of one thread. low-high: of the CPU times of all runs. Fences and bytes: where the system counts them, cleaning \
    included. A percentage: the file grows only while at least so much of it is objects; else it is cleaned.\n";
/// What the ratios refer to.
const REFERENCE: Contestant = Contestant { system: System::Pmemobj, utilisation_percent: None };

type Key = (Workload, u64, Contestant);

/// Medians of the runs of one system at one point.
struct Row {
    runs: usize,
    cpu_ns: f64,
    cpu_ns_min: f64,
    cpu_ns_max: f64,
    wall_ns: f64,
    fences: Option<f64>,
    persisted_bytes: Option<f64>,
}

impl Row {
    /// Of at least one run.
    fn of(runs: &[&Transactions]) -> Self {
        let all = |value: fn(&Transactions) -> f64| runs.iter().map(move |run| value(run));
        let medians = |value: fn(&Transactions) -> Option<f64>| {
            median(runs.iter().filter_map(|run| value(run)).collect())
        };
        let cpu_ns = all(|run| run.cpu_ns);
        Self {
            runs: runs.len(),
            cpu_ns: median(cpu_ns.clone().collect()).unwrap_or(f64::NAN),
            cpu_ns_min: cpu_ns.clone().fold(f64::INFINITY, f64::min),
            cpu_ns_max: cpu_ns.fold(0.0, f64::max),
            wall_ns: median(all(|run| run.wall_ns).collect()).unwrap_or(f64::NAN),
            fences: medians(|run| run.fences),
            persisted_bytes: medians(|run| run.persisted_bytes),
        }
    }
}

fn rows(runs: &[&Transactions]) -> BTreeMap<Key, Row> {
    let mut sorted: BTreeMap<Key, Vec<&Transactions>> = BTreeMap::new();
    for run in runs {
        sorted.entry((run.workload, run.threads, run.contestant)).or_default().push(run);
    }
    sorted.into_iter().map(|(key, runs)| (key, Row::of(&runs))).collect()
}

/// The table, and what each system guarantees.
pub fn render(records: &[Record]) -> String {
    let runs: Vec<&Transactions> = records
        .iter()
        .filter_map(|record| match record {
            Record::Transactions(run) => Some(&**run),
            _ => None,
        })
        .collect();
    let rows = rows(&runs);
    if rows.is_empty() {
        return String::new();
    }
    let lines: Vec<_> = rows.iter().map(|(&key, row)| line(&rows, key, row)).collect();
    format!("{}{NOTE}\n{}", markdown("Transactions: medians", &COLUMNS, &lines), guarantees(&runs))
}

fn line(rows: &BTreeMap<Key, Row>, (workload, threads, contestant): Key, row: &Row) -> Vec<String> {
    let reference = rows.get(&(workload, threads, REFERENCE));
    let alone = rows.get(&(workload, 1, contestant));
    vec![
        workload.to_string(),
        threads.to_string(),
        contestant.to_string(),
        row.runs.to_string(),
        number(Some(row.cpu_ns), 0),
        format!("{:.0}-{:.0}", row.cpu_ns_min, row.cpu_ns_max),
        number(reference.map(|reference| reference.cpu_ns / row.cpu_ns), 2),
        number(Some(row.wall_ns), 0),
        number(reference.map(|reference| reference.wall_ns / row.wall_ns), 2),
        number(alone.map(|alone| alone.wall_ns / row.wall_ns), 2),
        number(row.fences, 3),
        number(row.persisted_bytes, 0),
    ]
}

/// Once for each system.
fn guarantees(runs: &[&Transactions]) -> String {
    let line = |run: &Transactions| vec![run.contestant.system.to_string(), guarantee(run)];
    let lines: BTreeMap<System, _> = runs.iter().map(|run| (run.contestant.system, line(run))).collect();
    let lines: Vec<_> = lines.into_values().collect();
    markdown("Guarantees of a transaction that has committed", &["system", "guarantee"], &lines)
}

fn guarantee(run: &Transactions) -> String {
    let (setup, words) = (&run.setup, run.guarantee.clone());
    match run.contestant.system {
        System::AquiferEmulated => format!(
            "{words}; each persist takes max({} ns, bytes / {} GB/s)",
            setup.latency_ns,
            setup.bandwidth_bytes_per_s as f64 / 1e9,
        ),
        System::Pmemobj | System::PmemobjActions if !setup.is_memory => {
            format!("{words}; caches are flushed by msync")
        }
        System::LmdbSync | System::RedbImmediate if setup.is_memory => {
            format!("{words}; syncing is free here, because the file is in memory")
        }
        _ => words,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::durable::store::Setup;
    use crate::machine::Context;

    fn run(system: System, threads: u64, cpu_ns: f64, wall_ns: f64) -> Record {
        Record::Transactions(Box::new(Transactions {
            contestant: system.contestants(&[85])[0],
            guarantee: system.guarantee().to_owned(),
            workload: Workload::TwoWords,
            threads,
            run: 1,
            seed: 2,
            objects: 65_536,
            object_bytes: 128,
            buckets: 0,
            setup: Setup {
                dir: "/dev/shm".into(),
                is_memory: true,
                capacity_bytes: 1 << 30,
                latency_ns: 500,
                bandwidth_bytes_per_s: 1_500_000_000,
            },
            warmup_transactions: 10,
            transactions: 40,
            cpu_ns,
            wall_ns,
            rest_ns: 0.5,
            fences: (system == System::Aquifer).then_some(1.002),
            persisted_bytes: (system == System::Aquifer).then_some(56.0),
            context: Context::default(),
        }))
    }

    #[test]
    fn ratios_refer_to_pmemobj_with_as_many_threads() {
        let records = [
            run(System::Aquifer, 1, 300.0, 310.0),
            run(System::Aquifer, 1, 400.0, 400.0),
            run(System::Aquifer, 1, 500.0, 490.0),
            run(System::Pmemobj, 1, 900.0, 1000.0),
            run(System::Aquifer, 2, 450.0, 200.0),
        ];
        let text = render(&records);
        let lines = [
            "| two-words | 1 | aquifer, 85 % | 3 | 400 | 300-500 | 2.25 | 400 | 2.50 | 1.00 | 1.002 | 56 |",
            "| two-words | 1 | pmemobj | 1 | 900 | 900-900 | 1.00 | 1000 | 1.00 | 1.00 | - | - |",
            "| two-words | 2 | aquifer, 85 % | 1 | 450 | 450-450 | - | 200 | - | 2.00 | 1.002 | 56 |",
        ];
        lines.iter().for_each(|line| assert!(text.contains(line), "{line} is not in {text}"));
    }

    #[test]
    fn guarantees_are_named_once() {
        let records = [
            run(System::AquiferEmulated, 1, 900.0, 900.0),
            run(System::AquiferEmulated, 1, 900.0, 900.0),
            run(System::LmdbSync, 1, 900.0, 900.0),
        ];
        let text = render(&records);
        assert_eq!(text.matches("max(500 ns, bytes / 1.5 GB/s)").count(), 1, "{text}");
        assert!(
            text.contains("| lmdb-sync | durable at commit, ACID, one writer; syncing is free"),
            "{text}"
        );
    }
}
