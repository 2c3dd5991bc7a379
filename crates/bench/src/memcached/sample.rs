//! One line of results.

use serde::{Deserialize, Serialize};

use super::load::Point;
use super::peer::Peer;
use super::stats::ServerStats;
use crate::device::Counters;
use crate::machine::Context;
use crate::process::Memory;

/// Configuration and result of one run of one server.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Sample {
    /// The server.
    pub peer: Peer,
    /// Number of the run, from 1.
    pub run: u32,
    /// Bytes of all items: values, keys and memcached's headers.
    pub data_bytes: u64,
    /// RAM of the whole server.
    pub ram_bytes: u64,
    /// Limit of its control group; none without one.
    pub limit_bytes: Option<u64>,
    /// What its own limit was set to: `AQUIFER_RAM`, `--ram`, `-m`.
    pub given_bytes: u64,
    /// Size of the swap area, where there is one.
    pub swap_bytes: Option<u64>,
    /// Size of the flash file, where there is one.
    pub flash_bytes: Option<u64>,
    /// Number of keys.
    pub items: u64,
    /// Bytes of a value.
    pub value_bytes: u64,
    /// What the clients asked for.
    pub point: Point,
    /// Seed of the requests.
    pub seed: u64,
    /// Time that setting every key once took.
    pub fill_s: f64,
    /// Sets that were refused meanwhile.
    pub fill_refused: u64,
    /// Length of the warm-up before this run.
    pub warmup_s: f64,
    /// Length of the measured phase.
    pub seconds: f64,
    /// Requests per second, all clients.
    pub requests_per_s: f64,
    /// Gets per second that were answered with a value.
    pub hits_per_s: f64,
    /// Gets.
    pub gets: u64,
    /// Gets that were answered with a value.
    pub hits: u64,
    /// Gets without a value although their key had been set.
    pub lost: u64,
    /// Sets.
    pub sets: u64,
    /// Sets that were refused for want of memory.
    pub refused: u64,
    /// Median latency of a request.
    pub p50_ns: u64,
    /// 99th percentile of the latency.
    pub p99_ns: u64,
    /// Largest memory of the process at any look in the measured phase.
    pub memory: Memory,
    /// Largest charge of its control group at any look; with page cache and kernel memory.
    pub charged_bytes: Option<u64>,
    /// Processor time of the server in the measured phase, all threads.
    pub cpu_s: f64,
    /// What the device did in the measured phase.
    pub device: Counters,
    /// What the device was writing just before this run, in bytes per second.
    pub background_write_bytes_per_s: u64,
    /// memcached's counters at the end of the measured phase, since it was started.
    pub stats: ServerStats,
    /// Machine and command.
    pub context: Context,
}

impl Sample {
    /// Processor time of the server for each request, microseconds.
    pub fn cpu_us_per_request(&self) -> f64 {
        self.cpu_s * 1e6 / (self.gets + self.sets).max(1) as f64
    }

    /// Percent of the gets that found nothing although their key had been set.
    pub fn lost_percent(&self) -> f64 {
        100.0 * self.lost as f64 / self.gets.max(1) as f64
    }

    /// Percent of the keys for which the server has an entry. extstore may find that what an entry
    /// names on flash is gone.
    pub fn held_percent(&self) -> f64 {
        100.0 * self.stats.curr_items as f64 / self.items as f64
    }
}
