//! What a stretch of time cost, and how long single operations took.

use std::path::Path;
use std::time::Instant;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::cgroup::own_used_bytes;
use crate::device::{Counters, Device};
use crate::error::Result;
use crate::io::Io;
use crate::process::{Memory, Usage};
use crate::study::Fields;

/// What the measured time took, of the process and of the disk.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct Cost {
    /// Its length.
    pub seconds: f64,
    /// Processor time and page faults of the process (`getrusage`). Threads of the kernel that write back or reclaim are not in it.
    pub usage: Usage,
    /// Bytes that this process had the device move (`/proc/self/io`); a page counts as written when it is made dirty.
    pub io: Io,
    /// What the disk did in the same time (`/sys/.../stat`), for everybody.
    pub device: Counters,
    /// Memory of the process at the end.
    pub memory: Memory,
    /// What its control group was charged for at the end: page cache and memory of the kernel included.
    pub charged_bytes: u64,
}

impl Cost {
    /// The figures of `ops` operations.
    pub fn figures(&self, ops: f64) -> Fields {
        let each = |total: u64| total as f64 / ops.max(f64::MIN_POSITIVE);
        Fields::default()
            .with("ops", ops)
            .with("seconds", self.seconds)
            .with("ops_per_s", ops / self.seconds)
            .with("cpu_ns_each", each(self.usage.cpu_ns()))
            .with("system_ns_each", each(self.usage.system_ns))
            .with("read_bytes_each", each(self.io.read_bytes))
            .with("written_bytes_each", each(self.io.written_bytes))
            .with("disk_written_bytes_each", each(self.device.written_bytes))
            .with("memory_bytes", self.memory.total_bytes())
            .with("group_bytes", self.charged_bytes)
    }
}

/// A running measurement.
pub struct Meter {
    device: Device,
    start: Instant,
    usage: Usage,
    io: Io,
    counters: Counters,
}

impl Meter {
    /// Begins; `path` is on the disk that is looked at.
    ///
    /// # Errors
    /// [`crate::Error::Io`], [`crate::Error::Unavailable`].
    pub fn start(path: &Path) -> Result<Self> {
        let device = Device::holding(path)?;
        let (io, counters) = (Io::now()?, device.counters()?);
        Ok(Self { device, io, counters, usage: Usage::now(), start: Instant::now() })
    }

    /// Ends.
    ///
    /// # Errors
    /// As [`Meter::start`].
    pub fn stop(self) -> Result<Cost> {
        Ok(Cost {
            seconds: self.start.elapsed().as_secs_f64(),
            usage: Usage::now().since(self.usage),
            io: Io::now()?.since(self.io),
            device: self.device.counters()?.since(self.counters),
            memory: Memory::now()?,
            charged_bytes: own_used_bytes()?,
        })
    }
}

/// Four figures of the times of many operations.
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
