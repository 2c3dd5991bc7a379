//! All runs, in turns.

use std::process::Command;
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use super::failing::{Failing, STEP, Victim};
use super::failure::Failure;
use super::options::RecoverOptions;
use super::recovery::Recovery;
use super::sample::DonorFailure;
use super::slice::Slice;
use super::task::Begin;
use crate::cleanup;
use crate::device::Device;
use crate::donors::{Donors, Slabs, flash_bytes};
use crate::error::{Error, Result};
use crate::machine::Context;
use crate::omissions::Omissions;
use crate::process::monotonic_ns;
use crate::programs::Programs;
use crate::progress::Progress;
use crate::rng::Rng;
use crate::sample::{Output, Record, Skipped};
use crate::service::Service;
use crate::spawn::dies_with_parent;
use crate::table;
use crate::workdir::WorkDir;

/// Longest wait for one run's late writes before the next one.
const SETTLE_LIMIT: Duration = Duration::from_secs(3);
/// Longest wait for the program's end after it should have come.
const LATE_MAX: Duration = Duration::from_secs(60);
/// Either donor can hold everything.
const LENT_PER_FLASH: u64 = 2;

/// The state of the benchmark.
pub struct Study<'a> {
    options: &'a RecoverOptions,
    context: Context,
    device: Device,
    programs: Programs,
    progress: Progress,
    output: Output,
    records: Vec<Record>,
    omissions: Omissions,
    _workdir: WorkDir,
}

impl<'a> Study<'a> {
    /// Locks the directory and opens the output.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Input`]; [`Error::Unavailable`] if the directory is on no disk, or the `aquifer` command is not there.
    pub fn open(options: &'a RecoverOptions) -> Result<Self> {
        let programs = Programs::find()?;
        programs.aquifer()?;
        let workdir = WorkDir::acquire(&options.dir)?;
        let device = Device::holding(workdir.path())?;
        Ok(Self {
            options,
            context: Context::here(&device),
            device,
            programs,
            progress: Progress::new(options.failure.len() as u64 * u64::from(options.runs)),
            output: Output::open(options.out.as_deref())?,
            records: Vec::new(),
            omissions: Omissions::default(),
            _workdir: workdir,
        })
    }

    /// Runs everything and shows the table.
    ///
    /// # Errors
    /// [`Error::WrongData`], [`Error::Child`], [`Error::Killed`], [`Error::Io`] of the output; in the end the first failure of a run that was left out.
    pub fn run(mut self) -> Result<()> {
        for run in 1..=self.options.runs {
            let mut turn = self.options.failure.clone();
            Rng::new(run.into()).shuffle(&mut turn);
            for failure in turn {
                self.take_turn(failure, run)?;
            }
        }
        self.progress.note(&table::render(&self.records));
        self.omissions.end()
    }

    /// One run. That it could not be made is recorded; that something went wrong in it is an error.
    fn take_turn(&mut self, failure: Failure, run: u32) -> Result<()> {
        cleanup::stop_if_interrupted();
        self.progress.doing(format!("{failure}, run {run}"));
        let made = self.measure(failure, run);
        cleanup::stop_if_interrupted();
        self.progress.step();
        let record = match made {
            Ok(sample) => {
                self.progress.note(&sample.summary());
                Record::DonorFailure(Box::new(sample))
            }
            Err(error @ (Error::Child { .. } | Error::Killed { .. })) => return Err(error),
            Err(error) => {
                let reason = self.omissions.reason(error)?;
                self.progress.note(&format!("{failure}, run {run} is left out: {reason}"));
                let peer = format!("recover {failure}");
                Record::Skipped(Skipped { peer, reason, context: self.context.clone() })
            }
        };
        self.output.write(&record)?;
        self.records.push(record);
        Ok(())
    }

