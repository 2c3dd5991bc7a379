//! How fast does a program recover when one of its donors fails, and how fast does a donor get its RAM back that leaves, or whose machine needs it?
//!
//! Two donors lend to a program (`program`) under `aquifer run` that reads, checks and rewrites random pages of an array of which half fits in
//! its RAM, and tells how many in each slice of 50 ms. In the middle of that one of the donors is killed, hangs for a while, is told to end, or
//! has to give back what it lends because other programs need it. What the slices say of it is computed in `recovery`.
//!
//! | file | noun |
//! |---|---|
//! | `failing` | what happens to a donor, and the donor to which it happens |
//! | `press` | a shortage of RAM there, and the program that makes it |
//! | `program` | the program that is measured; its array, whose words can be checked, and its slices |
//! | `recovery` | what follows from the slices |

mod failing;
mod press;
mod program;
mod recovery;

use std::process::Command;
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use serde::Serialize;

use crate::child::Parent;
use crate::donors::{Donors, Slabs, flash_bytes};
use crate::error::{Error, Result};
use crate::process::monotonic_ns;
use crate::programs::Programs;
use crate::service::Service;
use crate::spawn::dies_with_parent;
use crate::study::{Fields, Session, Study, Table, key, median, name_of, range};
use failing::{Failing, Failure, STEP, Victim};
use program::{Begin, COMMAND, Slice};
use recovery::Recovery;

pub use program::{Program, run as run_program};

const PEER: &str = "aquifer run";
/// Longest wait for the program's end after it should have come.
const LATE_MAX: Duration = Duration::from_secs(60);
/// Either donor can hold everything.
const LENT_PER_FLASH: u64 = 2;

const EXAMPLES: &str = "\
Examples:
  aquifer-bench recover --out results.jsonl
      Each failure five times, 64 MiB of data, half of it in RAM, donors over TCP on loopback
  aquifer-bench recover --failure kill,stop --copies donor --out results.jsonl
      Pages lie on both donors, and not on flash
  aquifer-bench recover --failure press --runs 3 --out results.jsonl
      The donor's machine needs all the RAM that the donor has
  aquifer-bench recover --provider memory --runs 1
      A first look, without a network
  aquifer-bench table results.jsonl

A program with ordinary memory runs under aquifer run, with two donors on this machine. In the middle of its
work one of them is killed, stopped for 3 seconds, or told to end, or another program takes so much RAM that
the donor has to give back all its slabs. --warmup is until the speed counts: donors lend, and what is lent is
filled; --before from then on until a donor fails; --seconds from then on until the end.
For press some 4 GiB of RAM must be available, and less than 2 GiB are taken; nothing else should take or free
much of it meanwhile. It needs cargo build --release -p aquifer-bench -p aquifer-cli -p aquifer-preload, and no root.
A wrong word ends the benchmark; a run whose program dies is left out, and the call ends with status 1.";

const TABLE: Table = Table {
    title: "A donor of two fails: {data_bytes:size} of data, {ram_bytes:size} of RAM, provider {provider}, copies {copies}",
    keys: &[key("failure", "failure")],
    peers: &[PEER],
    columns: &[
        median("operations/s before", "before_ops_per_s").digits(0).more(),
        median("longest pause before ms", "before_pause_ms").digits(1),
        median("longest pause ms", "pause_ms").digits(1).less(),
        median("80 % again after s", "recovered_s").less(),
        range("80 % again: 1, never: 0", "recovered").digits(0),
        median("below 80 % s", "slow_s").less(),
        median("operations/s at the end", "end_ops_per_s").digits(0).more(),
        median("of before", "end_share").more(),
        median("donor's RAM back after s", "ram_back_s").digits(3).less(),
        median("of MiB", "returned_bytes").mib(),
    ],
    note: "80 % again: from the failure to the first slice of 50 ms of the first five whose median is 80 % of that before; 0 if none of the first two \
    seconds were below; to the end of the run if it never came. below 80 %: all that were, up to the end of the run. donor's RAM back: of leave from SIGTERM to the end of \
    its process; of press from when other programs had taken what they needed until its resident memory was so much less.",
};

/// What carries the bytes of the donors.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Provider {
    /// libfabric over TCP on loopback
    Tcp,
    /// Memory that the program maps
    Memory,
}

/// Where what lies on a donor is as well.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Copies {
    /// On flash
    Flash,
    /// On the other donor
    Donor,
}

/// Options of `recover`.
#[derive(Clone, Debug, Args)]
pub struct RecoverOptions {
    /// What happens to the first donor, one in each run
    #[arg(long, value_enum, value_delimiter = ',', default_value = "kill,stop,leave,press")]
    failure: Vec<Failure>,
    /// What carries the bytes of the donors
    #[arg(long, value_enum, default_value_t = Provider::Tcp)]
    provider: Provider,
    /// Where what lies on a donor is as well
    #[arg(long, value_enum, default_value_t = Copies::Flash)]
    copies: Copies,
    /// Seconds that count before a donor fails
    #[arg(long, default_value_t = 3.0)]
    before: f64,
    /// Flips a bit of the program's array: the call must end with WRONG DATA and status 1
    #[arg(long)]
    flip_byte: bool,
}

