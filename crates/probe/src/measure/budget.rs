//! What a run will write and how long it will take, before it begins.

use crate::error::ProbeError;
use crate::plan::Plan;
use crate::steady;
use crate::target::{Ground, SPAN_BYTES_MIN};

/// A part of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// Writes before anything is measured.
    Precondition,
    /// What a flush costs.
    Flush,
    /// Random writes in rounds until they are level.
    Steady,
    /// Pattern x direction x block x depth.
    Matrix,
    /// Reads among writes.
    Mixes,
    /// One at a time, in all write modes.
    Latency,
    /// Parts of the span.
    WorkingSet,
    /// Readers beside writers.
    Beside,
    /// Small durable writes.
    Log,
    /// Bursts after pauses.
    Idle,
    /// Levels of fill.
    Fill,
    /// Half of the target discarded.
    Trim,
    /// Several devices side by side.
    Raid,
}

impl Part {
    /// In the order in which they run: what leaves the target in another state comes last.
    pub const ALL: [Part; 13] = [
        Part::Precondition,
        Part::Flush,
        Part::Steady,
        Part::Matrix,
        Part::Mixes,
        Part::Latency,
        Part::WorkingSet,
        Part::Beside,
        Part::Log,
        Part::Idle,
        Part::Fill,
        Part::Trim,
        Part::Raid,
    ];

    /// In words.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Part::Precondition => "preconditioning",
            Part::Flush => "cost of a flush",
            Part::Steady => "steady state",
            Part::Matrix => "block sizes and depths",
            Part::Mixes => "reads among writes",
            Part::Latency => "latency",
            Part::WorkingSet => "working sets",
            Part::Beside => "reads beside writes",
            Part::Log => "log writes",
            Part::Idle => "bursts after pauses",
            Part::Fill => "fill levels",
            Part::Trim => "TRIM",
            Part::Raid => "RAID-0",
        }
    }
}

/// Bytes per second that a device is expected to write when nothing is known of it: it makes estimates of time, not results.
const EXPECTED_BYTES_PER_S: f64 = 500e6;
/// Most bytes that a round writes in one second. A faster device is measured for a shorter time, and is worn less.
const ROUND_BYTES_PER_S: f64 = 1024.0 * 1024.0 * 1024.0;
/// What a round may write at least, however large the spans are that a run writes.
const ROUND_BYTES_MIN: f64 = 32.0 * 1024.0 * 1024.0;
/// The largest transfer.
const BLOCK_BYTES_MAX: u64 = 1 << 20;
/// A simulated transfer takes about so long to simulate.
const SIMULATED_IO_S: f64 = 2e-6;

/// What a run will write and how long it will take, at most.
#[derive(Clone, Debug)]
pub struct Budget {
    /// The part of the target that is used.
    pub span_bytes: u64,
    /// Most bytes that one round writes.
    pub round_bytes: u64,
    /// Bytes of each device of a stripe.
    pub raid_device_bytes: u64,
    /// Most bytes that the run writes.
    pub written_bytes: u64,
    parts: Vec<(Part, f64)>,
}

impl Budget {
    /// The budget of a plan on a target.
    ///
    /// # Errors
    /// [`ProbeError::NoRoom`].
    pub fn new(ground: &Ground, plan: &Plan) -> Result<Self, ProbeError> {
        let available = ground.available_bytes();
        let span_bytes = plan.span_bytes.min(available) / (1 << 20) * (1 << 20);
        if span_bytes < SPAN_BYTES_MIN {
            let path = ground.describe().name.into();
            return Err(ProbeError::NoRoom { path, available, needed: SPAN_BYTES_MIN });
        }
        let devices = plan.raid_devices.iter().copied().max().unwrap_or(1);
        let raid_device_bytes = (span_bytes.min(available.saturating_sub(span_bytes)) / u64::from(devices))
            / (1 << 20)
            * (1 << 20);
        let costs: Vec<(Part, Cost)> = Part::ALL.map(|part| (part, cost(part, plan, ground))).into();
        let write_rounds: f64 = costs.iter().map(|(_, cost)| cost.write_rounds).sum();
        let span_writes: f64 = costs.iter().map(|(_, cost)| cost.span_writes).sum();
        // What rounds may write beside the spans that are written.
        let left = plan.written_bytes_max as f64 - span_writes * span_bytes as f64;
        let of_one = (left / write_rounds).max(ROUND_BYTES_MIN) as u64 / BLOCK_BYTES_MAX * BLOCK_BYTES_MAX;
        let round_bytes = span_bytes.min((plan.round_s * ROUND_BYTES_PER_S) as u64).min(of_one);
        let mut budget =
            Budget { span_bytes, round_bytes, raid_device_bytes, written_bytes: 0, parts: Vec::new() };
        let is_simulated = matches!(ground, Ground::Flash(_));
        for (part, cost) in costs {
            if cost.is_nothing() {
                continue;
            }
            let written = cost.span_writes * span_bytes as f64;
            let seconds = if is_simulated {
                // Pages of preconditioning, each with what cleaning adds.
                (cost.rounds * plan.simulated_ios as f64 + written / 4096.0 * 4.0) * SIMULATED_IO_S
            } else {
                cost.rounds * plan.round_s + cost.seconds + written / EXPECTED_BYTES_PER_S
            };
            budget.parts.push((part, seconds.max(0.01)));
            budget.written_bytes += (written + cost.write_rounds * round_bytes as f64) as u64;
        }
        Ok(budget)
    }

