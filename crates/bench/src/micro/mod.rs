//! The micro-benchmark: all peers side by side, taking turns run by run.
//!
//! Every peer is filled once, in a process and control group of its own, and then stays open. For
//! each point the peers run one after the other, and again, so that a disk that gets slower or
//! faster does so for all of them. The first run of a point is preceded by the whole warm-up, later
//! ones by a short one: what a peer holds in RAM does not change while the others run.

mod options;

use std::collections::BTreeSet;
use std::time::Duration;

use crate::cgroup::Cgroup;
use crate::child::{Event, Task};
use crate::device::{Counters, Device};
use crate::distribution::Distribution;
use crate::error::{Error, Result};
use crate::machine::Context;
use crate::measure::{MicroTask, Request, RunRequest};
use crate::omissions::Omissions;
use crate::peer::fio::{RAMP_S, Reads, Target};
use crate::peer::{Kind, Setup};
use crate::process::Memory;
use crate::progress::Progress;
use crate::proof::Proof;
use crate::runner::Runner;
use crate::sample::{Output, Record, Sample, Skipped};
use crate::scale::check_disk;
use crate::swap::SwapArea;
use crate::workdir::WorkDir;
use crate::workload::Point;

pub use options::MicroOptions;

/// Longest wait for one peer's late writes before the next one runs.
const SETTLE_LIMIT: Duration = Duration::from_secs(3);
/// Times that a peer whose process is killed is opened and filled again.
const REOPENED_MAX: usize = 3;
/// Block sizes that fio reads with.
const FIO_BLOCKS: [(u64, &str); 2] = [(4096, "4 KiB"), (512, "512 B")];

/// Runs the micro-benchmark.
///
/// # Errors
/// [`Error::WrongData`], and what makes the whole run impossible. A peer that cannot run is recorded as skipped; if it was not the
/// machine that lacked something, that is the error when all others have run.
pub fn run(options: &MicroOptions) -> Result<()> {
    options.check()?;
    let setup = options.scale.setup()?;
    let workdir = WorkDir::acquire(&options.scale.dir)?;
    let swap_bytes = options.peer.contains(&Kind::Swap) as u64 * options.swap_factor * setup.data_bytes;
    let device = Device::holding(workdir.path())?;
    check_disk(workdir.path(), &setup, &options.peer, swap_bytes)?;
    let steps = options.points().len() as u64 * u64::from(options.runs) + 1;
    let mut micro = Micro {
        options,
        context: Context::here(&device),
        setup,
        device,
        progress: Progress::new(steps * options.peer.len() as u64),
        output: Output::open(options.scale.out.as_deref())?,
        contestants: Vec::new(),
        fio_done: BTreeSet::new(),
        swap_bytes,
        swap: None,
        reopened: Vec::new(),
        omissions: Omissions::default(),
        proofs: Vec::new(),
    };
    micro.open_all()?;
    micro.measure_all()?;
    micro.omissions.end()
}

struct Micro<'a> {
    options: &'a MicroOptions,
    context: Context,
    setup: Setup,
    device: Device,
    progress: Progress,
    output: Output,
    // Before the swap area: the processes must be gone when it is switched off.
    contestants: Vec<(Kind, Contestant)>,
    /// fio depends on nothing but threads and run; it is not repeated for every point.
    fio_done: BTreeSet<(usize, u32)>,
    swap_bytes: u64,
    swap: Option<SwapArea>,
    /// Peers that were opened again, once for each time.
    reopened: Vec<Kind>,
    omissions: Omissions,
    /// What proving took in each sample.
    proofs: Vec<Proof>,
}

enum Contestant {
    Child(Runner),
    Fio(Target),
}

