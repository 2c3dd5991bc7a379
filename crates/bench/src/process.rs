//! Memory and processor time of this process as the kernel counts them.

use std::fs;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// Resident memory and the page tables that map it.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct Memory {
    /// VmRSS.
    pub rss_bytes: u64,
    /// VmPTE.
    pub vm_pte_bytes: u64,
}

impl Memory {
    /// The calling process now.
    ///
    /// # Errors
    /// [`Error::Io`] if /proc cannot be read, [`Error::Input`] if it lacks the fields.
    pub fn now() -> Result<Self> {
        const STATUS: &str = "/proc/self/status";
        let status = fs::read_to_string(STATUS).map_err(Error::io("reading", STATUS))?;
        Self::parse(&status).ok_or_else(|| Error::Input(format!("{STATUS} has no VmRSS or no VmPTE")))
    }

    /// The fields of a /proc/PID/status file.
    pub fn parse(status: &str) -> Option<Self> {
        let field = |name: &str| {
            let value = status.lines().find_map(|line| line.strip_prefix(name))?;
            let kib: u64 = value.trim().strip_suffix("kB")?.trim().parse().ok()?;
            Some(kib << 10)
        };
        Some(Self { rss_bytes: field("VmRSS:")?, vm_pte_bytes: field("VmPTE:")? })
    }

    /// Both together.
    pub fn total_bytes(self) -> u64 {
        self.rss_bytes + self.vm_pte_bytes
    }

    /// Whichever has the larger total.
    pub fn max(self, other: Self) -> Self {
        if other.total_bytes() > self.total_bytes() { other } else { self }
    }
}

/// Processor time of all threads of this process so far. Unlike the wall clock it does not run while
/// other processes have the processors.
pub fn cpu_ns() -> u64 {
    // SAFETY: a zeroed timespec is valid and is filled in; this clock always exists.
    let time = unsafe {
        let mut time: libc::timespec = std::mem::zeroed();
        libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time);
        time
    };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_status_file() {
        let status = "Name:\tx\nVmPeak:\t  10 kB\nVmRSS:\t    2048 kB\nVmPTE:\t      44 kB\n";
        let memory = Memory { rss_bytes: 2 << 20, vm_pte_bytes: 44 << 10 };
        assert_eq!(Memory::parse(status), Some(memory));
        assert_eq!(Memory::parse("VmRSS:\t 1 kB\n"), None);
        assert!(Memory::now().expect("on Linux").rss_bytes > 0);
    }
}
