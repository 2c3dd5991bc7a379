//! The machine of a run, and the processor time of both.

use std::fs;

use crate::report::Machine;

/// Ticks per second of `/proc`, on every Linux of today.
const TICKS_PER_S: f64 = 100.0;

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

/// Processor time of this process and of the kernel for it, in seconds; 0 where the system does not say.
#[must_use]
pub fn processor_time_s() -> f64 {
    // Nanoseconds that the process's threads have run, user and system together.
    let of_thread = |path: &std::path::Path| -> Option<f64> {
        fs::read_to_string(path.join("schedstat")).ok()?.split(' ').next()?.parse().ok()
    };
    let Ok(threads) = fs::read_dir("/proc/self/task") else { return 0.0 };
    threads.filter_map(|thread| of_thread(&thread.ok()?.path())).sum::<f64>() / 1e9
}

/// Processor time of the machine: all of it, and what other machines on the same host took.
fn machine_time_s() -> (f64, f64) {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    let Some(line) = stat.lines().next().and_then(|line| line.strip_prefix("cpu ")) else {
        return (0.0, 0.0);
    };
    let ticks: Vec<f64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let all = ticks.iter().take(8).sum::<f64>() / TICKS_PER_S;
    (all, ticks.get(7).copied().unwrap_or(0.0) / TICKS_PER_S)
}
