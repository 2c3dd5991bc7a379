//! Small updates.

use super::{Groups, NOTE, ratio, title};
use crate::sample::Record;
use crate::table::{markdown, number};
use crate::volume::Cost;
use crate::volume::peer::Peer;
use crate::volume::updates::sample::Updates;

const COLUMNS: [&str; 12] = [
    "bytes",
    "a sync every",
    "peer",
    "runs",
    "updates/s",
    "least, most",
    "x mmap",
    "ms a sync",
    "CPU us each",
    "bytes written each, process",
    "of mmap's least",
    "bytes written each, disk",
];
const WRITTEN: &str = "Bytes written: of the process by /proc/self/io, where a page of the page cache counts once each time that it becomes \
    dirty, and a large folio as a whole; of the disk by its counters in /sys in the same seconds, with the file system's journal and whatever others write. Of mmap's least: \
    the process's bytes against the least of the mmap peers.\n";

/// Bytes of an update, updates between syncs.
type Cell = (u64, u64);

pub fn render(records: &[Record]) -> String {
    let samples = records.iter().filter_map(|record| match record {
        Record::VolumeUpdates(sample) => Some(&**sample),
        _ => None,
    });
    let cell = |sample: &Updates| (sample.update_bytes, sample.every);
    let tables = Groups::by_files(samples, |sample| &sample.run, cell);
    let render = |(&files, groups): (_, &Groups<'_, Cell, Updates>)| {
        let lines: Vec<_> = groups.keys().map(|(cell, peer)| line(groups, cell, peer)).collect();
        markdown(&title("Updates of a mapped file", files), &COLUMNS, &lines) + NOTE + WRITTEN
    };
    tables.iter().map(render).collect::<Vec<_>>().join("\n")
}

fn line(groups: &Groups<'_, Cell, Updates>, cell: Cell, peer: Peer) -> Vec<String> {
    let per_s = |sample: &Updates| Some(sample.per_s());
    let own = groups.median(cell, peer, per_s);
    let (least, most) = groups.range(cell, peer, Updates::per_s);
    let written = groups.median(cell, peer, |sample| Some(sample.written_each()));
    // The best of negative numbers is the least.
    let least_written = groups.best_mmap(cell, |sample| Some(-sample.written_each())).map(|bytes| -bytes);
    let sync_ms = |sample: &Updates| Some(sample.sync_s * 1e3 / sample.syncs.max(1) as f64);
    let cpu_us = |sample: &Updates| Some(Cost::each(sample.cost.usage.cpu_ns(), sample.updates) / 1e3);
    vec![
        cell.0.to_string(),
        cell.1.to_string(),
        peer.to_string(),
        groups.runs(cell, peer),
        number(own, 0),
        format!("{least:.0}, {most:.0}"),
        number(ratio(own, groups.best_mmap(cell, per_s)), 2),
        number(groups.median(cell, peer, sync_ms), 2),
        number(groups.median(cell, peer, cpu_us), 1),
        number(written, 0),
        number(ratio(written, least_written), 2),
        number(groups.median(cell, peer, |sample| Some(sample.disk_written_each())), 0),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::{cost, run};
    use super::*;

    #[test]
    fn bytes_are_for_each_update_and_against_the_least() {
        let sample = |peer, updates| {
            let (cost, run) = (cost(), run(peer, 1));
            let (every, update_bytes, syncs, sync_s, warmup_s) = (100, 64, 10, 0.5, 1.0);
            Record::VolumeUpdates(Box::new(Updates {
                every,
                update_bytes,
                updates,
                syncs,
                sync_s,
                warmup_s,
                cost,
                run,
            }))
        };
        let text =
            render(&[sample(Peer::Mmap, 500), sample(Peer::MmapRandom, 1000), sample(Peer::Volume, 4000)]);
        for line in [
            "### Updates of a mapped file: 2 GiB in 256 MiB of RAM",
            "| 64 | 100 | mmap | 1 | 250 | 250, 250 | 0.50 | 50.00 | 3000.0 | 16384 | 2.00 | 32768 |",
            "| 64 | 100 | volume | 1 | 2000 | 2000, 2000 | 4.00 | 50.00 | 375.0 | 2048 | 0.25 | 4096 |",
        ] {
            assert!(text.contains(line), "{line} is not in {text}");
        }
    }
}