    /// How long a part takes, about; 0 when it is left out.
    #[must_use]
    pub fn seconds(&self, part: Part) -> f64 {
        self.parts.iter().find(|(other, _)| *other == part).map_or(0.0, |(_, seconds)| *seconds)
    }

    /// How long everything takes, about.
    #[must_use]
    pub fn total_s(&self) -> f64 {
        self.parts.iter().map(|(_, seconds)| seconds).sum()
    }
}

/// What a part costs.
#[derive(Default)]
struct Cost {
    /// Rounds of the plan's length.
    rounds: f64,
    /// Those of them that may write.
    write_rounds: f64,
    /// Seconds beside rounds.
    seconds: f64,
    /// Times that the span is written beside rounds.
    span_writes: f64,
}

impl Cost {
    fn is_nothing(&self) -> bool {
        self.rounds + self.seconds + self.span_writes == 0.0
    }
}

fn cost(part: Part, plan: &Plan, ground: &Ground) -> Cost {
    let rounds = plan.rounds as f64;
    let both = |count: f64| Cost { rounds: 2.0 * count, write_rounds: count, ..Cost::default() };
    match part {
        Part::Precondition => Cost {
            seconds: plan.random_s,
            span_writes: if plan.full_preconditioning { 2.0 } else { 1.0 } + plan.random_share,
            ..Cost::default()
        },
        Part::Flush => Cost { rounds: 3.0, write_rounds: 2.0, ..Cost::default() },
        Part::Steady => Cost {
            rounds: steady::ROUNDS_MAX as f64,
            write_rounds: steady::ROUNDS_MAX as f64,
            ..Cost::default()
        },
        Part::Matrix => both(2.0 * plan.blocks.len() as f64 * plan.depths.len() as f64 * rounds),
        Part::Mixes => {
            let count = plan.mixes.len() as f64 * rounds;
            Cost { rounds: count, write_rounds: count, ..Cost::default() }
        }
        Part::Latency => Cost { rounds: 8.0 * rounds, write_rounds: 6.0 * rounds, ..Cost::default() },
        Part::WorkingSet => both(plan.working_sets.len() as f64 * rounds),
        Part::Beside => {
            let count = plan.writers.len() as f64 * rounds;
            Cost { rounds: count, write_rounds: count, ..Cost::default() }
        }
        Part::Log => Cost { rounds, write_rounds: rounds, ..Cost::default() },
        Part::Idle => {
            let bursts = plan.pauses_s.len() as f64;
            Cost {
                rounds: bursts * 1.5,
                write_rounds: bursts * 1.5,
                seconds: plan.pauses_s.iter().sum(),
                ..Cost::default()
            }
        }
        Part::Fill => {
            let levels = plan.fills.len() as f64;
            Cost { rounds: levels * 10.0, write_rounds: levels * 6.0, span_writes: levels, ..Cost::default() }
        }
        Part::Trim if ground.can_discard() => Cost {
            rounds: 2.0 * rounds + 2.0,
            write_rounds: 2.0 * rounds + 2.0,
            span_writes: 1.0,
            ..Cost::default()
        },
        Part::Trim => Cost::default(),
        Part::Raid => {
            let units = plan.raid_units.len() as f64 * plan.raid_devices.len() as f64;
            Cost {
                rounds: units * 4.0 * rounds,
                write_rounds: units * 2.0 * rounds,
                span_writes: units,
                ..Cost::default()
            }
        }
    }
}
