//! The line of one run.

use serde::{Deserialize, Serialize};

use super::breakdown::Breakdown;
use super::system::System;
use super::workload::Workload;
use crate::machine::Context;

/// How a durable heap is set.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Settings {
    /// From which utilisation on the file grows rather than being cleaned.
    pub utilisation_percent: u32,
    /// Size of a chunk.
    pub chunk_bytes: u32,
}

/// One system under one workload.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Sample {
    /// The system measured.
    pub system: System,
    /// What it was asked for.
    pub workload: Workload,
    /// Number of the run, from 1.
    pub run: u32,
    /// Bytes of live objects at most.
    pub live_bytes: u64,
    /// Objects that were allocated or freed together.
    pub batch: usize,
    /// Seed of sizes and victims.
    pub seed: u64,
    /// Bytes of all objects that were ever allocated.
    pub allocated_bytes: u64,
    /// Largest memory over the whole run, everything counted.
    pub peak_bytes: u64,
    /// The same without what is free and can take any object; equal where that is not known.
    pub peak_used_bytes: u64,
    /// Largest memory over live bytes, while these were at least nine tenths of the most.
    pub ratio_near_cap: f64,
    /// Memory at the end.
    pub end_bytes: u64,
    /// Largest memory of what finds the objects, where that is apart; else 0.
    pub map_bytes: u64,
    /// Looks at the memory.
    pub looks: u64,
    /// Length of the run.
    pub seconds: f64,
    /// Processor time of it.
    pub cpu_s: f64,
    /// What durable heaps have to add.
    pub durable: Option<Durable>,
    /// Machine and command.
    pub context: Context,
}

/// What a durable heap has to add.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Durable {
    /// How it was set.
    pub settings: Settings,
    /// Largest memory of the file as the kernel counts it.
    pub blocks_max_bytes: u64,
    /// Largest memory of the process that is of no file: map, free places, buffers.
    pub ram_max_bytes: u64,
    /// Bytes persisted.
    pub persisted_bytes: u64,
    /// Waits for durability.
    pub fences: u64,
    /// Chunks cleaned.
    pub cleaned_chunks: u64,
    /// Bytes of objects that the cleaner copied.
    pub copied_bytes: u64,
    /// Where the memory was at its peak, if it was asked for.
    pub breakdown: Option<Breakdown>,
}

impl Sample {
    /// Peak memory over the most live bytes, everything counted.
    pub fn ratio(&self) -> f64 {
        self.peak_bytes as f64 / self.live_bytes as f64
    }

    /// Share of the peak that is no live object, where free chunks are left out.
    pub fn waste(&self) -> f64 {
        (self.peak_used_bytes as f64 - self.live_bytes as f64) / self.peak_used_bytes as f64
    }

    /// Bytes persisted per byte allocated, where they are counted.
    pub fn written_per_allocated(&self) -> Option<f64> {
        Some(self.durable?.persisted_bytes as f64 / self.allocated_bytes as f64)
    }

    /// The system with its settings, as in tables.
    pub fn label(&self) -> String {
        match self.durable {
            Some(durable) => format!("{} {} %", self.system, durable.settings.utilisation_percent),
            None => self.system.to_string(),
        }
    }

    /// One line for the terminal.
    pub fn summary(&self) -> String {
        let durable = self.written_per_allocated().map_or(String::new(), |written| {
            format!(", map {:.3}, written {written:.2} B/B", self.map_bytes as f64 / self.live_bytes as f64)
        });
        format!(
            "{:12} {:?} run {}: peak / live {:.3}, near the cap {:.3}, at the end {:.3}, {:.1} s{durable}",
            self.label(),
            self.workload,
            self.run,
            self.ratio(),
            self.ratio_near_cap,
            self.end_bytes as f64 / self.live_bytes as f64,
            self.seconds,
        )
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A sample with round numbers, for tests of the table too.
    pub(crate) fn sample(system: System, workload: Workload, peak_bytes: u64) -> Sample {
        let settings = Settings { utilisation_percent: 90, chunk_bytes: 1 << 20 };
        let durable = Durable {
            settings,
            blocks_max_bytes: peak_bytes,
            ram_max_bytes: 300,
            persisted_bytes: 15_000,
            fences: 100,
            cleaned_chunks: 5,
            copied_bytes: 1000,
            breakdown: None,
        };
        Sample {
            system,
            workload,
            run: 1,
            live_bytes: 1000,
            batch: 16,
            seed: 1,
            allocated_bytes: 5000,
            peak_bytes,
            peak_used_bytes: peak_bytes - 150,
            ratio_near_cap: 1.3,
            end_bytes: 1100,
            map_bytes: 100,
            looks: 77,
            seconds: 1.5,
            cpu_s: 1.0,
            durable: (system == System::Aquifer).then_some(durable),
            context: Context::default(),
        }
    }

    #[test]
    fn ratios_follow_their_definitions() {
        let sample = sample(System::Aquifer, Workload::W1, 1400);
        assert_eq!((sample.ratio(), sample.waste()), (1.4, 0.2));
        assert_eq!(sample.written_per_allocated(), Some(3.0));
    }
}
