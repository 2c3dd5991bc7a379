//! What the project promises, beside what the records show.

use super::others::{expected_at_live_fill, written_per_appended};
use super::{Group, groups, markdown, number, references};
use crate::distribution::Distribution::{self, ScatteredHot, Uniform, Zipf};
use crate::overhead::{FAULT, KERNEL_FAULT, LOOKUP};
use crate::peer::Kind;
use crate::sample::{Record, WriteAmp};
use crate::workload::Point;

const LOOKUP_NS_MAX: f64 = 50.0;
const FAULT_RATIO_MAX: f64 = 4.0;
const BUDGET_SHARE_MAX: f64 = 1.05;
const METADATA_SHARE_MAX: f64 = 0.15;
/// The fill at which the promise about bytes written is made.
const PROMISED_FILL_PERCENT: u32 = 67;
const WRITTEN_PER_CHANGED_MAX: f64 = 2.0;
const THEORY_ERROR_PERCENT_MAX: f64 = 10.0;
const SWAP_WRITTEN_PER_CHANGED_MIN: f64 = 27.0;
const ZIPF_WRITTEN_RATIO_MIN: f64 = 25.0;
const FIO_RATIO_MIN: f64 = 0.90;
const HANDLE_HIT_NS_MAX: f64 = 50.0;
const FAULT_OVER_HIT_MIN: f64 = 50.0;

/// Least throughput over kernel swap: distribution, percent of reads, threads, ratio.
const OVER_SWAP: [(Distribution, u32, usize, f64); 7] = [
    (Uniform, 100, 32, 0.95),
    (ScatteredHot, 100, 1, 4.0),
    (ScatteredHot, 100, 8, 4.0),
    (ScatteredHot, 50, 8, 4.0),
    (ScatteredHot, 0, 8, 4.0),
    (Zipf, 100, 8, 1.6),
    (Zipf, 50, 8, 2.5),
];

enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

/// The promises for which the records have the figures.
pub fn render(records: &[Record]) -> String {
    let mut rows = Vec::new();
    for group in groups(records) {
        throughput(&group, &mut rows);
        written(&group, &mut rows);
    }
    for record in records {
        match record {
            Record::WriteAmp(row) => write_amp(row, &mut rows),
            Record::Budget(row) => {
                let what = format!("memory over budget, {} objects", row.objects);
                rows.push(line(what, row.share_of_budget(), Bound::AtMost(BUDGET_SHARE_MAX)));
                let what = format!("metadata over budget, {} objects", row.objects);
                rows.push(line(what, row.metadata_share(), Bound::AtMost(METADATA_SHARE_MAX)));
            }
            _ => {}
        }
    }
    overhead(records, &mut rows);
    handles_and_batches(records, &mut rows);
    markdown("Promises", &["what", "measured", "promised", "kept"], &rows)
}

fn throughput(group: &Group, rows: &mut Vec<Vec<String>>) {
    for (distribution, read_percent, threads, least) in OVER_SWAP {
        let point = Point { distribution, read_percent, threads };
        let Some(ours) = group.row(point, Kind::Aquifer) else { continue };
        let what = format!("{distribution}, {read_percent} % reads, {threads} threads");
        if let Some(swap) = group.row(point, Kind::Swap) {
            let ratio = ours.ops_per_s / swap.ops_per_s;
            rows.push(line(format!("{what}: over swap"), ratio, Bound::AtLeast(least)));
        }
        if let Some(fio) = group.fio(threads).filter(|_| distribution == Uniform) {
            let ratio = ours.ops_per_s / fio;
            rows.push(line(format!("{what}: over fio"), ratio, Bound::AtLeast(FIO_RATIO_MIN)));
        }
    }
}

fn written(group: &Group, rows: &mut Vec<Vec<String>>) {
    for point in group.points.keys().filter(|point| point.read_percent == 0) {
        let of = |peer| group.row(*point, peer).and_then(|row| row.written_per_changed);
        let what = format!("{}, all writes, {} threads", point.distribution, point.threads);
        match (point.distribution, of(Kind::Swap), of(Kind::Aquifer)) {
            (Uniform, Some(swap), _) => {
                let bound = Bound::AtLeast(SWAP_WRITTEN_PER_CHANGED_MIN);
                rows.push(line(format!("{what}: bytes swap writes per byte"), swap, bound));
            }
            (Zipf, Some(swap), Some(ours)) => {
                let bound = Bound::AtLeast(ZIPF_WRITTEN_RATIO_MIN);
                rows.push(line(format!("{what}: times fewer bytes than swap"), swap / ours, bound));
            }
            _ => {}
        }
    }
}

