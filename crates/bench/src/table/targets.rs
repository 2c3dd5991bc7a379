//! What the project promises, beside what the records show.

use super::{Group, groups, markdown, number};
use crate::distribution::Distribution::{self, ScatteredHot, Uniform, Zipf};
use crate::peer::Kind;
use crate::sample::Record;
use crate::workload::Point;

const SWAP_WRITTEN_PER_CHANGED_MIN: f64 = 27.0;
const ZIPF_WRITTEN_RATIO_MIN: f64 = 25.0;
const FIO_RATIO_MIN: f64 = 0.90;

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

/// The promises for which the records have the figures.
pub fn render(records: &[Record]) -> String {
    let mut rows = Vec::new();
    for group in groups(records) {
        throughput(&group, &mut rows);
        written(&group, &mut rows);
    }
    markdown("Promises", &["what", "measured", "promised", "kept"], &rows)
}

fn throughput(group: &Group, rows: &mut Vec<Vec<String>>) {
    for (distribution, read_percent, threads, least) in OVER_SWAP {
        let point = Point { distribution, read_percent, threads };
        let Some(ours) = group.row(point, Kind::Aquifer) else { continue };
        let what = format!("{distribution}, {read_percent} % reads, {threads} threads");
        if let Some(swap) = group.row(point, Kind::Swap) {
            let ratio = ours.ops_per_s / swap.ops_per_s;
            rows.push(line(format!("{what}: over swap"), ratio, least));
        }
        if let Some(fio) = group.fio(threads).filter(|_| distribution == Uniform) {
            let ratio = ours.ops_per_s / fio;
            rows.push(line(format!("{what}: over fio"), ratio, FIO_RATIO_MIN));
        }
    }
}

fn written(group: &Group, rows: &mut Vec<Vec<String>>) {
    for point in group.points.keys().filter(|point| point.read_percent == 0) {
        let of = |peer| group.row(*point, peer).and_then(|row| row.written_per_changed);
        let what = format!("{}, all writes, {} threads", point.distribution, point.threads);
        match (point.distribution, of(Kind::Swap), of(Kind::Aquifer)) {
            (Uniform, Some(swap), _) => {
                let bound = SWAP_WRITTEN_PER_CHANGED_MIN;
                rows.push(line(format!("{what}: bytes swap writes per byte"), swap, bound));
            }
            (Zipf, Some(swap), Some(ours)) => {
                let bound = ZIPF_WRITTEN_RATIO_MIN;
                rows.push(line(format!("{what}: times fewer bytes than swap"), swap / ours, bound));
            }
            _ => {}
        }
    }
}

/// A figure that is to be at least so much.
fn line(what: String, measured: f64, least: f64) -> Vec<String> {
    let kept = if measured >= least { "yes" } else { "NO" }.to_owned();
    vec![what, number(Some(measured), 2), format!("at least {least}"), kept]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::tests::sample;

    #[test]
    fn promises_are_judged() {
        let record = |peer, ops| Record::Sample(Box::new(sample(peer, ops)));
        let records = [record(Kind::Swap, 10_000.0), record(Kind::Aquifer, 39_000.0)];
        let text = render(&records);
        let expected = "| scattered-hot, 50 % reads, 8 threads: over swap | 3.90 | at least 4 | NO |";
        assert!(text.contains(expected), "{text}");
        assert_eq!(render(&records[..1]), "");
    }
}