impl RecoverOptions {
    fn check(&self, session: &Session, data_bytes: u64) -> Result<()> {
        let wrong = |what: String| Err(Error::Input(what));
        let ram_bytes = session.common.ram;
        if !(1 << 20..=1 << 40).contains(&data_bytes) || !(16 << 20..data_bytes).contains(&ram_bytes) {
            return wrong("--data is at most 1 TiB, --ram at least 16 MiB and less than --data".to_owned());
        }
        if !(1.0..=3600.0).contains(&self.before) {
            return wrong("--before is from a second to an hour".to_owned());
        }
        let least =
            self.failure.iter().map(|failure| failure.after_min()).max().unwrap_or_default().as_secs();
        if session.common.seconds < least as f64 {
            return wrong(format!("--seconds is at least {least}, which the failures take"));
        }
        Ok(())
    }
}

#[derive(Clone, Serialize)]
struct Point {
    failure: Failure,
    provider: Provider,
    copies: Copies,
    data_bytes: u64,
    ram_bytes: u64,
}

/// The study.
pub struct Recover;

impl Study for Recover {
    const NAME: &str = "recover";
    const ABOUT: &str =
        "How fast a program recovers when a donor fails, and how fast the RAM of donors comes back";
    const EXAMPLES: &str = EXAMPLES;
    const DEFAULTS: &[(&str, &str)] = &[("data", "64M"), ("ram", "32M"), ("warmup", "3"), ("seconds", "8")];
    const TABLES: &[&Table] = &[&TABLE];
    type Options = RecoverOptions;
    type Task = ();

    fn run(session: &mut Session, options: &RecoverOptions, data_bytes: u64) -> Result<()> {
        options.check(session, data_bytes)?;
        let &RecoverOptions { provider, copies, .. } = options;
        let ram_bytes = session.common.ram;
        let point = |&failure| Point { failure, provider, copies, data_bytes, ram_bytes };
        session.turns(&[PEER], options.failure.iter().map(point), |session, cell, _| {
            measure(session, options, &cell.point)
        })
    }

    fn work((): (), _: &mut Parent) -> Result<Fields> {
        unreachable!("its programs run under aquifer run")
    }
}

/// One run, whose program a donor fails.
fn measure(session: &Session, options: &RecoverOptions, point: &Point) -> Result<Fields> {
    let programs = Programs::find()?;
    let flash_bytes = flash_bytes(point.data_bytes);
    session.settle()?;
    let (provider, lent_bytes) = (name_of(&point.provider), LENT_PER_FLASH * flash_bytes);
    let mut donors = match point.failure {
        Failure::Press => Donors::start_short(programs.aquifer()?, &[&provider], lent_bytes)?,
        _ => Donors::start(programs.aquifer()?, &[&provider], lent_bytes)?,
    };
    let mut program = Service::start("program", command(session, options, point, &donors.list())?)?;
    let begin: Begin = program.wait_for(|line| serde_json::from_str(line).ok())?;
    let warmup_ms = (1e3 * session.common.warmup) as u64;
    let fails_ms = warmup_ms + (1e3 * options.before) as u64;
    let mut slices = slices_until(&mut program, fails_ms)?;
    if slices.last().is_none_or(|slice| slice.at_ms < fails_ms) {
        program.finish()?;
        return Err(child("ended too early".to_owned()));
    }
    let victim = victim(&mut donors)?;
    let lent_slabs = victim.slabs.lent;
    let failed_ms = monotonic_ns().saturating_sub(begin.monotonic_ns) as f64 / 1e6;
    let mut failing = Failing::begin(point.failure, victim)?;
    let limit = Duration::from_secs_f64(session.common.seconds) + LATE_MAX;
    slices.extend(slices_after(&mut program, &mut failing, limit)?);
    program.finish()?;
    let outcome = failing.end()?;
    let too_few = || Error::Unavailable(format!("the program told only {} slices", slices.len()));
    let recovery = Recovery::of(&slices, warmup_ms, failed_ms).ok_or_else(too_few)?;
    let rest_s = (slices.last().map_or(0, |slice| slice.at_ms) as f64 - failed_ms) / 1e3;
    let returned_s = outcome.pressed.map(|pressed| pressed.returned_s);
    Ok(Fields::of(&recovery)
        .with("recovered", u32::from(recovery.recovered_s.is_some()))
        .with("recovered_s", recovery.recovered_s.unwrap_or(rest_s))
        .with("end_share", recovery.end_share())
        .with("ram_back_s", outcome.left_after.map(|after| after.as_secs_f64()).or(returned_s))
        .and(outcome.pressed.map(|pressed| Fields::of(&pressed)).unwrap_or_default())
        .with("lent_slabs", lent_slabs)
        .with("flash_bytes", flash_bytes)
        .with("setup_s", begin.setup_s)
        .with("failed_ms", failed_ms)
        .with("slice_ops", slices.iter().map(|slice| slice.ops).collect::<Vec<_>>()))
}

/// This program itself as the one that is measured, on `donors`.
fn command(session: &Session, options: &RecoverOptions, point: &Point, donors: &str) -> Result<Command> {
    let own = std::env::current_exe().map_err(Error::io("finding", "this program"))?;
    let mut command = Command::new(Programs::find()?.aquifer()?);
    command.args(["run", "--ram", &point.ram_bytes.to_string(), "--flash"]).arg(&session.common.dir);
    command.args(["--flash-size", &flash_bytes(point.data_bytes).to_string(), "--donors", donors]);
    command.args(["--copies", &name_of(&point.copies), "--"]).arg(own);
    let seconds = session.common.warmup + options.before + session.common.seconds;
    command.args([COMMAND, "work", &point.data_bytes.to_string(), &seconds.to_string()]);
    command.arg(session.payload.to_string()).args(options.flip_byte.then_some("--flip-byte"));
    dies_with_parent(&mut command);
    Ok(command)
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
