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
        Self::read("/proc/self/status")
    }

    /// Process `pid` now.
    ///
    /// # Errors
    /// As [`Memory::now`].
    pub fn of(pid: u32) -> Result<Self> {
        Self::read(&format!("/proc/{pid}/status"))
    }

    fn read(path: &str) -> Result<Self> {
        let status = fs::read_to_string(path).map_err(Error::io("reading", path))?;
        Self::parse(&status).ok_or_else(|| Error::Input(format!("{path} has no VmRSS or no VmPTE")))
    }

    /// The most that process `pid` had resident so far, and the page tables that it has now.
    ///
    /// # Errors
    /// As [`Memory::now`].
    pub fn peak_of(pid: u32) -> Result<Self> {
        let path = format!("/proc/{pid}/status");
        let status = fs::read_to_string(&path).map_err(Error::io("reading", &path))?;
        let peak = Self::parse_as("VmHWM:", &status);
        peak.ok_or_else(|| Error::Input(format!("{path} has no VmHWM or no VmPTE")))
    }

    /// The fields of a /proc/PID/status file.
    pub fn parse(status: &str) -> Option<Self> {
        Self::parse_as("VmRSS:", status)
    }

    /// The same with another field as resident memory.
    fn parse_as(rss: &str, status: &str) -> Option<Self> {
        let field = |name: &str| {
            let value = status.lines().find_map(|line| line.strip_prefix(name))?;
            let kib: u64 = value.trim().strip_suffix("kB")?.trim().parse().ok()?;
            Some(kib << 10)
        };
        Some(Self { rss_bytes: field(rss)?, vm_pte_bytes: field("VmPTE:")? })
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

/// What the kernel counts for a process; subtract two of them.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct Usage {
    /// Processor time in programs, all threads.
    pub user_ns: u64,
    /// Processor time in the kernel on behalf of them.
    pub system_ns: u64,
    /// Page faults of the kernel that needed no device.
    pub minor_faults: u64,
    /// Page faults of the kernel that did.
    pub major_faults: u64,
}

impl Usage {
    /// The calling process now, by `getrusage`.
    pub fn now() -> Self {
        // SAFETY: a zeroed rusage is valid and is filled in; asking about oneself cannot fail.
        let usage = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            libc::getrusage(libc::RUSAGE_SELF, &mut usage);
            usage
        };
        let ns = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1000;
        Self {
            user_ns: ns(usage.ru_utime),
            system_ns: ns(usage.ru_stime),
            minor_faults: usage.ru_minflt as u64,
            major_faults: usage.ru_majflt as u64,
        }
    }

    /// What happened since `before`.
    pub fn since(self, before: Self) -> Self {
        Self {
            user_ns: self.user_ns - before.user_ns,
            system_ns: self.system_ns - before.system_ns,
            minor_faults: self.minor_faults - before.minor_faults,
            major_faults: self.major_faults - before.major_faults,
        }
    }

    /// Processor time of both kinds.
    pub fn cpu_ns(self) -> u64 {
        self.user_ns + self.system_ns
    }
}

/// Processor time of all threads of this process so far. Unlike the wall clock it does not run while
/// other processes have the processors.
pub fn cpu_ns() -> u64 {
    clock_ns(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// Processor time of the calling thread so far.
pub fn thread_cpu_ns() -> u64 {
    clock_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Nanoseconds of the clock that all processes of this machine share and that never goes back.
pub fn monotonic_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

fn clock_ns(clock: libc::clockid_t) -> u64 {
    // SAFETY: a zeroed timespec is valid and is filled in; the clocks of processes and threads always exist.
    let time = unsafe {
        let mut time: libc::timespec = std::mem::zeroed();
        libc::clock_gettime(clock, &mut time);
        time
    };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Seconds of processor time of all threads of process `pid` so far, user and system.
///
/// # Errors
/// [`Error::Io`] if it is gone, [`Error::Input`] if the kernel's answer makes no sense.
pub fn cpu_s_of(pid: u32) -> Result<f64> {
    let path = format!("/proc/{pid}/stat");
    let stat = fs::read_to_string(&path).map_err(Error::io("reading", &path))?;
    let ticks = cpu_ticks(&stat).ok_or_else(|| Error::Input(format!("{path} has no processor times")))?;
    // SAFETY: a plain question.
    let ticks_per_s = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    Ok(ticks as f64 / ticks_per_s as f64)
}

/// utime and stime of a /proc/PID/stat file. The program's name before them may hold anything.
fn cpu_ticks(stat: &str) -> Option<u64> {
    let mut times = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let mut next = || times.next()?.parse::<u64>().ok();
    Some(next()? + next()?)
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
        assert!(Memory::peak_of(std::process::id()).expect("on Linux").rss_bytes > 0);
    }

    #[test]
    fn reads_processor_times() {
        let stat = "17 (a b) c) S 1 17 17 0 -1 4194560 100 0 0 0 250 40 0 0 20 0 4 0 77\n";
        assert_eq!(cpu_ticks(stat), Some(290));
        assert_eq!(cpu_ticks("17 (a) S 1"), None);
        assert!(cpu_s_of(std::process::id()).expect("this process") >= 0.0);
    }
}
