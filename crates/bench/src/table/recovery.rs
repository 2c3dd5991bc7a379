//! The table of heaps that were opened.

use std::collections::BTreeMap;

use super::{markdown, mebibytes, number};
use crate::durable::recovery::sample::{Checkpoint, Filling, Recovery};
use crate::sample::Record;
use crate::study::median_of as median;

const COLUMNS: [&str; 12] = [
    "filling",
    "object bytes",
    "cleaned from",
    "checkpoint",
    "runs",
    "log MiB",
    "data MiB",
    "seconds",
    "CPU s",
    "GB/s of log",
    "map MiB per GiB of data",
    "map % of data",
];
const NOTE: &str = "\nsequential: objects one behind the other, 99 in a transaction. fragmented: for every three of these, one random \
    object was written anew by a transaction of its own. seconds: for opening the file, which is in memory. map: its RAM. cleaned \
    from: the file grew while at least this share of it was objects. checkpoint: written at close; what it spares is verified later.\n";

type Key = (Filling, u64, u32, Checkpoint);

/// The table.
pub fn render(records: &[Record]) -> String {
    let mut runs: BTreeMap<Key, Vec<&Recovery>> = BTreeMap::new();
    for record in records {
        if let Record::Recovery(run) = record {
            let key = (run.filling, run.object_bytes, run.utilisation_percent, run.checkpoint);
            runs.entry(key).or_default().push(run);
        }
    }
    if runs.is_empty() {
        return String::new();
    }
    let lines: Vec<_> = runs.iter().map(|(&key, runs)| line(key, runs)).collect();
    markdown("Recovery: medians", &COLUMNS, &lines) + NOTE
}

fn line((filling, object_bytes, percent, checkpoint): Key, runs: &[&Recovery]) -> Vec<String> {
    let medians = |value: fn(&Recovery) -> f64| median(runs.iter().map(|run| value(run)).collect());
    vec![
        filling.to_string(),
        object_bytes.to_string(),
        format!("{percent} %"),
        checkpoint.to_string(),
        runs.len().to_string(),
        mebibytes(medians(|run| run.log_bytes as f64)),
        mebibytes(medians(|run| run.live_bytes as f64)),
        number(medians(|run| run.seconds), 3),
        number(medians(|run| run.cpu_s), 3),
        number(medians(|run| run.bytes_per_s() / 1e9), 2),
        number(medians(|run| 1024.0 * run.map_share()), 1),
        number(medians(|run| 100.0 * run.map_share()), 2),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Context;

    #[test]
    fn the_map_is_a_share_of_the_data() {
        let run = Recovery {
            object_bytes: 64,
            filling: Filling::Fragmented,
            checkpoint: Checkpoint::Yes,
            run: 1,
            objects: 1 << 20,
            rewritten: 1 << 18,
            utilisation_percent: 5,
            written_bytes: 1 << 27,
            log_bytes: 128 << 20,
            live_bytes: 64 << 20,
            map_bytes_before: 4 << 20,
            map_bytes: 4 << 20,
            seconds: 0.0625,
            cpu_s: 0.1,
            context: Context::default(),
        };
        let text = render(&[Record::Recovery(Box::new(run))]);
        let line = "| fragmented | 64 | 5 % | yes | 1 | 128 | 64 | 0.062 | 0.100 | 2.15 | 64.0 | 6.25 |";
        assert!(text.contains(line), "{text}");
    }
}
