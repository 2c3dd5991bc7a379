//! Times of single operations.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Four figures of many times.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Latency {
    /// Mean.
    pub mean_ns: f64,
    /// Median.
    pub p50_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// Longest.
    pub max_ns: u64,
}

impl Latency {
    /// Those of `latencies`, which are nanoseconds.
    pub fn of(latencies: &Histogram<u64>) -> Self {
        Self {
            mean_ns: latencies.mean(),
            p50_ns: latencies.value_at_quantile(0.5),
            p99_ns: latencies.value_at_quantile(0.99),
            max_ns: latencies.max(),
        }
    }
}
