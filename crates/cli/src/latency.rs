//! How long reads from flash took, counted in buckets.

use serde::{Deserialize, Serialize};

/// Most buckets that are believed; powers of two fill 64.
const BUCKETS_MAX: usize = 128;

/// Counts by upper bound. The bounds rise, and there is one for each count.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(try_from = "Raw", into = "Raw")]
pub struct Latency {
    buckets: Vec<Bucket>,
    sum_ns: Option<u64>,
}

/// Reads that took longer than the bucket before says, and no longer than this one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bucket {
    /// Upper bound.
    pub upper_ns: u64,
    /// Reads.
    pub count: u64,
}

/// As it is sent. The sum is of libraries that know it.
#[derive(Serialize, Deserialize)]
struct Raw {
    upper_ns: Vec<u64>,
    count: Vec<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sum_ns: Option<u64>,
}

impl TryFrom<Raw> for Latency {
    type Error = String;

    fn try_from(raw: Raw) -> Result<Self, String> {
        let (bounds, counts) = (raw.upper_ns.len(), raw.count.len());
        if bounds != counts {
            return Err(format!("{bounds} bounds for {counts} counts"));
        }
        if bounds > BUCKETS_MAX {
            return Err(format!("{bounds} buckets, at most {BUCKETS_MAX} are read"));
        }
        if !raw.upper_ns.is_sorted_by(|a, b| a < b) {
            return Err("the bounds of the buckets do not rise".into());
        }
        let pairs = raw.upper_ns.into_iter().zip(raw.count);
        let buckets = pairs.map(|(upper_ns, count)| Bucket { upper_ns, count }).collect();
        Ok(Self { buckets, sum_ns: raw.sum_ns })
    }
}

impl From<Latency> for Raw {
    fn from(latency: Latency) -> Self {
        let (upper_ns, count) = latency.buckets.iter().map(|bucket| (bucket.upper_ns, bucket.count)).unzip();
        Self { upper_ns, count, sum_ns: latency.sum_ns }
    }
}

impl Latency {
    /// All buckets, the shortest times first.
    pub fn buckets(&self) -> &[Bucket] {
        &self.buckets
    }

    /// Time of all reads, if the library adds it up.
    pub fn sum_ns(&self) -> Option<u64> {
        self.sum_ns
    }

    /// Reads counted.
    pub fn total(&self) -> u64 {
        self.buckets.iter().fold(0, |sum, bucket| sum.saturating_add(bucket.count))
    }

    /// Bound of the bucket that holds the read which `share` of all do not exceed; `None` without reads.
    pub fn quantile_ns(&self, share: f64) -> Option<u64> {
        let wanted = (self.total() as f64 * share).max(1.0);
        let mut so_far = 0u64;
        self.buckets.iter().find_map(|bucket| {
            so_far = so_far.saturating_add(bucket.count);
            (bucket.count > 0 && so_far as f64 >= wanted).then_some(bucket.upper_ns)
        })
    }

    /// What came on since `before`; `None` if that is not an earlier state of the same counts.
    pub fn since(&self, before: &Self) -> Option<Self> {
        if self.buckets.len() != before.buckets.len() {
            return None;
        }
        let pairs = self.buckets.iter().zip(&before.buckets);
        let buckets = pairs.map(|(now, then)| {
            let count = now.count.checked_sub(then.count)?;
            (now.upper_ns == then.upper_ns).then_some(Bucket { upper_ns: now.upper_ns, count })
        });
        Some(Self { buckets: buckets.collect::<Option<_>>()?, sum_ns: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Latency, serde_json::Error> {
        serde_json::from_str(text)
    }

    #[test]
    fn quantiles_are_bounds_of_buckets() {
        let latency = parse(r#"{"upper_ns":[1024,2048,4096,8192],"count":[0,90,9,1]}"#).unwrap();
        assert_eq!(latency.total(), 100);
        let quantiles = [0.0, 0.5, 0.9, 0.99, 1.0].map(|share| latency.quantile_ns(share).unwrap());
        assert_eq!(quantiles, [2048, 2048, 2048, 4096, 8192]);
        assert_eq!(parse(r#"{"upper_ns":[1],"count":[0]}"#).unwrap().quantile_ns(0.5), None);
    }

    #[test]
    fn what_does_not_fit_together_is_refused() {
        let many = format!(r#"{{"upper_ns":{:?},"count":{:?}}}"#, Vec::from_iter(0..200), [0; 200]);
        for text in [
            r#"{"upper_ns":[1,2],"count":[1]}"#,
            r#"{"upper_ns":[2,2],"count":[1,1]}"#,
            r#"{"upper_ns":[2,1],"count":[1,1]}"#,
            r#"{"upper_ns":[1],"count":[-1]}"#,
            r#"{"upper_ns":1}"#,
            many.as_str(),
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_largest_counts_do_no_harm() {
        let text = format!(r#"{{"upper_ns":[1,{0}],"count":[{0},{0}]}}"#, u64::MAX);
        let latency = parse(&text).unwrap();
        assert_eq!((latency.total(), latency.quantile_ns(1.0)), (u64::MAX, Some(1)));
    }

    #[test]
    fn a_difference_needs_the_same_buckets() {
        let of = |text| parse(text).unwrap();
        let (a, b) =
            (of(r#"{"upper_ns":[1,2],"count":[3,4]}"#), of(r#"{"upper_ns":[1,2],"count":[5,4],"sum_ns":9}"#));
        assert_eq!(b.since(&a).unwrap(), of(r#"{"upper_ns":[1,2],"count":[2,0]}"#));
        assert_eq!((a.since(&b), b.sum_ns()), (None, Some(9)));
        assert_eq!(a.since(&of(r#"{"upper_ns":[1,3],"count":[0,0]}"#)), None);
    }
}
