//! The micro-benchmark's table.

use std::collections::BTreeMap;

use aquifer_base::units::format_size;

use super::{markdown, mebibytes, number};
use crate::device::IDLE_WRITE_BYTES_PER_S;
use crate::peer::Kind;
use crate::proof::Proof;
use crate::sample::{Record, Sample};
use crate::study::median_of as median;
use crate::workload::Point;

const COLUMNS: [&str; 12] = [
    "accesses",
    "reads %",
    "threads",
    "peer",
    "ops/s",
    "x swap",
    "x fio",
    "p50 us",
    "p99 us",
    "written B/B",
    "RSS + PTE MiB",
    "metadata MiB",
];
/// The block size of fio that ratios refer to: what a page fault reads.
const FIO_REFERENCE: &str = "4 KiB";

/// Medians of one peer at one point.
#[derive(Clone, Debug)]
pub struct Row {
    /// The peer.
    pub peer: Kind,
    /// Block size for fio, else empty.
    pub variant: String,
    /// Number of runs.
    pub runs: usize,
    /// Accesses per second.
    pub ops_per_s: f64,
    /// Median latency.
    pub p50_ns: f64,
    /// 99th percentile.
    pub p99_ns: f64,
    /// Device bytes written per byte changed.
    pub written_per_changed: Option<f64>,
    /// RSS and page tables.
    pub memory_bytes: f64,
    /// The peer's own tables.
    pub metadata_bytes: Option<f64>,
}

/// All samples with the same data, RAM and object size.
#[derive(Clone, Debug)]
pub struct Group {
    /// Bytes of all objects.
    pub data_bytes: u64,
    /// RAM.
    pub ram_bytes: u64,
    /// Bytes of one object.
    pub object_bytes: u64,
    /// The rows of each point, in the order of [`Kind`].
    pub points: BTreeMap<Point, Vec<Row>>,
    /// Samples before which other programs were writing to the device.
    pub disturbed: usize,
    /// What proving an object that was read takes: medians of all samples.
    pub proof: Option<Proof>,
}

impl Group {
    /// What `peer` did at `point`.
    pub fn row(&self, point: Point, peer: Kind) -> Option<&Row> {
        self.points.get(&point)?.iter().find(|row| row.peer == peer)
    }

    /// fio's reads of 4 KiB per second with `threads` jobs.
    pub fn fio(&self, threads: usize) -> Option<f64> {
        let rows =
            self.points.iter().filter(|(point, _)| point.threads == threads).flat_map(|(_, rows)| rows);
        let mut fio = rows.filter(|row| row.peer == Kind::Fio && row.variant == FIO_REFERENCE);
        fio.next().map(|row| row.ops_per_s)
    }
}

/// Medians of all samples among `records`.
pub fn groups(records: &[Record]) -> Vec<Group> {
    type Runs<'a> = BTreeMap<(Kind, &'a str), Vec<&'a Sample>>;
    let mut sorted: BTreeMap<(u64, u64, u64), BTreeMap<Point, Runs<'_>>> = BTreeMap::new();
    for sample in samples(records) {
        let points = sorted.entry(scale_of(sample)).or_default();
        let runs = points.entry(sample.point).or_default();
        runs.entry((sample.peer, &sample.variant)).or_default().push(sample);
    }
    let rows = |runs: Runs<'_>| runs.into_values().map(|samples| row(&samples)).collect();
    let group = |((data_bytes, ram_bytes, object_bytes), points): (_, BTreeMap<Point, Runs<'_>>)| {
        let points = points.into_iter().map(|(point, runs)| (point, rows(runs))).collect();
        let scale = (data_bytes, ram_bytes, object_bytes);
        let here = || samples(records).filter(move |sample| scale_of(sample) == scale);
        let disturbed = here().filter(|sample| is_disturbed(sample)).count();
        let proofs: Vec<_> = here().filter_map(|sample| sample.proof).collect();
        Group { data_bytes, ram_bytes, object_bytes, points, disturbed, proof: Proof::median(&proofs) }
    };
    sorted.into_iter().map(group).collect()
}

fn samples(records: &[Record]) -> impl Iterator<Item = &Sample> {
    records.iter().filter_map(|record| match record {
        Record::Sample(sample) => Some(&**sample),
        _ => None,
    })
}

fn scale_of(sample: &Sample) -> (u64, u64, u64) {
    (sample.data_bytes, sample.ram_bytes, sample.object_bytes)
}

fn is_disturbed(sample: &Sample) -> bool {
    sample.background_write_bytes_per_s > IDLE_WRITE_BYTES_PER_S
}

/// Medians of `samples`, of which there is at least one.
fn row(samples: &[&Sample]) -> Row {
    let of =
        |value: &dyn Fn(&Sample) -> Option<f64>| median(samples.iter().filter_map(|s| value(s)).collect());
    let all = |value: &dyn Fn(&Sample) -> f64| of(&|sample| Some(value(sample))).unwrap_or(0.0);
    Row {
        peer: samples[0].peer,
        variant: samples[0].variant.clone(),
        runs: samples.len(),
        ops_per_s: all(&|sample| sample.ops_per_s),
        p50_ns: all(&|sample| sample.p50_ns as f64),
        p99_ns: all(&|sample| sample.p99_ns as f64),
        written_per_changed: of(&Sample::written_per_changed),
        memory_bytes: all(&|sample| sample.memory.total_bytes() as f64),
        metadata_bytes: of(&|sample| sample.metadata_bytes.map(|bytes| bytes as f64)),
    }
}

