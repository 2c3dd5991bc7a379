//! How much RAM a machine can lend.

use std::fs;
use std::io;

/// Slabs that a donor adds between two looks at its memory, so that it does not take what a program is just about to.
pub const ADDED_MAX: i64 = 4;

/// What the kernel says of memory.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct MemoryNow {
    /// What programs could still get without swapping.
    pub available_bytes: u64,
    /// Share of the last ten seconds in which some program waited for memory, in percent. 0 where the kernel does not say.
    pub pressure_percent: f64,
}

/// Above this memory is short, if little more than the headroom is available: within as much again. Where more is, programs wait in limits of their own, and what
/// this machine lends takes nothing from them.
const PRESSURE_MAX_PERCENT: f64 = 10.0;

impl MemoryNow {
    /// Asks the kernel.
    ///
    /// # Errors
    /// `/proc` is not there, or says something new.
    pub fn ask() -> io::Result<MemoryNow> {
        let meminfo = fs::read_to_string("/proc/meminfo")?;
        let available_bytes = available(&meminfo)
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "no MemAvailable in /proc/meminfo"))?;
        let pressure = fs::read_to_string("/proc/pressure/memory").ok();
        Ok(MemoryNow {
            available_bytes,
            pressure_percent: pressure.as_deref().and_then(some_avg10).unwrap_or(0.0),
        })
    }

    /// Number of slabs to add, or to remove if it is negative, so that `headroom_bytes` stay for programs of
    /// this machine.
    #[must_use]
    pub fn change(&self, headroom_bytes: u64, slab_bytes: u64) -> i64 {
        let slabs = |bytes: u64| i64::try_from(bytes / slab_bytes).unwrap_or(i64::MAX);
        if self.available_bytes < headroom_bytes {
            return -slabs((headroom_bytes - self.available_bytes).saturating_add(slab_bytes - 1));
        }
        let is_near = self.available_bytes < headroom_bytes.saturating_mul(2);
        if is_near && self.pressure_percent > PRESSURE_MAX_PERCENT {
            return -1;
        }
        // A slab more than fits is left, so that it does not come and go.
        slabs((self.available_bytes - headroom_bytes).saturating_sub(slab_bytes))
    }
}

fn available(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

fn some_avg10(pressure: &str) -> Option<f64> {
    let line = pressure.lines().find_map(|line| line.strip_prefix("some "))?;
    line.split(' ').find_map(|part| part.strip_prefix("avg10="))?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn change(available_mib: u64, pressure_percent: f64) -> i64 {
        let now = MemoryNow { available_bytes: available_mib * MIB, pressure_percent };
        now.change(1024 * MIB, 64 * MIB)
    }

    #[test]
    fn what_is_above_the_headroom_is_lent() {
        assert_eq!(change(1024 + 640, 0.0), 9);
        assert_eq!(change(1024 + 64, 0.0), 0);
        assert_eq!(change(1024, 0.0), 0);
        assert_eq!(change(1023, 0.0), -1);
        assert_eq!(change(1024 - 65, 0.0), -2);
        assert_eq!(change(0, 0.0), -16);
        assert_eq!(change(1024 + 640, 11.0), -1);
    }

    #[test]
    fn who_waits_in_a_limit_of_its_own_takes_nothing_from_borrowers() {
        assert_eq!(change(4096, 90.0), change(4096, 0.0));
    }

    #[test]
    fn the_kernel_is_understood() {
        let meminfo = "MemTotal:       24689764 kB\nMemFree:        10000 kB\nMemAvailable:   23000000 kB\n";
        assert_eq!(available(meminfo), Some(23_000_000 << 10));
        assert_eq!(available("MemTotal: 1 kB\n"), None);
        let pressure = "some avg10=1.25 avg60=0.00 avg300=0.00 total=0\nfull avg10=9.00 avg60=0.00 avg300=0.00 total=0\n";
        assert_eq!(some_avg10(pressure), Some(1.25));
        assert_eq!(some_avg10(""), None);
        let now = MemoryNow::ask().expect("Linux");
        assert!(now.available_bytes > 0);
    }
}
