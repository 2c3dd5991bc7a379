//! What a stretch of time cost.

use std::path::Path;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::cgroup::own_used_bytes;
use crate::device::{Counters, Device};
use crate::error::Result;
use crate::io::Io;
use crate::process::{Memory, Usage};

/// What the measured time took, of the process and of the disk.
#[derive(Clone, Copy, PartialEq, Default, Debug, Serialize, Deserialize)]
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
    /// So much for each of `ops`.
    pub fn each(total: u64, ops: u64) -> f64 {
        total as f64 / ops.max(1) as f64
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
