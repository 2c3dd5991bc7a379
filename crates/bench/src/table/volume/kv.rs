//! YCSB.

use super::{Groups, NOTE, ratio, title};
use crate::sample::Record;
use crate::table::{markdown, number};
use crate::volume::Cost;
use crate::volume::kv::Workload;
use crate::volume::kv::sample::Kv;
use crate::volume::peer::Peer;

const COLUMNS: [&str; 11] = [
    "workload",
    "threads",
    "peer",
    "runs",
    "ops/s",
    "least, most",
    "x mmap",
    "p50 us",
    "p99 us",
    "CPU us each",
    "bytes written each, with the sync after",
];

/// Workload, threads.
type Cell = (Workload, u32);

pub fn render(records: &[Record]) -> String {
    let samples = records.iter().filter_map(|record| match record {
        Record::VolumeKv(sample) => Some(&**sample),
        _ => None,
    });
    let cell = |sample: &Kv| (sample.workload, sample.threads);
    let tables = Groups::by_files(samples, |sample| &sample.run, cell);
    let render = |(&files, groups): (_, &Groups<'_, Cell, Kv>)| {
        let lines: Vec<_> = groups.keys().map(|(cell, peer)| line(groups, cell, peer)).collect();
        markdown(&title("YCSB on a mapped file", files), &COLUMNS, &lines) + NOTE
    };
    tables.iter().map(render).collect::<Vec<_>>().join("\n")
}

fn line(groups: &Groups<'_, Cell, Kv>, cell: Cell, peer: Peer) -> Vec<String> {
    let per_s = |sample: &Kv| Some(sample.per_s());
    let own = groups.median(cell, peer, per_s);
    let (least, most) = groups.range(cell, peer, Kv::per_s);
    let microseconds =
        |ns: fn(&Kv) -> f64| number(groups.median(cell, peer, |sample| Some(ns(sample) / 1e3)), 1);
    vec![
        cell.0.to_string(),
        cell.1.to_string(),
        peer.to_string(),
        groups.runs(cell, peer),
        number(own, 0),
        format!("{least:.0}, {most:.0}"),
        number(ratio(own, groups.best_mmap(cell, per_s)), 2),
        microseconds(|sample| sample.latency.p50_ns as f64),
        microseconds(|sample| sample.latency.p99_ns as f64),
        microseconds(|sample| Cost::each(sample.cost.usage.cpu_ns(), sample.ops)),
        number(groups.median(cell, peer, |sample| Some(Cost::each(sample.written_bytes, sample.ops))), 0),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::{cost, run};
    use super::*;
    use crate::page_size::sample::Latency;

    #[test]
    fn operations_are_against_the_best_mmap() {
        let sample = |peer, ops| {
            let latency = Latency { mean_ns: 2e4, p50_ns: 10_000, p99_ns: 90_000, max_ns: 1_000_000 };
            Record::VolumeKv(Box::new(Kv {
                workload: Workload::A,
                threads: 8,
                records: 1000,
                inserted: 0,
                ops,
                latency,
                sync_s: 0.1,
                written_bytes: 1_000_000,
                warmup_s: 1.0,
                cost: cost(),
                run: run(peer, 1),
            }))
        };
        let text =
            render(&[sample(Peer::Mmap, 1000), sample(Peer::MmapRandom, 2000), sample(Peer::Volume, 5000)]);
        for line in [
            "### YCSB on a mapped file: 2 GiB in 256 MiB of RAM",
            "| A | 8 | volume | 1 | 2500 | 2500, 2500 | 2.50 | 10.0 | 90.0 | 300.0 | 200 |",
        ] {
            assert!(text.contains(line), "{line} is not in {text}");
        }
    }
}
