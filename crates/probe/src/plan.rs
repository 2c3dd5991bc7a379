//! How much is measured, for how long.

use crate::report::Effort;

/// Everything that depends on how much was asked for.
#[derive(Clone, PartialEq, Debug)]
pub struct Plan {
    /// How much was asked for.
    pub effort: Effort,
    /// The part of the target that is used, at most.
    pub span_bytes: u64,
    /// Length of a round, in seconds of the clock on the wall.
    pub round_s: f64,
    /// Transfers of a round where time is simulated.
    pub simulated_ios: u64,
    /// Most bytes that the run writes: rounds that write end sooner on a device that is fast.
    pub written_bytes_max: u64,
    /// Rounds of each load.
    pub rounds: usize,
    /// Whether the span is written twice first, rather than once.
    pub full_preconditioning: bool,
    /// The most random writes before anything is measured, as a multiple of the span.
    pub random_share: f64,
    /// And at most for so long.
    pub random_s: f64,
    /// Block sizes of the matrix.
    pub blocks: Vec<u32>,
    /// Depths of the matrix.
    pub depths: Vec<u32>,
    /// Shares of reads of the mixes.
    pub mixes: Vec<u8>,
    /// Levels of fill, in percent of the span.
    pub fills: Vec<u8>,
    /// Pauses before bursts.
    pub pauses_s: Vec<f64>,
    /// Depths of writers beside a reader.
    pub writers: Vec<u32>,
    /// Parts of the span over which reads and writes are spread.
    pub working_sets: Vec<f64>,
    /// Devices side by side.
    pub raid_devices: Vec<u32>,
    /// Stripe units.
    pub raid_units: Vec<u32>,
}

impl Plan {
    /// What is measured by default.
    #[must_use]
    pub fn new(effort: Effort) -> Self {
        match effort {
            Effort::Quick => Plan {
                effort,
                span_bytes: 512 << 20,
                round_s: 0.4,
                simulated_ios: 20_000,
                written_bytes_max: 8 << 30,
                rounds: 1,
                full_preconditioning: false,
                random_share: 1.0,
                random_s: 4.0,
                blocks: vec![512, 4096, 8192, 64 << 10, 1 << 20],
                depths: vec![1, 32],
                mixes: vec![50, 70],
                fills: vec![50, 70, 90, 100],
                pauses_s: vec![0.0, 1.0],
                writers: vec![0, 8],
                working_sets: vec![0.03, 0.25, 1.0],
                raid_devices: vec![1, 2],
                raid_units: vec![64 << 10],
            },
            Effort::Standard => Plan {
                effort,
                span_bytes: 4 << 30,
                round_s: 1.0,
                simulated_ios: 40_000,
                written_bytes_max: u64::MAX,
                rounds: 3,
                full_preconditioning: false,
                random_share: 1.0,
                random_s: 60.0,
                blocks: vec![512, 4096, 8192, 16 << 10, 64 << 10, 256 << 10, 1 << 20],
                depths: vec![1, 4, 32, 128],
                mixes: vec![5, 35, 50, 65, 95],
                fills: vec![50, 70, 90, 100],
                pauses_s: vec![0.0, 1.0, 5.0],
                writers: vec![0, 1, 8, 32],
                working_sets: vec![0.004, 0.016, 0.06, 0.25, 1.0],
                raid_devices: vec![1, 2, 4],
                raid_units: vec![4096, 64 << 10],
            },
            Effort::Full => Plan {
                effort,
                span_bytes: u64::MAX,
                round_s: 10.0,
                simulated_ios: 100_000,
                written_bytes_max: u64::MAX,
                rounds: 5,
                full_preconditioning: true,
                random_share: 2.0,
                random_s: 7200.0,
                blocks: (9..=20).map(|shift| 1 << shift).collect(),
                depths: (0..=7).map(|shift| 1 << shift).collect(),
                mixes: vec![5, 35, 50, 65, 95],
                fills: vec![50, 70, 90, 100],
                pauses_s: vec![0.0, 1.0, 5.0, 30.0, 300.0],
                writers: vec![0, 1, 2, 4, 8, 16, 32],
                working_sets: vec![0.001, 0.004, 0.016, 0.06, 0.25, 0.5, 1.0],
                raid_devices: vec![1, 2, 4, 8],
                raid_units: vec![4096, 16 << 10, 64 << 10, 256 << 10],
            },
        }
    }

    /// Without block sizes below a device's own.
    #[must_use]
    pub fn for_block(mut self, block_bytes: u32) -> Self {
        self.blocks.retain(|&block| block.is_multiple_of(block_bytes));
        self.raid_units.retain(|&unit| unit.is_multiple_of(block_bytes));
        self
    }
}
