//! The tables of programs: medians, and what writing once gives over writing twice.

use std::collections::BTreeMap;

use super::{markdown, number};
use crate::durable::heaps::Medium;
use crate::durable::workloads::engine::{Contender, Engine, Program};
use crate::durable::workloads::sample::Workload;
use crate::sample::Record;
use crate::study::median_of as median;

const COLUMNS: [&str; 12] = [
    "medium",
    "workload",
    "threads",
    "system",
    "runs",
    "tx/s",
    "CPU ns",
    "fences",
    "bytes",
    "lines",
    "live %",
    "chunks cleaned",
];
const RATIO_COLUMNS: [&str; 10] = [
    "medium",
    "threads",
    "system",
    "workload",
    "tx/s over redo",
    "over undo",
    "bytes over redo",
    "over undo",
    "lines over redo",
    "over undo",
];
const NOTE: &str = "\nCPU ns, fences, bytes and lines of 64 bytes persisted are for one transaction; CPU time is that of the whole \
    process, and what cleaning writes is included. live: the share of the file's memory that is objects, at the end. tpcc is \
    TPC-C-like, not TPC-C.\n";
/// The row of means.
const MEAN: &str = "mean";

/// Throughput, bytes and lines over those with a redo log, and with an undo log.
type Ratios = [[f64; 3]; 2];
type Programs = Vec<(Program, Ratios)>;
type Key = (Medium, Program, u64, Contender);

/// Medians of the runs of one system at one point.
struct Row {
    runs: usize,
    per_s: f64,
    cpu_ns: f64,
    fences: f64,
    bytes: f64,
    lines: f64,
    live_share: Option<f64>,
    cleaned_chunks: Option<f64>,
}

impl Row {
    /// Of at least one run.
    fn of(runs: &[&Workload]) -> Self {
        let medians =
            |value: fn(&Workload) -> Option<f64>| median(runs.iter().filter_map(|run| value(run)).collect());
        let always = |value: fn(&Workload) -> Option<f64>| medians(value).unwrap_or(f64::NAN);
        Self {
            runs: runs.len(),
            per_s: always(|run| Some(1e9 / run.wall_ns)),
            cpu_ns: always(|run| Some(run.cpu_ns)),
            fences: always(|run| Some(run.fences)),
            bytes: always(|run| Some(run.bytes)),
            lines: always(|run| Some(run.lines)),
            live_share: medians(|run| run.live_share),
            cleaned_chunks: medians(|run| run.cleaned_chunks.map(|chunks| chunks as f64)),
        }
    }

    /// Throughput, bytes and lines over those of another one.
    fn over(&self, other: &Self) -> [f64; 3] {
        [self.per_s / other.per_s, self.bytes / other.bytes, self.lines / other.lines]
    }
}

type Rows = BTreeMap<Key, Row>;

/// All tables for which there are runs.
pub fn render(records: &[Record]) -> String {
    let mut runs: BTreeMap<Key, Vec<&Workload>> = BTreeMap::new();
    for record in records {
        if let Record::Workloads(run) = record {
            runs.entry((run.medium, run.program, run.threads, run.contender)).or_default().push(run);
        }
    }
    let rows: Rows = runs.iter().map(|(&key, runs)| (key, Row::of(runs))).collect();
    if rows.is_empty() {
        return String::new();
    }
    let lines: Vec<_> = rows.iter().map(|(&key, row)| line(key, row)).collect();
    let medians = markdown("Workloads: medians", &COLUMNS, &lines);
    let media: BTreeMap<Medium, &Workload> =
        runs.iter().map(|(&(medium, ..), runs)| (medium, runs[0])).collect();
    let media: String = media.values().map(|run| medium(run)).collect();
    format!("{medians}{NOTE}{media}\n{}", ratios(&rows))
}

/// What a medium is.
fn medium(run: &Workload) -> String {
    match run.medium {
        Medium::Emulated => format!(
            "emulated: each persist takes max({} ns, bytes / {} GB/s).\n",
            run.setup.latency_ns,
            run.setup.bandwidth_bytes_per_s as f64 / 1e9
        ),
        Medium::Raw => "raw: memory as fast as it is.\n".to_owned(),
    }
}