fn write_amp(row: &WriteAmp, rows: &mut Vec<Vec<String>>) {
    let fill = row.fill_percent;
    if fill == PROMISED_FILL_PERCENT {
        let written = row.device.written_bytes as f64 / row.changed_bytes.max(1) as f64;
        let what = format!("log {fill} % full: device bytes per object byte");
        rows.push(line(what, written, Bound::AtMost(WRITTEN_PER_CHANGED_MAX)));
    }
    let error = 100.0 * (written_per_appended(row) / expected_at_live_fill(row) - 1.0).abs();
    let what = format!("log {fill} % full: off the formula by %");
    rows.push(line(what, error, Bound::AtMost(THEORY_ERROR_PERCENT_MAX)));
}

fn overhead(records: &[Record], rows: &mut Vec<Vec<String>>) {
    let cost = |name: &str| {
        records.iter().find_map(|record| match record {
            Record::Overhead(overhead) if overhead.name == name => overhead.ns,
            _ => None,
        })
    };
    if let Some((ours, kernel)) = cost(FAULT).zip(cost(KERNEL_FAULT)) {
        let what = "fault on a cached object over the kernel's own fault".to_owned();
        rows.push(line(what, ours / kernel, Bound::AtMost(FAULT_RATIO_MAX)));
    }
    if let Some(lookup) = cost(LOOKUP) {
        rows.push(line("lookup, ns".to_owned(), lookup, Bound::AtMost(LOOKUP_NS_MAX)));
    }
}

/// The promise about hits is made for the smaller set: the larger one shows what the processor's caches
/// cost.
fn handles_and_batches(records: &[Record], rows: &mut Vec<Vec<String>>) {
    for handles in references::handles(records) {
        let Some(&(objects, ns)) = handles.hits.first() else { continue };
        rows.push(line(format!("handle hit, {objects} objects, ns"), ns, Bound::AtMost(HANDLE_HIT_NS_MAX)));
        let what = "fault on a cached object over a handle hit".to_owned();
        rows.push(line(what, handles.touch_ns / ns, Bound::AtLeast(FAULT_OVER_HIT_MIN)));
    }
    for batches in references::batches(records) {
        for (block, _, ratio) in batches.fio {
            let what = format!("batches of one thread: device reads over fio {block}, depth 32");
            rows.push(line(what, ratio, Bound::AtLeast(FIO_RATIO_MIN)));
        }
    }
}

fn line(what: String, measured: f64, bound: Bound) -> Vec<String> {
    let (words, limit, kept) = match bound {
        Bound::AtLeast(limit) => ("at least", limit, measured >= limit),
        Bound::AtMost(limit) => ("at most", limit, measured <= limit),
    };
    let kept = if kept { "yes" } else { "NO" }.to_owned();
    vec![what, number(Some(measured), 2), format!("{words} {limit}"), kept]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::references::sample::tests::batches;
    use crate::sample::tests::sample;

    #[test]
    fn promises_are_judged() {
        let record = |peer, ops| Record::Sample(Box::new(sample(peer, ops)));
        let records = [record(Kind::Swap, 10_000.0), record(Kind::Aquifer, 39_000.0)];
        let text = render(&records);
        let expected = "| scattered-hot, 50 % reads, 8 threads: over swap | 3.90 | at least 4 | NO |";
        assert!(text.contains(expected), "{text}");
        assert_eq!(render(&records[..1]), "");
        let batches = |reads| Record::Batches(Box::new(batches(reads, 500.0)));
        let line = "| batches of one thread: device reads over fio 4 KiB, depth 32 |";
        assert!(render(&[batches(1000)]).contains(&format!("{line} 0.90 | at least 0.9 | yes |")));
        assert!(render(&[batches(900)]).contains(&format!("{line} 0.80 | at least 0.9 | NO |")));
    }
}
