//! The table of memcached under load.

use std::collections::BTreeMap;

use aquifer_base::units::format_size;

use super::{markdown, mebibytes, number};
use crate::memcached::load::Point;
use crate::memcached::peer::Peer;
use crate::memcached::sample::Sample;
use crate::sample::Record;
use crate::study::median_of as median;

const COLUMNS: [&str; 16] = [
    "accesses",
    "gets %",
    "clients",
    "peer",
    "requests/s",
    "hits/s",
    "x swap",
    "held %",
    "lost %",
    "dropped",
    "p50 us",
    "p99 us",
    "CPU us",
    "RSS + PTE MiB",
    "charged MiB",
    "written MiB/s",
];
const NOTE: &str = "\nx swap: hits per second over those of swap. held: keys for which the server has an \
                    entry. lost: gets of keys that had been set, \
                    answered with nothing. dropped: values that the server dropped by itself since it was started, \
                    and sets that it refused. CPU: processor time of the server per request. charged: to the \
                    control group, with page cache and kernel memory.\n";

/// Data, RAM, bytes of a value.
type Scale = (u64, u64, u64);
type Runs<'a> = BTreeMap<Peer, Vec<&'a Sample>>;

/// One table for each size of values.
pub fn render(records: &[Record]) -> String {
    let mut scales: BTreeMap<Scale, BTreeMap<Point, Runs<'_>>> = BTreeMap::new();
    for record in records {
        let Record::Memcached(sample) = record else { continue };
        // The data of each size of values is a whole number of items, so that it differs a little.
        let scale = (sample.ram_bytes, sample.value_bytes, sample.data_bytes);
        let runs = scales.entry(scale).or_default().entry(sample.point).or_default();
        runs.entry(sample.peer).or_default().push(sample);
    }
    let tables: String = scales.iter().map(|(scale, points)| table(*scale, points) + "\n").collect();
    if tables.is_empty() { tables } else { tables + NOTE.trim_start() }
}

fn table((ram_bytes, value_bytes, data_bytes): Scale, points: &BTreeMap<Point, Runs<'_>>) -> String {
    let runs = points.values().flat_map(BTreeMap::values).map(Vec::len).max().unwrap_or(0);
    let lines: Vec<_> = points.iter().flat_map(|(point, runs)| lines(*point, runs)).collect();
    let data_mebibytes = (data_bytes as f64 / f64::from(1 << 20)).round();
    let title = format!(
        "memcached, {data_mebibytes} MiB of items with {value_bytes}-byte values, {} of RAM: medians of {runs}",
        format_size(ram_bytes)
    );
    markdown(&title, &COLUMNS, &lines)
}

fn lines(point: Point, runs: &Runs<'_>) -> Vec<Vec<String>> {
    let swap = runs.get(&Peer::Swap).and_then(|samples| of(samples, &|sample| Some(sample.hits_per_s)));
    runs.iter().map(|(peer, samples)| line(point, *peer, samples, swap)).collect()
}

fn line(point: Point, peer: Peer, samples: &[&Sample], swap: Option<f64>) -> Vec<String> {
    let all = |value: &dyn Fn(&Sample) -> f64| of(samples, &|sample| Some(value(sample)));
    let hits_per_s = all(&|sample| sample.hits_per_s);
    let pipelined = if point.pipeline > 1 { format!(" x {}", point.pipeline) } else { String::new() };
    vec![
        point.distribution.to_string(),
        point.get_percent.to_string(),
        format!("{}{pipelined}", point.clients),
        peer.to_string(),
        number(all(&|sample| sample.requests_per_s), 0),
        number(hits_per_s, 0),
        number(hits_per_s.zip(swap).map(|(hits, swap)| hits / swap), 2),
        number(all(&Sample::held_percent), 1),
        number(all(&Sample::lost_percent), 1),
        number(all(&|sample| (sample.stats.dropped() + sample.fill_refused + sample.refused) as f64), 0),
        number(all(&|sample| sample.p50_ns as f64 / 1e3), 1),
        number(all(&|sample| sample.p99_ns as f64 / 1e3), 1),
        number(all(&Sample::cpu_us_per_request), 1),
        mebibytes(all(&|sample| sample.memory.total_bytes() as f64)),
        mebibytes(of(samples, &|sample| sample.charged_bytes.map(|bytes| bytes as f64))),
        number(all(&|sample| sample.device.written_bytes as f64 / f64::from(1 << 20) / sample.seconds), 1),
    ]
}

/// The median of `value` over the samples that have it.
fn of(samples: &[&Sample], value: &dyn Fn(&Sample) -> Option<f64>) -> Option<f64> {
    median(samples.iter().filter_map(|sample| value(sample)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Counters;
    use crate::distribution::Distribution;
    use crate::machine::Context;
    use crate::memcached::stats::ServerStats;
    use crate::process::Memory;

    fn sample(peer: Peer, hits_per_s: f64) -> Record {
        let distribution = Distribution::Zipf;
        Record::Memcached(Box::new(Sample {
            peer,
            run: 1,
            data_bytes: 512 << 20,
            ram_bytes: 64 << 20,
            limit_bytes: Some(64 << 20),
            given_bytes: 50 << 20,
            swap_bytes: None,
            flash_bytes: None,
            items: 1000,
            value_bytes: 1024,
            point: Point { distribution, get_percent: 50, clients: 4, pipeline: 1 },
            seed: 1,
            fill_s: 1.0,
            fill_refused: 3,
            warmup_s: 1.0,
            seconds: 2.0,
            requests_per_s: 2.0 * hits_per_s,
            hits_per_s,
            gets: 1000,
            hits: 900,
            lost: 100,
            sets: 1000,
            refused: 0,
            p50_ns: 40_000,
            p99_ns: 90_000,
            memory: Memory { rss_bytes: 60 << 20, vm_pte_bytes: 1 << 20 },
            charged_bytes: Some(63 << 20),
            cpu_s: 0.1,
            device: Counters { written_bytes: 8 << 20, ..Counters::default() },
            background_write_bytes_per_s: 0,
            stats: ServerStats { curr_items: 800, evictions: 4, ..ServerStats::default() },
            context: Context::default(),
        }))
    }

    #[test]
    fn hits_are_compared_with_those_of_swap() {
        let text = render(&[sample(Peer::Swap, 10_000.0), sample(Peer::Aquifer, 25_000.0)]);
        let line = "| zipf | 50 | 4 | aquifer | 50000 | 25000 | 2.50 | 80.0 | 10.0 | 7 | 40.0 | 90.0 | 50.0 | 61 | 63 | 4.0 |";
        assert!(text.contains(line), "{text}");
        assert!(
            text.contains("512 MiB of items with 1024-byte values, 64 MiB of RAM: medians of 1"),
            "{text}"
        );
        assert!(render(&[sample(Peer::Aquifer, 1.0)]).contains("| aquifer | 2 | 1 | - |"));
        assert_eq!(render(&[]), "");
    }
}
