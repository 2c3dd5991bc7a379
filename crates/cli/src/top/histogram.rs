//! Latencies as rows.

use crate::amounts::time;
use crate::latency::{Bucket, Latency};

/// Reads of one range of times.
#[derive(Clone, PartialEq, Debug)]
pub struct Range {
    /// Its longest time.
    pub label: String,
    /// Reads.
    pub count: u64,
    /// Of all reads.
    pub share: f64,
    /// Of the range with the most reads.
    pub of_max: f64,
}

/// The ranges from the shortest to the longest time that occurred, in at most `rows` rows. Neighbours are
/// put together where there are more.
pub fn ranges(latency: &Latency, rows: usize) -> Vec<Range> {
    let occurred = occurred(latency.buckets());
    if occurred.is_empty() || rows == 0 {
        return Vec::new();
    }
    let together = occurred.len().div_ceil(rows);
    // Groups end with the longest time, so that the first may be smaller.
    let mut groups: Vec<&[Bucket]> = occurred.rchunks(together).collect();
    groups.reverse();
    let counts: Vec<u64> = groups.iter().map(|group| sum(group)).collect();
    let max = counts.iter().copied().max().unwrap_or(0).max(1) as f64;
    let total = latency.total() as f64;
    let range = |(group, &count): (&&[Bucket], &u64)| Range {
        label: group.last().map_or(String::new(), |bucket| bound(bucket.upper_ns)),
        count,
        share: count as f64 / total,
        of_max: count as f64 / max,
    };
    groups.iter().zip(&counts).map(range).collect()
}

/// Formats the usual quantiles in one line: the upper bounds of 50, 99 and 99.9 per cent of the reads.
pub fn quantiles(latency: &Latency) -> String {
    let of = |share| latency.quantile_ns(share).map_or("-".into(), short);
    format!("p50 {}  p99 {}  p99.9 {}", of(0.5), of(0.99), of(0.999))
}

fn bound(upper_ns: u64) -> String {
    if upper_ns == u64::MAX { "longer".into() } else { format!("≤ {}", time(upper_ns)) }
}

fn short(upper_ns: u64) -> String {
    if upper_ns == u64::MAX { "longer".into() } else { time(upper_ns) }
}

fn occurred(buckets: &[Bucket]) -> &[Bucket] {
    let has_reads = |bucket: &Bucket| bucket.count > 0;
    match (buckets.iter().position(has_reads), buckets.iter().rposition(has_reads)) {
        (Some(first), Some(last)) => &buckets[first..=last],
        _ => &[],
    }
}

fn sum(buckets: &[Bucket]) -> u64 {
    buckets.iter().fold(0, |sum, bucket| sum.saturating_add(bucket.count))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn latency(text: &str) -> Latency {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn rows_are_from_the_first_to_the_last_that_occurred() {
        let latency = latency(r#"{"upper_ns":[1024,2048,4096,8192,16384],"count":[0,60,0,40,0]}"#);
        let rows = ranges(&latency, 10);
        let labels: Vec<_> = rows.iter().map(|range| range.label.as_str()).collect();
        assert_eq!(labels, ["≤ 2.05 µs", "≤ 4.10 µs", "≤ 8.19 µs"]);
        assert_eq!((rows[0].share, rows[0].of_max, rows[2].count), (0.6, 1.0, 40));
        assert_eq!(quantiles(&latency), "p50 2.05 µs  p99 8.19 µs  p99.9 8.19 µs");
    }

    #[test]
    fn neighbours_share_a_row_when_there_are_few() {
        let latency = latency(r#"{"upper_ns":[1,2,4,8,16],"count":[1,2,3,4,5]}"#);
        let counts = |rows| -> Vec<u64> { ranges(&latency, rows).iter().map(|range| range.count).collect() };
        assert_eq!((counts(5), counts(3), counts(1)), (vec![1, 2, 3, 4, 5], vec![1, 5, 9], vec![15]));
        assert!(counts(0).is_empty());
    }

    #[test]
    fn nothing_read_has_no_rows() {
        let nothing = latency(r#"{"upper_ns":[1],"count":[0]}"#);
        assert_eq!((ranges(&nothing, 5), quantiles(&nothing).as_str()), (vec![], "p50 -  p99 -  p99.9 -"));
        let unbounded = latency(r#"{"upper_ns":[18446744073709551615],"count":[1]}"#);
        assert_eq!(ranges(&unbounded, 5)[0].label, "longer");
    }
}
