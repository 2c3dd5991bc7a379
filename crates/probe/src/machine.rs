//! The machine of a run.

use std::fs;

use crate::clock::machine_time_s;
use crate::report::Machine;

/// Processor time of the machine when a run began.
#[derive(Clone, Copy, Debug)]
pub struct MachineWatch(f64, f64);

impl MachineWatch {
    /// A run begins.
    #[must_use]
    pub fn start() -> Self {
        let (all, stolen) = machine_time_s();
        MachineWatch(all, stolen)
    }

    /// The machine, and what others took of it since the start.
    #[must_use]
    pub fn describe(self) -> Machine {
        let (all, stolen) = machine_time_s();
        let share = if all > self.0 { (stolen - self.1) / (all - self.0) } else { 0.0 };
        Machine {
            cpu_model: field("/proc/cpuinfo", "model name").unwrap_or_default(),
            cpus: std::thread::available_parallelism().map_or(0, |count| count.get() as u32),
            memory_bytes: memory_bytes().unwrap_or(0),
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().into(),
            steal_percent: share * 100.0,
        }
    }
}

fn field(path: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

fn memory_bytes() -> Option<u64> {
    let kilobytes: u64 = field("/proc/meminfo", "MemTotal")?.split(' ').next()?.parse().ok()?;
    Some(kilobytes << 10)
}
