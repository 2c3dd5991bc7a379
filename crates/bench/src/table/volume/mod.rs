//! Mapped files of a volume beside mmap: medians, and ratios to the best of the mmap peers and to the disk.

mod kv;
mod metadata;
mod oltp;
mod pagerank;
mod reads;
mod updates;

use std::collections::{BTreeMap, BTreeSet};

use aquifer_base::units::format_size;

use crate::sample::{Record, median};
use crate::volume::Run;
use crate::volume::peer::Peer;

const NOTE: &str = "\nMedians of the runs. RAM: limit of the control group of each process, page cache, page tables and buffers included; the \
    volume is told to use less of it. x mmap: against the best kind of mmap in the same cell. CPU: user and system time of the process; what the \
    kernel's own threads write back and reclaim is in nobody's.\n";

/// The tables.
pub fn render(records: &[Record]) -> String {
    let tables = [
        reads::render(records),
        updates::render(records),
        pagerank::render(records),
        kv::render(records),
        oltp::render(records),
        metadata::render(records),
    ];
    let tables: Vec<_> = tables.into_iter().filter(|table| !table.is_empty()).collect();
    tables.join("\n")
}

/// Files that can be compared with one another.
type Files = (u64, u64);

/// Size of the mapped file, and of everybody's memory.
fn files(run: &Run) -> Files {
    (run.setup.data_bytes, run.setup.limit_bytes)
}

fn title(what: &str, (data_bytes, limit_bytes): Files) -> String {
    format!("{what}: {} in {} of RAM", format_size(data_bytes), format_size(limit_bytes))
}

/// Runs of each peer in each cell.
struct Groups<'a, C, S>(BTreeMap<(C, Peer), Vec<&'a S>>);

impl<'a, C: Ord + Copy, S> Groups<'a, C, S> {
    /// All tables' worth of them, by the files that they are of.
    fn by_files(
        samples: impl Iterator<Item = &'a S>,
        run: impl Fn(&S) -> &Run,
        cell: impl Fn(&S) -> C,
    ) -> BTreeMap<Files, Self> {
        let mut groups: BTreeMap<Files, Self> = BTreeMap::new();
        for sample in samples {
            let files = files(run(sample));
            let group = &mut groups.entry(files).or_insert_with(|| Groups(BTreeMap::new())).0;
            group.entry((cell(sample), run(sample).setup.peer)).or_default().push(sample);
        }
        groups
    }

    /// The median of a figure; none if nobody ran, or none of the runs has it.
    fn median(&self, cell: C, peer: Peer, figure: impl Fn(&S) -> Option<f64>) -> Option<f64> {
        let runs = self.0.get(&(cell, peer))?;
        median(runs.iter().filter_map(|run| figure(run)).collect())
    }

    /// The largest median of the mmap peers.
    fn best_mmap(&self, cell: C, figure: impl Fn(&S) -> Option<f64>) -> Option<f64> {
        let peers: BTreeSet<Peer> =
            self.0.keys().map(|(_, peer)| *peer).filter(|peer| peer.is_mmap()).collect();
        let medians = peers.into_iter().filter_map(|peer| self.median(cell, peer, &figure));
        medians.fold(None, |best: Option<f64>, one| Some(best.map_or(one, |best| best.max(one))))
    }

    /// Least and most of a figure.
    fn range(&self, cell: C, peer: Peer, figure: impl Fn(&S) -> f64) -> (f64, f64) {
        let runs = self.0.get(&(cell, peer)).into_iter().flatten();
        runs.map(|run| figure(run))
            .fold((f64::INFINITY, 0.0), |(least, most), one| (least.min(one), most.max(one)))
    }

    fn runs(&self, cell: C, peer: Peer) -> String {
        self.0.get(&(cell, peer)).map_or(0, Vec::len).to_string()
    }

    fn keys(&self) -> impl Iterator<Item = (C, Peer)> + '_ {
        self.0.keys().copied()
    }
}

fn ratio(of: Option<f64>, to: Option<f64>) -> Option<f64> {
    Some(of? / to.filter(|to| *to > 0.0)?)
}

/// A run for tests of tables.
#[cfg(test)]
fn run(peer: Peer, number: u32) -> Run {
    use crate::machine::Context;
    use crate::volume::peer::Setup;
    Run {
        run: number,
        setup: Setup {
            peer,
            path: "/var/tmp/host".into(),
            data_bytes: 2 << 30,
            image_bytes: (peer == Peer::Volume).then_some(3 << 30),
            limit_bytes: 256 << 20,
            volume_ram_bytes: (peer == Peer::Volume).then_some(200 << 20),
        },
        context: Context { command: "aquifer-bench volume".to_owned(), ..Context::default() },
    }
}

/// A cost of two seconds with round numbers, for tests of tables.
#[cfg(test)]
fn cost() -> crate::volume::Cost {
    use crate::device::Counters;
    use crate::io::Io;
    use crate::process::{Memory, Usage};
    crate::volume::Cost {
        seconds: 2.0,
        usage: Usage { user_ns: 1_000_000_000, system_ns: 500_000_000, minor_faults: 1, major_faults: 2 },
        io: Io { read_bytes: 4096 * 1000, written_bytes: 8192 * 1000, ..Io::default() },
        device: Counters { reads: 1000, read_bytes: 4096 * 1000, writes: 500, written_bytes: 16384 * 1000 },
        memory: Memory { rss_bytes: 100 << 20, vm_pte_bytes: 4 << 20 },
        charged_bytes: 128 << 20,
    }
}
