//! One run over a target: the parts in their order, and what they share.

mod budget;
mod fill;
mod flush;
mod loads;
mod precondition;
mod raid;
mod recovery;

pub use budget::{Budget, Part};

use std::time::Instant;

use aquifer_device::queue::Queue;

use crate::control::{Control, Stop};
use crate::error::ProbeError;
use crate::load::{self, Limits};
use crate::machine::MachineWatch;
use crate::plan::Plan;
use crate::report::{Emulation, Job, Measurement, Pattern, Report, Round, TargetKind, WriteMode};
use crate::target::Ground;
use aquifer_base::random::Random;

/// Block of random transfers where nothing else is said; larger where the device's own block is.
const PAGE_BYTES: u32 = 4096;
/// Depth of random transfers where nothing else is said.
const DEPTH: u32 = 32;
/// Block of sequential transfers where nothing else is said.
const SEQUENTIAL_BYTES: u32 = 128 << 10;

/// A run over a target.
pub struct Probe<'a> {
    ground: &'a Ground,
    plan: Plan,
    budget: Budget,
    queue: Box<dyn Queue>,
    control: &'a dyn Control,
    random: Random,
    report: Report,
    watch: MachineWatch,
    begun: Instant,
    /// Seconds of parts that are over, as they were estimated.
    done_s: f64,
}

impl<'a> Probe<'a> {
    /// Opens a target. Nothing is written yet.
    ///
    /// # Errors
    /// [`ProbeError`].
    pub fn open(
        ground: &'a Ground,
        plan: Plan,
        seed: u64,
        control: &'a dyn Control,
    ) -> Result<Self, ProbeError> {
        let mut target = ground.describe();
        let plan = plan.for_block(target.block_bytes);
        let budget = Budget::new(ground, &plan)?;
        let queue = ground.open(1, PAGE_BYTES, budget.span_bytes)?;
        target.tested_bytes = budget.span_bytes;
        let report = Report::new(plan.effort, target, seed);
        Ok(Probe {
            ground,
            plan,
            budget,
            queue,
            control,
            random: Random::new(seed),
            report,
            watch: MachineWatch::start(),
            begun: Instant::now(),
            done_s: 0.0,
        })
    }

    /// What the run will write and how long it will take, at most.
    #[must_use]
    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    /// Measures everything. The report holds what there is, also when the run was ended or the target failed.
    pub fn run(mut self) -> (Report, Result<(), Stop>) {
        let outcome = self.parts();
        self.clean_up();
        self.report.complete = outcome.is_ok();
        if let Err(stop) = &outcome {
            self.report.notes.push(format!("The run did not come to its end: {stop}."));
        }
        self.report.duration_s = self.begun.elapsed().as_secs_f64();
        self.report.machine = self.watch.describe();
        if self.queue.is_simulated() {
            // Nobody can steal simulated time.
            self.report.machine.steal_percent = 0.0;
        }
        (self.report, outcome)
    }

    fn parts(&mut self) -> Result<(), Stop> {
        for part in Part::ALL {
            let part_s = self.budget.seconds(part);
            if part_s == 0.0 {
                continue;
            }
            self.control.begins(part.name(), part_s, self.done_s, self.budget.total_s());
            match part {
                Part::Precondition => self.precondition()?,
                Part::Flush => self.flush_cost()?,
                Part::Steady => self.steady_state()?,
                Part::Matrix => self.matrix()?,
                Part::Mixes => self.mixes()?,
                Part::Latency => self.latencies()?,
                Part::WorkingSet => self.working_sets()?,
                Part::Beside => self.readers_beside_writers()?,
                Part::Log => self.log_writes()?,
                Part::Idle => self.idle_recovery()?,
                Part::Fill => self.fill_levels()?,
                Part::Trim => self.trim_recovery()?,
                Part::Raid => self.raid_scaling()?,
            }
            self.done_s += part_s;
        }
        Ok(())
    }

