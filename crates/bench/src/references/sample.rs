//! Lines of results.

use serde::{Deserialize, Serialize};

use crate::device::Counters;
use crate::machine::Context;
use crate::peer::abi::Stats;

/// One run of hits by handle and faults by pointer.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Handles {
    /// Number of the run, from 1.
    pub run: u32,
    /// RAM budget of the heap.
    pub ram_bytes: u64,
    /// Bytes of one object.
    pub object_bytes: u64,
    /// Objects of the heap, all of them in the object cache.
    pub objects: u64,
    /// Each working set.
    pub hits: Vec<Hits>,
    /// What the heap read from the device meanwhile; 0, or they were no hits.
    pub device_reads: u64,
    /// Median of one touch by pointer of an object that is cached and not mapped: signal and all, in
    /// the faulting thread.
    pub touch_ns: f64,
    /// Part of the touches that faulted.
    pub faults_per_touch: f64,
    /// Part of these that read the device.
    pub misses_per_fault: f64,
    /// Machine and command.
    pub context: Context,
}

/// One working set.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Hits {
    /// Objects that were used in turn.
    pub objects: u64,
    /// `aq_heap_deref` for reading and `aq_heap_release` together.
    pub ns: f64,
}

/// One run of batches.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Batches {
    /// Number of the run, from 1.
    pub run: u32,
    /// Bytes of all objects.
    pub data_bytes: u64,
    /// RAM budget of the heap.
    pub ram_bytes: u64,
    /// Limit of the process's cgroup; none without a cgroup.
    pub limit_bytes: Option<u64>,
    /// Size of the log.
    pub flash_bytes: u64,
    /// Bytes of one object.
    pub object_bytes: u64,
    /// Objects of one batch.
    pub batch_objects: u64,
    /// Length of the warm-up before this run.
    pub warmup_s: f64,
    /// Length of the measured phase.
    pub seconds: f64,
    /// Objects read in the measured phase.
    pub objects: u64,
    /// Processor time of the process, all its threads, the check of the bytes included.
    pub cpu_s: f64,
    /// Differences of the library's counters.
    pub stats: Stats,
    /// What the kernel counted for the device, other programs included.
    pub device: Counters,
    /// What the device was writing just before this run, in bytes per second.
    pub background_write_bytes_per_s: u64,
    /// fio on the same disk, where it ran.
    pub fio: Vec<FioReads>,
    /// Machine and command.
    pub context: Context,
}

/// fio's random reads just before and just after a run.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct FioReads {
    /// Bytes of one read.
    pub block_bytes: u64,
    /// Reads under way.
    pub depth: usize,
    /// Reads per second before.
    pub before_per_s: f64,
    /// Reads per second after.
    pub after_per_s: f64,
}

impl FioReads {
    /// Mean of before and after: the device of a machine that others share drifts.
    pub fn per_s(&self) -> f64 {
        f64::midpoint(self.before_per_s, self.after_per_s)
    }
}

impl Batches {
    /// Objects per second, from RAM and from the device.
    pub fn objects_per_s(&self) -> f64 {
        self.objects as f64 / self.seconds
    }

    /// Reads of objects from the device. Objects that were found in RAM are none, and neither are
    /// the reads of leaves that say where objects are.
    pub fn device_reads(&self) -> u64 {
        self.stats.device_reads.saturating_sub(self.stats.leaves_read)
    }

    /// The same per second.
    pub fn device_reads_per_s(&self) -> f64 {
        self.device_reads() as f64 / self.seconds
    }

    /// Part of the objects that were found in RAM.
    pub fn found_in_ram(&self) -> f64 {
        1.0 - self.device_reads() as f64 / self.objects.max(1) as f64
    }

    /// fio's reads of `block_bytes`.
    pub fn fio(&self, block_bytes: u64) -> Option<FioReads> {
        self.fio.iter().find(|reads| reads.block_bytes == block_bytes).copied()
    }

    /// One line for the terminal.
    pub fn summary(&self) -> String {
        let fio = |reads: &FioReads| {
            let (bytes, before, after) = (reads.block_bytes, reads.before_per_s, reads.after_per_s);
            format!(", fio {bytes} B {before:.0} before and {after:.0} after")
        };
        format!(
            "batches run {}: {:>9.0} objects/s, {:.0} device reads/s{}",
            self.run,
            self.objects_per_s(),
            self.device_reads_per_s(),
            self.fio.iter().map(fio).collect::<String>(),
        )
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A run with round numbers, for tests of the tables too.
    pub(crate) fn batches(device_reads: u64, fio_per_s: f64) -> Batches {
        Batches {
            run: 1,
            data_bytes: 1 << 30,
            ram_bytes: 64 << 20,
            limit_bytes: None,
            flash_bytes: 2 << 30,
            object_bytes: 128,
            batch_objects: 1024,
            warmup_s: 1.0,
            seconds: 2.0,
            objects: 3000,
            cpu_s: 0.03,
            stats: Stats { device_reads, leaves_read: 100, ..Stats::default() },
            device: Counters::default(),
            background_write_bytes_per_s: 0,
            fio: vec![FioReads {
                block_bytes: 4096,
                depth: 32,
                before_per_s: fio_per_s - 50.0,
                after_per_s: fio_per_s + 50.0,
            }],
            context: Context::default(),
        }
    }

    #[test]
    fn neither_hits_nor_leaves_are_device_reads() {
        let sample = batches(1000, 500.0);
        assert_eq!((sample.objects_per_s(), sample.device_reads_per_s()), (1500.0, 450.0));
        assert!((sample.found_in_ram() - 0.7).abs() < 1e-9);
        assert_eq!(sample.fio(4096).map(|reads| reads.per_s()), Some(500.0));
        assert_eq!(sample.fio(512), None);
    }
}
