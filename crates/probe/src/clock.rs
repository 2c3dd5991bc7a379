//! Processor time.

use std::fs;

/// Ticks per second of `/proc`, on every Linux of today.
const TICKS_PER_S: f64 = 100.0;

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
#[must_use]
pub fn machine_time_s() -> (f64, f64) {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    let Some(line) = stat.lines().next().and_then(|line| line.strip_prefix("cpu ")) else {
        return (0.0, 0.0);
    };
    let ticks: Vec<f64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let all = ticks.iter().take(8).sum::<f64>() / TICKS_PER_S;
    (all, ticks.get(7).copied().unwrap_or(0.0) / TICKS_PER_S)
}