    /// Leaves nothing of the run behind: files have no name and go with it, a block device is discarded.
    fn clean_up(&mut self) {
        self.note_emulation();
        if self.ground.describe().kind == TargetKind::BlockDevice {
            let length = self.queue.len_bytes();
            if let Err(error) = self.queue.discard(0, length) {
                self.report.notes.push(format!("The device could not be discarded afterwards: {error}."));
            }
        }
    }

    fn note_emulation(&mut self) {
        let Some(ftl) = self.queue.flash().first() else { return };
        let counters = ftl.counters();
        let parameters = match self.ground {
            Ground::Flash(spec) => spec.parameters(),
            Ground::Places(..) => String::new(),
        };
        self.report.target.emulation = Some(Emulation {
            parameters,
            over_provisioning: ftl.over_provisioning(),
            write_amplification: counters.write_amplification(),
            host_programs: counters.host_programs,
            cleaning_programs: counters.cleaning_programs,
            leveling_programs: counters.leveling_programs,
            metadata_programs: counters.metadata_programs,
            erases: counters.erases,
        });
    }

    /// The block of small transfers.
    fn page_bytes(&self) -> u32 {
        PAGE_BYTES.max(self.report.target.block_bytes)
    }

    /// A job over the whole span.
    fn job(&self, pattern: Pattern, read_percent: u8, block_bytes: u32, depth: u32) -> Job {
        Job {
            pattern,
            read_percent,
            block_bytes,
            depth,
            write_mode: WriteMode::Cached,
            span_bytes: self.queue.len_bytes().min(self.budget.span_bytes),
        }
    }

    /// Random writes as they are used to fragment and to see whether the device is steady.
    fn random_writes(&self) -> Job {
        self.job(Pattern::Random, 0, self.page_bytes(), DEPTH)
    }

    /// The limits of a round that is `share` of the usual one.
    fn limits(&self, share: f64) -> Limits {
        if self.queue.is_simulated() {
            let ios = (self.plan.simulated_ios as f64 * share).max(1.0) as u64;
            // Long enough for the slowest device, and what its timeline is divided by.
            return Limits { duration_ns: 2_000_000_000, ios, written_bytes: u64::MAX };
        }
        let duration_ns = (self.plan.round_s * share * 1e9) as u64;
        Limits { duration_ns, ios: u64::MAX, written_bytes: self.budget.round_bytes }
    }

    fn load(&mut self, jobs: &[Job], limits: Limits) -> Result<Vec<Round>, Stop> {
        let written_bytes = &mut self.report.bytes_written;
        load::run(&mut *self.queue, jobs, limits, &mut self.random, self.control, written_bytes)
    }

    /// One round of one job.
    fn round(&mut self, job: &Job, limits: Limits) -> Result<Round, Stop> {
        let rounds = self.load(std::slice::from_ref(job), limits)?;
        Ok(rounds.into_iter().next().unwrap_or_default())
    }

    /// All rounds of one job.
    fn measure(&mut self, job: Job, share: f64) -> Result<Measurement, Stop> {
        let mut rounds = Vec::with_capacity(self.plan.rounds);
        for _ in 0..self.plan.rounds {
            rounds.push(self.round(&job, self.limits(share))?);
        }
        Ok(Measurement { job, rounds })
    }

    /// Writes the first `bytes` of the target once, in order.
    fn write_once(&mut self, bytes: u64) -> Result<Round, Stop> {
        let block_bytes = SEQUENTIAL_BYTES.min(bytes as u32).max(self.page_bytes());
        let job = Job { span_bytes: bytes, ..self.job(Pattern::Sequential, 0, block_bytes, DEPTH) };
        let limits = Limits {
            duration_ns: u64::MAX,
            ios: bytes.div_ceil(block_bytes.into()),
            written_bytes: u64::MAX,
        };
        self.round(&job, limits)
    }

    /// Discards from `offset` on to the end of the span, where discards reach the device.
    fn discard_from(&mut self, offset: u64) -> Result<bool, Stop> {
        if !self.ground.can_discard() {
            return Ok(false);
        }
        let end = self.queue.len_bytes().min(self.budget.span_bytes);
        self.queue.discard(offset, end - offset)?;
        self.queue.flush()?;
        Ok(true)
    }
}