    fn measure(&self, failure: Failure, run: u32) -> Result<DonorFailure> {
        let options = self.options;
        let flash_bytes = flash_bytes(options.data);
        self.device.settle(SETTLE_LIMIT)?;
        let mut donors = self.donors(failure, LENT_PER_FLASH * flash_bytes)?;
        let mut command = self.command(flash_bytes, &donors.list())?;
        dies_with_parent(&mut command);
        let mut program = Service::start("program", command)?;
        let begin: Begin = program.wait_for(|line| serde_json::from_str(line).ok())?;
        let warmup_ms = (1e3 * options.warmup) as u64;
        let fails_ms = warmup_ms + (1e3 * options.before) as u64;
        let mut slices = slices_until(&mut program, fails_ms)?;
        if slices.last().is_none_or(|slice| slice.at_ms < fails_ms) {
            program.finish()?;
            return Err(child("ended too early".to_owned()));
        }
        let victim = victim(&mut donors)?;
        let lent_slabs = victim.slabs.lent;
        let failed_ms = monotonic_ns().saturating_sub(begin.monotonic_ns) as f64 / 1e6;
        let mut failing = Failing::begin(failure, victim)?;
        let limit = Duration::from_secs_f64(options.after) + LATE_MAX;
        slices.extend(slices_after(&mut program, &mut failing, limit)?);
        program.finish()?;
        let outcome = failing.end()?;
        let too_few = || Error::Unavailable(format!("the program told only {} slices", slices.len()));
        Ok(DonorFailure {
            failure,
            provider: options.provider,
            copies: options.copies,
            run,
            data_bytes: options.data,
            ram_bytes: options.ram_bytes(),
            flash_bytes,
            lent_slabs,
            setup_s: begin.setup_s,
            warmup_s: options.warmup,
            failed_ms,
            slice_ops: slices.iter().map(|slice| slice.ops).collect(),
            recovery: Recovery::of(&slices, warmup_ms, failed_ms).ok_or_else(too_few)?,
            left_s: outcome.left_after.map(|after| after.as_secs_f64()),
            pressed: outcome.pressed,
            context: self.context.clone(),
        })
    }

    /// Two that lend so much together.
    fn donors(&self, failure: Failure, bytes: u64) -> Result<Donors> {
        let aquifer = self.programs.aquifer()?;
        let provider = self.options.provider.to_string();
        match failure {
            Failure::Press => Donors::start_short(aquifer, &provider, bytes),
            Failure::Kill | Failure::Stop | Failure::Leave => Donors::start(aquifer, &provider, bytes),
        }
    }

    /// This program itself as the one that is measured.
    fn command(&self, flash_bytes: u64, donors: &str) -> Result<Command> {
        let options = self.options;
        let own = std::env::current_exe().map_err(Error::io("finding", "this program"))?;
        let mut command = Command::new(self.programs.aquifer()?);
        command.args(["run", "--ram", &options.ram_bytes().to_string(), "--flash"]).arg(&options.dir);
        command.args(["--flash-size", &flash_bytes.to_string(), "--donors", donors]);
        command.args(["--copies", &options.copies.to_string(), "--"]).arg(own);
        command.args(["recover", "--task", "--data", &options.data.to_string()]);
        command.args(["--seconds", &options.seconds().to_string()]);
        Ok(command)
    }
}

/// The first donor, of which the program must have something.
fn victim(donors: &mut Donors) -> Result<Victim> {
    let headroom_bytes = donors.first_headroom_bytes();
    let mut donor = donors.take_first().expect("there are two");
    let slabs = donor.last_of(Slabs::told_by).filter(|slabs| slabs.lent > 0);
    let nothing = "the donor that was to fail had lent nothing yet; try a longer --warmup";
    let slabs = slabs.ok_or_else(|| Error::Unavailable(nothing.to_owned()))?;
    Ok(Victim { donor, slabs, headroom_bytes })
}

/// The slices of a program up to the one that ends at `end_ms`, or as many as there are.
fn slices_until(program: &mut Service, end_ms: u64) -> Result<Vec<Slice>> {
    let limit = Duration::from_millis(end_ms) + LATE_MAX;
    let started = Instant::now();
    let mut slices: Vec<Slice> = Vec::new();
    while slices.last().is_none_or(|slice| slice.at_ms < end_ms) {
        let left = limit.checked_sub(started.elapsed()).ok_or_else(|| late(limit))?;
        match program.line(left) {
            Ok(line) => slices.push(slice(&line)?),
            Err(RecvTimeoutError::Timeout) => return Err(late(limit)),
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    Ok(slices)
}

/// The slices of a program until it ends, while a donor fails.
fn slices_after(program: &mut Service, failing: &mut Failing, limit: Duration) -> Result<Vec<Slice>> {
    let started = Instant::now();
    let mut slices = Vec::new();
    while started.elapsed() < limit {
        match program.line(STEP) {
            Ok(line) => slices.push(slice(&line)?),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Ok(slices),
        }
        failing.look();
    }
    Err(late(limit))
}

fn slice(line: &str) -> Result<Slice> {
    serde_json::from_str(line).map_err(|error| child(format!("said {line:?}, which is no slice: {error}")))
}

fn late(limit: Duration) -> Error {
    child(format!("was not finished after {} s", limit.as_secs()))
}

fn child(what: String) -> Error {
    Error::Child { peer: "program".to_owned(), what }
}
