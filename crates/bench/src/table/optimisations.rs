//! The table of what each optimisation of the durable heap gives.

use std::collections::BTreeMap;

use super::{markdown, mebibytes, number};
use crate::durable::heaps::Medium;
use crate::durable::optimisations::sample::Optimisation;
use crate::durable::optimisations::switch::Off;
use crate::durable::workloads::engine::Program;
use crate::sample::Record;
use crate::study::median_of as median;

const COLUMNS: [&str; 12] = [
    "medium", "threads", "workload", "without", "runs", "tx/s", "gives %", "CPU ns", "gives %", "fences",
    "bytes", "map MiB",
];
const MEAN_COLUMNS: [&str; 6] = ["medium", "threads", "without", "tx/s: gives %", "CPU: gives %", "paper %"];
const NOTE: &str = "\ngives: how much more throughput there is with it than without it, of tx/s and of transactions for a second of CPU. \
    CPU ns, fences and bytes persisted are for one transaction; CPU time is that of the whole process.\n";

/// Slower memory or not, threads, and the program.
type Point = (Medium, u64, Program);

/// Medians of the runs without one optimisation at one point.
struct Row {
    runs: usize,
    wall_ns: f64,
    cpu_ns: f64,
    fences: f64,
    bytes: f64,
    map_bytes: f64,
}

impl Row {
    /// Of at least one run.
    fn of(runs: &[&Optimisation]) -> Self {
        let medians = |value: fn(&Optimisation) -> f64| {
            median(runs.iter().map(|run| value(run)).collect()).unwrap_or(f64::NAN)
        };
        Self {
            runs: runs.len(),
            wall_ns: medians(|run| run.workload.wall_ns),
            cpu_ns: medians(|run| run.workload.cpu_ns),
            fences: medians(|run| run.workload.fences),
            bytes: medians(|run| run.workload.bytes),
            map_bytes: medians(|run| run.map_bytes as f64),
        }
    }

    /// How much more throughput `with` has, by the clock and by CPU time, in percent.
    fn gains(&self, with: &Self) -> [f64; 2] {
        [self.wall_ns / with.wall_ns, self.cpu_ns / with.cpu_ns].map(|ratio| 100.0 * (ratio - 1.0))
    }
}

type Rows = BTreeMap<(Point, Off), Row>;

/// Both tables.
pub fn render(records: &[Record]) -> String {
    let mut runs: BTreeMap<(Point, Off), Vec<&Optimisation>> = BTreeMap::new();
    for record in records {
        if let Record::Optimisations(run) = record {
            let point = (run.workload.medium, run.workload.threads, run.workload.program);
            runs.entry((point, run.off)).or_default().push(run);
        }
    }
    if runs.is_empty() {
        return String::new();
    }
    let rows: Rows = runs.iter().map(|(&key, runs)| (key, Row::of(runs))).collect();
    let lines: Vec<_> = rows.iter().map(|(&key, row)| line(&rows, key, row)).collect();
    let medians = markdown("Optimisations: medians", &COLUMNS, &lines);
    format!("{medians}{NOTE}\n{}", means(&rows))
}

/// What one gives at one point, where it was also measured with all.
fn gains(rows: &Rows, (point, off): (Point, Off), row: &Row) -> Option<[f64; 2]> {
    let with = rows.get(&(point, Off::Nothing)).filter(|_| off != Off::Nothing)?;
    Some(row.gains(with))
}

fn line(rows: &Rows, key: (Point, Off), row: &Row) -> Vec<String> {
    let ((medium, threads, program), off) = key;
    let [wall, cpu] = gains(rows, key, row).map_or([None; 2], |gains| gains.map(Some));
    vec![
        medium.to_string(),
        threads.to_string(),
        program.to_string(),
        off.to_string(),
        row.runs.to_string(),
        number(Some(1e9 / row.wall_ns), 0),
        number(wall, 1),
        number(Some(row.cpu_ns), 0),
        number(cpu, 1),
        number(Some(row.fences), 2),
        number(Some(row.bytes), 0),
        mebibytes(Some(row.map_bytes)),
    ]
}

/// Over all programs, beside what the paper says.
fn means(rows: &Rows) -> String {
    let mut groups: BTreeMap<(Medium, u64, Off), Vec<[f64; 2]>> = BTreeMap::new();
    for (&key, row) in rows {
        let ((medium, threads, _), off) = key;
        groups.entry((medium, threads, off)).or_default().extend(gains(rows, key, row));
    }
    let line = |((medium, threads, off), gains): ((Medium, u64, Off), Vec<[f64; 2]>)| {
        let mean = |n: usize| gains.iter().map(|gains| gains[n]).sum::<f64>() / gains.len() as f64;
        let cells = [medium.to_string(), threads.to_string(), off.to_string()];
        let numbers = [Some(mean(0)), Some(mean(1)), off.paper_percent()].map(|cell| number(cell, 1));
        cells.into_iter().chain(numbers).collect::<Vec<_>>()
    };
    let lines: Vec<_> = groups.into_iter().filter(|(_, gains)| !gains.is_empty()).map(line).collect();
    markdown("Optimisations: means over the programs", &MEAN_COLUMNS, &lines)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::durable::store::Setup;
    use crate::durable::workloads::engine::{Contender, Engine};
    use crate::durable::workloads::sample::Workload;
    use crate::machine::Context;

    fn run(off: Off, program: Program, wall_ns: f64, cpu_ns: f64) -> Record {
        let setup = Setup {
            dir: "/dev/shm".into(),
            is_memory: true,
            capacity_bytes: 1 << 30,
            latency_ns: 500,
            bandwidth_bytes_per_s: 1_000_000_000,
        };
        let workload = Workload {
            contender: Contender { engine: Engine::Aquifer, utilisation_percent: Some(50) },
            medium: Medium::Raw,
            program,
            threads: 1,
            run: 1,
            seed: 1,
            entries: 1000,
            setup,
            warmup_transactions: 10,
            transactions: 40,
            cpu_ns,
            wall_ns,
            fences: 1.0,
            bytes: 100.0,
            lines: 2.0,
            cleaned_chunks: Some(0),
            live_share: Some(0.5),
            context: Context::default(),
        };
        Record::Optimisations(Box::new(Optimisation { off, map_bytes: 3 << 20, workload }))
    }

    #[test]
    fn gains_are_against_the_heap_with_everything() {
        let text = render(&[
            run(Off::Nothing, Program::Queue, 1000.0, 800.0),
            run(Off::HotNodes, Program::Queue, 1500.0, 1000.0),
            run(Off::Nothing, Program::Btree, 1000.0, 800.0),
            run(Off::HotNodes, Program::Btree, 1000.0, 600.0),
            // Without the heap that has everything there is nothing to say.
            run(Off::HotNodes, Program::Tpcc, 1000.0, 600.0),
        ]);
        for line in [
            "| raw | 1 | queue | nothing | 1 | 1000000 | - | 800 | - | 1.00 | 100 | 3 |",
            "| raw | 1 | queue | hot-nodes | 1 | 666667 | 50.0 | 1000 | 25.0 | 1.00 | 100 | 3 |",
            "| raw | 1 | tpcc | hot-nodes | 1 | 1000000 | - | 600 | - | 1.00 | 100 | 3 |",
            "| raw | 1 | hot-nodes | 25.0 | 0.0 | 30.1 |",
        ] {
            assert!(text.contains(line), "{line} is not in {text}");
        }
    }
}