/// One table per group.
pub fn render(records: &[Record]) -> String {
    groups(records).iter().map(|group| table(group) + "\n").collect()
}

fn table(group: &Group) -> String {
    let mut runs = 0;
    let mut lines = Vec::new();
    for (&point, rows) in &group.points {
        for row in rows {
            runs = runs.max(row.runs);
            lines.push(line(group, point, row));
        }
    }
    let title = format!(
        "{} of {}-byte objects, {} of RAM: medians of {runs}",
        format_size(group.data_bytes),
        group.object_bytes,
        format_size(group.ram_bytes),
    );
    let mut table = markdown(&title, &COLUMNS, &lines);
    if let Some(proof) = group.proof {
        table += &format!("\n{}\n", proof.sentence(group.object_bytes));
    }
    match group.disturbed {
        0 => table,
        disturbed => format!(
            "{table}\nThe device was busy with other writes before {disturbed} of these runs; they are in 'written B/B'.\n"
        ),
    }
}

fn line(group: &Group, point: Point, row: &Row) -> Vec<String> {
    let is_fio = row.peer == Kind::Fio;
    let over = |reference: Option<f64>| number(reference.map(|reference| row.ops_per_s / reference), 2);
    let swap = group.row(point, Kind::Swap).map(|row| row.ops_per_s);
    // Writes never reach the device one by one, so fio's reads say nothing about them.
    let fio = (point.read_percent == 100).then(|| group.fio(point.threads)).flatten();
    let memory_bytes = (!is_fio).then_some(row.memory_bytes);
    vec![
        point.distribution.to_string(),
        point.read_percent.to_string(),
        point.threads.to_string(),
        format!("{} {}", row.peer, row.variant).trim().to_owned(),
        number(Some(row.ops_per_s), 0),
        over(swap),
        over(fio),
        number(Some(row.p50_ns / 1e3), 1),
        number(Some(row.p99_ns / 1e3), 1),
        number(row.written_per_changed, 2),
        mebibytes(memory_bytes),
        mebibytes(row.metadata_bytes),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::tests::sample;

    fn record(peer: Kind, variant: &str, read_percent: u32, ops_per_s: f64) -> Record {
        let mut sample = sample(peer, ops_per_s);
        sample.variant = variant.to_owned();
        sample.point.read_percent = read_percent;
        Record::Sample(Box::new(sample))
    }

    #[test]
    fn medians_and_ratios() {
        let mut records = vec![
            record(Kind::Aquifer, "", 100, 80_000.0),
            record(Kind::Fio, "512 B", 100, 500_000.0),
            record(Kind::Fio, "4 KiB", 100, 100_000.0),
            record(Kind::Swap, "", 50, 9_000.0),
        ];
        records.extend([10_000.0, 20_000.0, 60_000.0].map(|ops| record(Kind::Swap, "", 100, ops)));
        let text = render(&records);
        assert!(text.contains("4 GiB of 128-byte objects, 256 MiB of RAM: medians of 3"), "{text}");
        assert!(text.contains("| scattered-hot | 100 | 8 | aquifer | 80000 | 4.00 | 0.80 |"), "{text}");
        assert!(text.contains("| scattered-hot | 100 | 8 | swap | 20000 | 1.00 | 0.20 |"), "{text}");
        assert!(text.contains("| scattered-hot | 50 | 8 | swap | 9000 | 1.00 | - |"), "{text}");
    }

    #[test]
    fn a_busy_device_is_mentioned() {
        let mut disturbed = sample(Kind::Swap, 1.0);
        disturbed.background_write_bytes_per_s = 2 * IDLE_WRITE_BYTES_PER_S;
        let records =
            [Record::Sample(Box::new(sample(Kind::Swap, 3.0))), Record::Sample(Box::new(disturbed))];
        assert!(render(&records).contains("before 1 of these runs"));
        assert!(!render(&records[..1]).contains("other writes"));
    }

    #[test]
    fn the_cost_of_proving_is_under_the_table() {
        let mut records = [1.0, 2.0, 3.0].map(|ops_per_s| sample(Kind::Swap, ops_per_s));
        let text = |records: &[Sample]| {
            render(&records.iter().map(|sample| Record::Sample(Box::new(sample.clone()))).collect::<Vec<_>>())
        };
        records[2].proof = Some(Proof { read_ns: 50.0, verify_ns: 99.0 });
        let said = text(&records);
        assert!(said.contains("an object of 128 bytes takes 15 ns in RAM, reading it alone 5 ns."), "{said}");
        // As in files from before anything was proven.
        records.iter_mut().for_each(|sample| sample.proof = None);
        assert!(!text(&records).contains("proving"));
    }

    #[test]
    fn different_scales_do_not_mix() {
        let mut other = sample(Kind::Swap, 1.0);
        other.ram_bytes /= 4;
        let records = [Record::Sample(Box::new(sample(Kind::Swap, 3.0))), Record::Sample(Box::new(other))];
        assert_eq!(groups(&records).len(), 2);
    }
}
