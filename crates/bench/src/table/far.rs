//! Unchanged programs whose memory is local in part.

use std::collections::BTreeMap;

use super::{markdown, mebibytes, number};
use crate::far::peer::Peer;
use crate::far::program::Program;
use crate::far::sample::Far;
use crate::sample::Record;
use crate::study::median_of as median;

const COLUMNS: [&str; 9] = [
    "program",
    "local %",
    "peer",
    "speed",
    "unit",
    "share of all-local",
    "x disk swap",
    "peak RSS MiB",
    "runs",
];

/// Bytes of data, and the limit for the disk: what makes runs comparable.
type Scale = (u64, Option<u64>);
/// The larger local share first.
type Row = (Program, std::cmp::Reverse<u64>, Peer);
type Runs<'a> = BTreeMap<Row, Vec<&'a Far>>;

/// One table for each size of the data and each limit for the disk; empty without samples.
pub fn render(records: &[Record]) -> String {
    let mut scales: BTreeMap<Scale, Runs<'_>> = BTreeMap::new();
    for record in records {
        let Record::Far(sample) = record else { continue };
        let row = (sample.program, std::cmp::Reverse(sample.share), sample.peer);
        let scale = (sample.data_bytes, sample.disk_iops);
        scales.entry(scale).or_default().entry(row).or_default().push(sample);
    }
    scales.iter().map(|(scale, runs)| table(*scale, runs)).collect::<Vec<_>>().join("\n")
}

fn table((data_bytes, disk_iops): Scale, runs: &Runs<'_>) -> String {
    let limit = disk_iops.map(|iops| format!(", on a disk of {iops} reads/s and {iops} writes/s"));
    let title = format!(
        "Programs with {} of data, of which a share is local{}: medians",
        aquifer_base::units::format_size(data_bytes),
        limit.unwrap_or_default()
    );
    let lines: Vec<_> = runs.iter().map(|(row, samples)| line(*row, samples, runs)).collect();
    markdown(&title, &COLUMNS, &lines)
}

fn line((program, share, peer): Row, samples: &[&Far], runs: &Runs<'_>) -> Vec<String> {
    let speed_of = |row: Row| runs.get(&row).and_then(|samples| speed(samples));
    let speed = speed(samples);
    let by = |other: Option<f64>| number(speed.zip(other).map(|(speed, other)| speed / other), 2);
    let all_local = speed_of((program, std::cmp::Reverse(100), Peer::Local));
    let swap = speed_of((program, share, Peer::Swap)).filter(|_| peer != Peer::Local);
    vec![
        program.to_string(),
        share.0.to_string(),
        peer.to_string(),
        number(speed, 0),
        program.unit().to_owned(),
        by(all_local),
        by(swap),
        mebibytes(median(samples.iter().map(|sample| sample.answer.memory.rss_bytes as f64).collect())),
        samples.len().to_string(),
    ]
}

fn speed(samples: &[&Far]) -> Option<f64> {
    median(samples.iter().map(|sample| sample.answer.ops_per_s()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Counters;
    use crate::far::Answer;
    use crate::machine::Context;
    use crate::process::Memory;

    fn sample(peer: Peer, share: u64, run: u32, ops: u64) -> Record {
        let memory = Memory { rss_bytes: 300 << 20, vm_pte_bytes: 1 << 20 };
        let (rounds, digest) = (Some(3), Some(u64::MAX));
        Record::Far(Box::new(Far {
            program: Program::Shuffle,
            peer,
            share,
            run,
            data_bytes: 256 << 20,
            peak_bytes: 301 << 20,
            limit_bytes: None,
            given_bytes: None,
            swap_bytes: None,
            disk_iops: None,
            warmup_s: 1.0,
            device: Counters::default(),
            answer: Answer { rounds, ops, seconds: 2.0, setup_s: 1.0, digest, memory, slots: None },
            context: Context::default(),
        }))
    }

    #[test]
    fn shares_are_of_all_local_and_ratios_of_swap_with_the_same_ram() {
        let records = [
            sample(Peer::Donors, 50, 1, 60),
            sample(Peer::Local, 100, 1, 100),
            sample(Peer::Local, 100, 2, 300),
            sample(Peer::Swap, 50, 1, 20),
            sample(Peer::Swap, 75, 1, 80),
        ];
        let text = render(&records);
        for line in [
            "| shuffle | 100 | local | 100 | records/s | 1.00 | - | 300 | 2 |",
            "| shuffle | 75 | swap | 40 | records/s | 0.40 | 1.00 | 300 | 1 |",
            "| shuffle | 50 | swap | 10 | records/s | 0.10 | 1.00 | 300 | 1 |",
            "| shuffle | 50 | donors | 30 | records/s | 0.30 | 3.00 | 300 | 1 |",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
        assert!(text.find("| 100 | local").expect("is there") < text.find("| 75 |").expect("is there"));
        assert_eq!(render(&[]), "");
    }

    #[test]
    fn runs_on_a_slow_disk_have_a_table_of_their_own() {
        let limited = |peer, ops| {
            let Record::Far(mut sample) = sample(peer, 50, 1, ops) else { unreachable!("it is one") };
            sample.disk_iops = Some(3000);
            Record::Far(sample)
        };
        let records = [sample(Peer::Swap, 50, 1, 20), limited(Peer::Swap, 4), limited(Peer::Donors, 20)];
        let text = render(&records);
        let (fast, slow) = text.split_once("on a disk of 3000 reads/s").expect("two tables");
        assert!(fast.contains("| swap | 10 |") && !fast.contains("donors"), "{text}");
        assert!(slow.contains("| donors | 10 | records/s | - | 5.00 |"), "{text}");
    }

    #[test]
    fn lines_without_a_limit_for_the_disk_are_read() {
        let record = sample(Peer::Swap, 75, 4, 7);
        let line = serde_json::to_string(&record).expect("plain fields").replace("\"disk_iops\":null,", "");
        assert!(!line.contains("disk_iops"), "{line}");
        assert_eq!(serde_json::from_str::<Record>(&line).expect("an old line"), record);
    }

    #[test]
    fn lines_survive_the_file() {
        let record = sample(Peer::BlockSwap, 75, 4, 7);
        let line = serde_json::to_string(&record).expect("plain fields");
        assert!(line.contains("\"kind\":\"far\"") && line.contains("\"peer\":\"block-swap\""), "{line}");
        assert_eq!(serde_json::from_str::<Record>(&line).expect("just written"), record);
    }
}
