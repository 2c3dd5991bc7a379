//! The micro-benchmark's child: one peer, filled once, measured at each requested point.

use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::child::{Event, Parent};
use crate::device::{Counters, Device};
use crate::error::Result;
use crate::ledger::Ledger;
use crate::machine::Context;
use crate::peer::abi::Stats;
use crate::peer::{self, Kind, Peer, Setup};
use crate::process::Memory;
use crate::proof::Proof;
use crate::sample::{Record, Sample};
use crate::verified::Verified;
use crate::workload::{self, Phase, Point};

/// Ticks between two looks at the process's memory.
const MEMORY_TICKS: u32 = 10;
const FILL_THREADS_MAX: usize = 8;

/// What the child is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MicroTask {
    /// The peer.
    pub kind: Kind,
    /// Its configuration.
    pub setup: Setup,
    /// Limit of the control group; for the record.
    pub limit_bytes: Option<u64>,
    /// Size of the swap area; for the record.
    pub swap_bytes: Option<u64>,
    /// What is made wrong once the objects are filled.
    pub flip: Option<Flip>,
}

/// A byte of an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Flip {
    /// The object.
    pub object: u64,
    /// Which of its bytes.
    pub byte: u64,
}

/// What the child is asked for, once it is ready.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub enum Request {
    /// A record of one measurement.
    Run(RunRequest),
    /// A last look at the objects whose last writes are known.
    Prove,
}

/// One measurement.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct RunRequest {
    /// Accesses, mix, threads.
    pub point: Point,
    /// Unmeasured time before.
    pub warmup_s: f64,
    /// Measured time.
    pub seconds: f64,
    /// Number of the run, from 1.
    pub run: u32,
    /// Seed of the accesses.
    pub seed: u64,
    /// The device's writes before the run; for the record.
    pub background_write_bytes_per_s: u64,
}

/// Opens and fills the peer, then answers requests.
///
/// # Errors
/// [`crate::Error::WrongData`], and whatever opening the peer or reading the counters gives.
pub fn work(task: &MicroTask, context: &Context, parent: &mut Parent) -> Result<()> {
    let device = Device::holding(&task.setup.dir)?;
    let peer = peer::open(task.kind, &task.setup)?;
    let ledger = Ledger::new(task.kind.to_string(), task.setup.objects());
    let objects = Verified::new(peer.objects(), &ledger);
    fill(objects, parent);
    peer.quiesce();
    if let Some(Flip { object, byte }) = task.flip {
        objects.flip(object, byte)?;
    }
    parent.tell(&Event::Ready);
    while let Some(request) = parent.request::<Request>()? {
        match request {
            Request::Prove => objects.read_watched()?,
            Request::Run(request) => {
                let sample = measure(peer.as_ref(), objects, &device, task, &request, context)?;
                let writes = request.point.read_percent < 100;
                parent.tell(&Event::Record(Box::new(Record::Sample(Box::new(sample)))));
                if writes {
                    peer.quiesce();
                }
            }
        }
        parent.tell(&Event::Ready);
    }
    Ok(())
}

/// Fills `objects` on all processors.
pub fn fill(objects: Verified<'_>, parent: &mut Parent) {
    let threads = thread::available_parallelism().map_or(1, usize::from).min(FILL_THREADS_MAX);
    workload::fill(objects, threads, |done| parent.progress("filling", done, objects.count()));
}

/// What is known at one end of a measured phase.
#[derive(Clone, Debug)]
pub struct Snapshot {
    at: Instant,
    device: Counters,
    stats: Option<Stats>,
}

/// What happened between two snapshots.
#[derive(Clone, Debug)]
pub struct Interval {
    /// Length.
    pub time: Duration,
    /// The kernel's counters of the device.
    pub device: Counters,
    /// The library's counters.
    pub stats: Option<Stats>,
}

impl Snapshot {
    /// Reads all counters.
    ///
    /// # Errors
    /// [`crate::Error::Io`].
    pub fn take(peer: &dyn Peer, device: &Device) -> Result<Self> {
        Ok(Self { at: Instant::now(), device: device.counters()?, stats: peer.stats() })
    }

    /// What happened from this to `later`.
    pub fn until(&self, later: &Self) -> Interval {
        let stats = later.stats.zip(self.stats).map(|(later, earlier)| later.since(&earlier));
        Interval { time: later.at - self.at, device: later.device.since(self.device), stats }
    }
}

/// Warm-up and measurement by the clock.
struct Timed<'a> {
    peer: &'a dyn Peer,
    device: &'a Device,
    warmup: Duration,
    length: Duration,
    started: Instant,
    ticks: u32,
    memory: Memory,
    begin: Option<Snapshot>,
    end: Option<Snapshot>,
}

impl Timed<'_> {
    fn phase(&mut self) -> Result<Phase> {
        let Some(begin) = &self.begin else {
            if self.started.elapsed() < self.warmup {
                return Ok(Phase::WarmUp);
            }
            self.begin = Some(Snapshot::take(self.peer, self.device)?);
            return Ok(Phase::Measure);
        };
        let over = begin.at.elapsed() >= self.length;
        self.ticks += 1;
        if over || self.ticks.is_multiple_of(MEMORY_TICKS) {
            self.memory = self.memory.max(Memory::now()?);
        }
        if !over {
            return Ok(Phase::Measure);
        }
        self.end = Some(Snapshot::take(self.peer, self.device)?);
        Ok(Phase::Stop)
    }
}

fn measure(
    peer: &dyn Peer,
    objects: Verified<'_>,
    device: &Device,
    task: &MicroTask,
    request: &RunRequest,
    context: &Context,
) -> Result<Sample> {
    let mut timed = Timed {
        peer,
        device,
        warmup: Duration::from_secs_f64(request.warmup_s),
        length: Duration::from_secs_f64(request.seconds),
        started: Instant::now(),
        ticks: 0,
        memory: Memory::default(),
        begin: None,
        end: None,
    };
    let proof = Proof::measure(task.setup.object_bytes as usize)?;
    let measured = workload::run(objects, request.point, request.seed, || timed.phase())?;
    let (begin, end) = timed.begin.zip(timed.end).expect("both are set before a run without failure ends");
    let interval = begin.until(&end);
    let setup = &task.setup;
    Ok(Sample {
        peer: task.kind,
        variant: String::new(),
        run: request.run,
        data_bytes: setup.data_bytes,
        ram_bytes: setup.ram_bytes,
        limit_bytes: task.limit_bytes,
        swap_bytes: task.swap_bytes,
        flash_bytes: matches!(task.kind, Kind::Aquifer | Kind::AquiferPages).then_some(setup.flash_bytes),
        object_bytes: setup.object_bytes,
        point: request.point,
        seed: request.seed,
        warmup_s: request.warmup_s,
        seconds: interval.time.as_secs_f64(),
        ops: measured.ops,
        ops_per_s: measured.ops_per_s,
        p50_ns: measured.percentile_ns(50.0),
        p99_ns: measured.percentile_ns(99.0),
        proof: Some(proof),
        memory: timed.memory,
        metadata_bytes: peer.metadata_bytes(),
        device: interval.device,
        background_write_bytes_per_s: request.background_write_bytes_per_s,
        changed_bytes: measured.writes * setup.object_bytes,
        stats: interval.stats,
        context: context.clone(),
    })
}
