//! Reads.

use super::{Groups, NOTE, ratio, title};
use crate::sample::Record;
use crate::table::{markdown, mebibytes, number};
use crate::volume::Cost;
use crate::volume::peer::Peer;
use crate::volume::reads::sample::{Access, Cell, Reads};

const COLUMNS: [&str; 13] = [
    "accesses",
    "threads",
    "peer",
    "runs",
    "reads/s, or MiB/s of a scan",
    "least, most",
    "x mmap",
    "x device",
    "CPU us each",
    "of it system",
    "device bytes read each",
    "RSS + PTE MiB",
    "group MiB",
];

pub fn render(records: &[Record]) -> String {
    let samples = records.iter().filter_map(|record| match record {
        Record::VolumeReads(sample) => Some(&**sample),
        _ => None,
    });
    let tables = Groups::by_files(samples, |sample| &sample.run, |sample| sample.cell);
    let render = |(&files, groups): (_, &Groups<'_, Cell, Reads>)| {
        let lines: Vec<_> = groups.keys().map(|(cell, peer)| line(groups, cell, peer)).collect();
        markdown(&title("Reads of a mapped file", files), &COLUMNS, &lines) + NOTE
    };
    tables.iter().map(render).collect::<Vec<_>>().join("\n")
}

fn line(groups: &Groups<'_, Cell, Reads>, cell: Cell, peer: Peer) -> Vec<String> {
    let speed = |sample: &Reads| shown(cell, sample.ops_per_s);
    let own = groups.median(cell, peer, |sample| Some(speed(sample)));
    let (least, most) = groups.range(cell, peer, speed);
    let each = |figure: fn(&Cost) -> u64| {
        groups.median(cell, peer, |sample| Some(Cost::each(figure(&sample.cost?), sample.ops)))
    };
    let microseconds = |figure| number(each(figure).map(|ns| ns / 1e3), 2);
    vec![
        cell.access.to_string(),
        cell.threads.to_string(),
        peer.to_string(),
        groups.runs(cell, peer),
        number(own, 0),
        format!("{least:.0}, {most:.0}"),
        number(ratio(own, groups.best_mmap(cell, |sample| Some(speed(sample)))), 2),
        number(ratio(own, groups.median(cell, Peer::Device, |sample| Some(speed(sample)))), 2),
        microseconds(|cost| cost.usage.cpu_ns()),
        microseconds(|cost| cost.usage.system_ns),
        number(each(|cost| cost.io.read_bytes), 0),
        mebibytes(groups.median(cell, peer, |sample| Some(sample.cost?.memory.total_bytes() as f64))),
        mebibytes(groups.median(cell, peer, |sample| Some(sample.cost?.charged_bytes as f64))),
    ]
}

/// A scan is shown in mebibytes.
fn shown(cell: Cell, words_per_s: f64) -> f64 {
    if cell.access == Access::Scan { words_per_s * 8.0 / f64::from(1 << 20) } else { words_per_s }
}

#[cfg(test)]
mod tests {
    use super::super::{cost, run};
    use super::*;

    #[test]
    fn ratios_are_to_the_best_mmap_and_to_the_device() {
        let sample = |peer, number, access, ops_per_s| {
            let cell = Cell { access, threads: 8 };
            let cost = (peer != Peer::Device).then(cost);
            let run = run(peer, number);
            Record::VolumeReads(Box::new(Reads { cell, ops: 1000, ops_per_s, warmup_s: 1.0, cost, run }))
        };
        let records = [
            sample(Peer::Mmap, 1, Access::Uniform, 10_000.0),
            sample(Peer::MmapRandom, 1, Access::Uniform, 20_000.0),
            sample(Peer::Volume, 1, Access::Uniform, 18_000.0),
            sample(Peer::Volume, 2, Access::Uniform, 36_000.0),
            sample(Peer::Volume, 3, Access::Uniform, 30_000.0),
            sample(Peer::Device, 1, Access::Uniform, 40_000.0),
            sample(Peer::Volume, 1, Access::Scan, 131_072.0),
        ];
        let text = render(&records);
        for line in [
            "### Reads of a mapped file: 2 GiB in 256 MiB of RAM",
            "| uniform | 8 | volume | 3 | 30000 | 18000, 36000 | 1.50 | 0.75 | 1500.00 | 500.00 | 4096 | 104 | 128 |",
            "| uniform | 8 | device (fio) | 1 | 40000 | 40000, 40000 | 2.00 | 1.00 | - | - | - | - | - |",
            "| scan | 8 | volume | 1 | 1 | 1, 1 | - | - |",
        ] {
            assert!(text.contains(line), "{line} is not in {text}");
        }
    }
}