fn line((medium, program, threads, contender): Key, row: &Row) -> Vec<String> {
    vec![
        medium.to_string(),
        program.to_string(),
        threads.to_string(),
        contender.to_string(),
        row.runs.to_string(),
        number(Some(row.per_s), 0),
        number(Some(row.cpu_ns), 0),
        number(Some(row.fences), 3),
        number(Some(row.bytes), 0),
        number(Some(row.lines), 2),
        number(row.live_share.map(|share| 100.0 * share), 1),
        number(row.cleaned_chunks, 0),
    ]
}

/// The durable heap over both heaps in place, and means over the programs that all of them ran.
fn ratios(rows: &Rows) -> String {
    let mut groups: BTreeMap<(Medium, u64, Contender), Programs> = BTreeMap::new();
    for (&(medium, program, threads, contender), row) in rows {
        let other = |engine| {
            let contender = Contender { engine, utilisation_percent: None };
            rows.get(&(medium, program, threads, contender)).map(|other| row.over(other))
        };
        if contender.engine == Engine::Aquifer
            && let Some((redo, undo)) = other(Engine::Redo).zip(other(Engine::Undo))
        {
            groups.entry((medium, threads, contender)).or_default().push((program, [redo, undo]));
        }
    }
    let mut lines = Vec::new();
    for ((medium, threads, contender), programs) in groups {
        let mut add = |program: String, ratios: Ratios| {
            let mut line = vec![medium.to_string(), threads.to_string(), contender.to_string(), program];
            let cells = (0..3).flat_map(|n| ratios.map(|ratios| number(Some(ratios[n]), 2)));
            line.extend(cells);
            lines.push(line);
        };
        programs.iter().for_each(|&(program, ratios)| add(program.to_string(), ratios));
        add(MEAN.to_owned(), mean(&programs));
    }
    markdown("Workloads: written once over written twice", &RATIO_COLUMNS, &lines)
}

fn mean(programs: &[(Program, Ratios)]) -> Ratios {
    let sum = |other: usize, n: usize| programs.iter().map(|(_, ratios)| ratios[other][n]).sum::<f64>();
    [0, 1].map(|other| [0, 1, 2].map(|n| sum(other, n) / programs.len() as f64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::durable::store::Setup;
    use crate::machine::Context;

    fn run(engine: Engine, program: Program, wall_ns: f64, bytes: f64) -> Record {
        Record::Workloads(Box::new(Workload {
            contender: engine.contenders(&[85])[0],
            medium: Medium::Emulated,
            program,
            threads: 2,
            run: 1,
            seed: 1,
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
            fences: 1.0,
            bytes,
            lines: bytes / 50.0,
            cleaned_chunks: (engine == Engine::Aquifer).then_some(3),
            live_share: (engine == Engine::Aquifer).then_some(0.8125),
            context: Context::default(),
        }))
    }

    #[test]
    fn ratios_and_their_means() {
        let records = [
            run(Engine::Aquifer, Program::Queue, 500.0, 100.0),
            run(Engine::Redo, Program::Queue, 1000.0, 200.0),
            run(Engine::Undo, Program::Queue, 1500.0, 400.0),
            run(Engine::Aquifer, Program::Tpcc, 500.0, 100.0),
            run(Engine::Redo, Program::Tpcc, 500.0, 100.0),
            run(Engine::Undo, Program::Tpcc, 500.0, 100.0),
            // Without the others it counts in no mean.
            run(Engine::Aquifer, Program::Btree, 1.0, 1.0),
        ];
        let text = render(&records);
        for line in [
            "| emulated | queue | 2 | aquifer, 85 % | 1 | 2000000 | 600 | 1.000 | 100 | 2.00 | 81.2 | 3 |",
            "| emulated | 2 | aquifer, 85 % | queue | 2.00 | 3.00 | 0.50 | 0.25 | 0.50 | 0.25 |",
            "| emulated | 2 | aquifer, 85 % | mean | 1.50 | 2.00 | 0.75 | 0.62 | 0.75 | 0.62 |",
            "max(500 ns, bytes / 1 GB/s)",
        ] {
            assert!(text.contains(line), "{line} is not in {text}");
        }
    }
}
