//! PageRank.

use super::{Groups, NOTE, ratio, title};
use crate::sample::Record;
use crate::table::{markdown, number};
use crate::volume::pagerank::sample::Pagerank;
use crate::volume::peer::Peer;

const COLUMNS: [&str; 13] = [
    "vertices",
    "edges",
    "iterations",
    "threads",
    "peer",
    "runs",
    "iterations done",
    "s an iteration",
    "M edges/s",
    "x mmap",
    "CPU s an iteration",
    "MiB read an iteration",
    "MiB written an iteration",
];
const EQUAL: &str = "The ranks of all peers that did all iterations are equal, bit by bit; those whose time was over before count with \
    what they did. mmap-sequential: with MADV_SEQUENTIAL for the edges. The sync after the last \
    iteration is in the time.\n";

/// Vertices' logarithm, edges, iterations, threads.
type Cell = (u32, u64, u32, u32);

pub fn render(records: &[Record]) -> String {
    let samples = records.iter().filter_map(|record| match record {
        Record::VolumePagerank(sample) => Some(&**sample),
        _ => None,
    });
    let cell =
        |sample: &Pagerank| (sample.layout.scale, sample.layout.edges, sample.iterations, sample.threads);
    let tables = Groups::by_files(samples, |sample| &sample.run, cell);
    let render = |(&files, groups): (_, &Groups<'_, Cell, Pagerank>)| {
        let lines: Vec<_> = groups.keys().map(|(cell, peer)| line(groups, cell, peer)).collect();
        markdown(&title("PageRank on a mapped file", files), &COLUMNS, &lines) + NOTE + EQUAL
    };
    tables.iter().map(render).collect::<Vec<_>>().join("\n")
}

fn line(groups: &Groups<'_, Cell, Pagerank>, cell: Cell, peer: Peer) -> Vec<String> {
    let speed = |sample: &Pagerank| Some(sample.edges_per_s());
    let own = groups.median(cell, peer, speed);
    let each = |total: fn(&Pagerank) -> f64, digits| {
        let figure = |sample: &Pagerank| Some(total(sample) / sample.iterations_done());
        number(groups.median(cell, peer, figure), digits)
    };
    vec![
        (1u64 << cell.0).to_string(),
        cell.1.to_string(),
        cell.2.to_string(),
        cell.3.to_string(),
        peer.to_string(),
        groups.runs(cell, peer),
        number(groups.median(cell, peer, |sample| Some(sample.iterations_done())), 2),
        number(groups.median(cell, peer, |sample| Some(sample.iteration_s())), 2),
        number(own.map(|edges| edges / 1e6), 1),
        number(ratio(own, groups.best_mmap(cell, speed)), 2),
        each(|sample| sample.cost.usage.cpu_ns() as f64 / 1e9, 2),
        each(|sample| sample.cost.io.read_bytes as f64 / f64::from(1 << 20), 0),
        each(|sample| sample.cost.io.written_bytes as f64 / f64::from(1 << 20), 0),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::{cost, run};
    use super::*;
    use crate::volume::pagerank::Layout;

    #[test]
    fn edges_are_counted_in_all_iterations() {
        let sample = |peer, iterations| {
            let (layout, cost, run) = (Layout { scale: 20, edges: 4_000_000 }, cost(), run(peer, 1));
            let (seed, threads, sync_s, digest) = (1, 8, 0.1, Some(5));
            let edges_done = layout.edges * u64::from(iterations);
            let sample =
                Pagerank { layout, seed, iterations, threads, sync_s, edges_done, digest, cost, run };
            Record::VolumePagerank(Box::new(sample))
        };
        let text = render(&[sample(Peer::MmapSequential, 4), sample(Peer::Volume, 4)]);
        for line in [
            "### PageRank on a mapped file: 2 GiB in 256 MiB of RAM",
            "| 1048576 | 4000000 | 4 | 8 | volume | 1 | 4.00 | 0.50 | 8.0 | 1.00 | 0.38 | 1 | 2 |",
        ] {
            assert!(text.contains(line), "{line} is not in {text}");
        }
    }
}