impl Micro<'_> {
    fn open_all(&mut self) -> Result<()> {
        for &kind in &self.options.peer {
            let opened = self.open(kind);
            if let Some(contestant) = self.or_skip(kind, opened)? {
                self.contestants.push((kind, contestant));
            }
            self.progress.step();
        }
        Ok(())
    }

    fn open(&mut self, kind: Kind) -> Result<Contestant> {
        self.progress.doing(format!("{kind}: opening"));
        if kind == Kind::Fio {
            let total = self.setup.data_bytes;
            let progress = &self.progress;
            let report =
                |done: u64| progress.doing(format!("fio: writing its file {} %", done * 100 / total));
            return Ok(Contestant::Fio(Target::create(&self.setup.dir, total, report)?));
        }
        if kind == Kind::Swap && self.swap.is_none() {
            self.swap = Some(SwapArea::create(&self.setup.dir, self.swap_bytes)?);
        }
        let cgroup = self.cgroup(kind)?;
        let limit_bytes = cgroup.is_some().then(|| self.options.scale.limit_bytes());
        let swap_bytes = self.swap.as_ref().filter(|_| kind == Kind::Swap).map(SwapArea::bytes);
        let flip = self.options.flip_byte;
        let task = Task::Micro(MicroTask { kind, setup: self.setup.clone(), limit_bytes, swap_bytes, flip });
        let mut runner = Runner::start(&kind.to_string(), task, cgroup, &self.context)?;
        runner.expect_ready(&self.progress)?;
        Ok(Contestant::Child(runner))
    }

    fn cgroup(&self, kind: Kind) -> Result<Option<Cgroup>> {
        match Cgroup::create(&kind.to_string(), self.options.scale.limit_bytes(), kind == Kind::Swap) {
            Ok(cgroup) => Ok(Some(cgroup)),
            Err(error) if kind.needs_cgroup() => Err(error),
            Err(error) => {
                self.progress.note(&format!("{kind} runs without a cgroup: {error}"));
                Ok(None)
            }
        }
    }

    /// What was made, or nothing after recording why the peer is left out from here on. Wrong data is never passed over.
    fn or_skip<T>(&mut self, kind: Kind, made: Result<T>) -> Result<Option<T>> {
        let reason = match made {
            Ok(made) => return Ok(Some(made)),
            Err(error) => self.omissions.reason(error)?,
        };
        self.progress.note(&format!("{kind} is skipped: {reason}"));
        let context = self.context.clone();
        self.output.write(&Record::Skipped(Skipped { peer: kind.to_string(), reason, context }))?;
        Ok(None)
    }

    fn measure_all(&mut self) -> Result<()> {
        for point in self.options.points() {
            for run in 1..=self.options.runs {
                self.take_turns(point, run)?;
            }
        }
        self.prove_all()
    }

    /// A last look at what all peers hold.
    fn prove_all(&mut self) -> Result<()> {
        for (kind, mut contestant) in std::mem::take(&mut self.contestants) {
            let Contestant::Child(runner) = &mut contestant else { continue };
            self.progress.doing(format!("{kind}: reading watched objects"));
            let proven = runner.send(&Request::Prove).and_then(|()| runner.expect_ready(&self.progress));
            self.or_skip(kind, proven)?;
        }
        if let Some(proof) = Proof::median(&self.proofs) {
            self.progress.note(&proof.sentence(self.setup.object_bytes));
        }
        Ok(())
    }

    /// One run of every peer that is still in the race.
    fn take_turns(&mut self, point: Point, run: u32) -> Result<()> {
        for (kind, mut contestant) in std::mem::take(&mut self.contestants) {
            let mut measured = self.take_turn(kind, &mut contestant, point, run, run == 1);
            if let Err(Error::Killed { what, .. }) = &measured
                && self.may_reopen(kind)
            {
                self.progress.note(&format!("{kind} {what}; it is opened and filled again"));
                drop(contestant);
                let opened = self.open(kind);
                let Some(again) = self.or_skip(kind, opened)? else { continue };
                contestant = again;
                measured = self.take_turn(kind, &mut contestant, point, run, true);
            }
            if self.or_skip(kind, measured)?.is_some() {
                self.contestants.push((kind, contestant));
            }
            self.progress.step();
        }
        Ok(())
    }

    /// Under heavy writes in a small group the kernel now and then finds nothing to swap out at
    /// once and kills the process; that alone must not end a comparison of hours. A process that ends in any other way has failed.
    fn may_reopen(&mut self, kind: Kind) -> bool {
        self.reopened.push(kind);
        self.reopened.iter().filter(|reopened| **reopened == kind).count() <= REOPENED_MAX
    }

    fn take_turn(
        &mut self,
        kind: Kind,
        contestant: &mut Contestant,
        point: Point,
        run: u32,
        cold: bool,
    ) -> Result<()> {
        match contestant {
            Contestant::Fio(target) => self.measure_fio(target, point, run),
            Contestant::Child(runner) => {
                let request = RunRequest {
                    point,
                    warmup_s: if cold { self.options.warmup } else { self.options.rewarm },
                    seconds: self.options.seconds,
                    run,
                    seed: u64::from(run),
                    background_write_bytes_per_s: self.device.settle(SETTLE_LIMIT)?,
                };
                self.measure(kind, runner, request)
            }
        }
    }

    fn measure(&mut self, kind: Kind, runner: &mut Runner, request: RunRequest) -> Result<()> {
        self.progress.doing(format!("{kind}: {}, run {}", describe(request.point), request.run));
        runner.send(&Request::Run(request))?;
        let event = runner.next(&self.progress)?;
        let Event::Record(record) = event else {
            return Err(Error::Child { peer: kind.to_string(), what: format!("answered {event:?}") });
        };
        if let Record::Sample(sample) = &*record {
            self.progress.note(&summary(sample));
            self.proofs.extend(sample.proof);
        }
        self.output.write(&record)?;
        runner.expect_ready(&self.progress)
    }

    fn measure_fio(&mut self, target: &Target, point: Point, run: u32) -> Result<()> {
        if !self.fio_done.insert((point.threads, run)) {
            return Ok(());
        }
        for (block_bytes, variant) in FIO_BLOCKS {
            self.progress.doing(format!("fio: {variant}, {} threads, run {run}", point.threads));
            let background = self.device.settle(SETTLE_LIMIT)?;
            let before = self.device.counters()?;
            let time = Duration::from_secs_f64(self.options.seconds);
            match target.measure(block_bytes, point.threads, time) {
                Ok(reads) => {
                    let device = self.device.counters()?.since(before);
                    let sample = self.fio_sample(variant, point, run, &reads, device, background);
                    self.progress.note(&summary(&sample));
                    self.output.write(&Record::Sample(Box::new(sample)))?;
                }
                // Disks with sectors of 4 KiB cannot read less.
                Err(error) if block_bytes < 4096 => self.progress.note(&format!("fio {variant}: {error}")),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn fio_sample(
        &self,
        variant: &str,
        point: Point,
        run: u32,
        reads: &Reads,
        device: Counters,
        background_write_bytes_per_s: u64,
    ) -> Sample {
        Sample {
            peer: Kind::Fio,
            variant: variant.to_owned(),
            run,
            data_bytes: self.setup.data_bytes,
            ram_bytes: self.setup.ram_bytes,
            limit_bytes: None,
            swap_bytes: None,
            flash_bytes: None,
            object_bytes: self.setup.object_bytes,
            point: Point { distribution: Distribution::Uniform, read_percent: 100, ..point },
            seed: 0,
            warmup_s: RAMP_S,
            seconds: self.options.seconds,
            ops: reads.ops,
            ops_per_s: reads.ops_per_s,
            p50_ns: reads.p50_ns,
            p99_ns: reads.p99_ns,
            proof: None,
            memory: Memory::default(),
            metadata_bytes: None,
            device,
            background_write_bytes_per_s,
            changed_bytes: 0,
            stats: None,
            context: self.context.clone(),
        }
    }
}

fn describe(point: Point) -> String {
    format!("{}, {} % reads, {} threads", point.distribution, point.read_percent, point.threads)
}

fn summary(sample: &Sample) -> String {
    let written = sample.written_per_changed().map_or(String::new(), |per| format!(", {per:.1} B/B written"));
    format!(
        "{:>16} {:6} {:40} run {}: {:>9.0} ops/s, p50 {:.1} us, p99 {:.1} us{written}",
        sample.peer.to_string(),
        sample.variant,
        describe(sample.point),
        sample.run,
        sample.ops_per_s,
        sample.p50_ns as f64 / 1e3,
        sample.p99_ns as f64 / 1e3,
    )
}
