//! The child: one peer, filled once, measured at each requested point.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::child::{Event, Parent};
use crate::contents::Flip;
use crate::device::Device;
use crate::error::Result;
use crate::measure::{Interval, Snapshot, fill};
use crate::peer::{self, Kind, Peer, Setup};
use crate::process::{Memory, cpu_ns};
use crate::proof::Proof;
use crate::study::Fields;
use crate::verified::Verified;
use crate::workload::{self, Phase, Point};
use crate::zswap;

/// Ticks between two looks at the process's memory.
const MEMORY_TICKS: u32 = 10;

/// What the child is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MicroTask {
    /// The peer.
    pub kind: Kind,
    /// Its configuration.
    pub setup: Setup,
    /// What is made wrong once the objects are filled.
    pub flip: Option<Flip>,
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
    /// Seed of the accesses.
    pub seed: u64,
}

/// Opens and fills the peer, answers requests, and proves the watched objects when there are no more; what proving costs.
///
/// # Errors
/// [`crate::Error::WrongData`], and whatever opening the peer or reading the counters gives.
pub fn work(task: &MicroTask, parent: &mut Parent) -> Result<Fields> {
    let device = Device::holding(&task.setup.dir)?;
    let peer = peer::open(task.kind, &task.setup)?;
    let ledger = task.setup.ledger(task.kind.name());
    let objects = Verified::new(peer.objects(), &ledger);
    fill(objects, parent);
    peer.quiesce();
    if let Some(Flip { object, byte }) = task.flip {
        objects.flip(object, byte)?;
    }
    parent.tell(&Event::Ready);
    while let Some(request) = parent.request::<RunRequest>()? {
        let figures = measure(peer.as_ref(), objects, &device, task, &request)?;
        parent.tell(&Event::Figures(figures));
        if request.point.read_percent < 100 {
            peer.quiesce();
        }
    }
    objects.read_watched()?;
    Ok(Fields::of(&Proof::measure(task.setup.payload, task.setup.object_bytes as usize)?))
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
    begin: Option<(Snapshot, u64)>,
    end: Option<(Snapshot, u64)>,
}

impl Timed<'_> {
    fn phase(&mut self) -> Result<Phase> {
        let Some((begin, _)) = &self.begin else {
            if self.started.elapsed() < self.warmup {
                return Ok(Phase::WarmUp);
            }
            self.begin = Some((Snapshot::take(self.peer, self.device)?, cpu_ns()));
            return Ok(Phase::Measure);
        };
        let over = begin.elapsed() >= self.length;
        self.ticks += 1;
        if over || self.ticks.is_multiple_of(MEMORY_TICKS) {
            self.memory = self.memory.max(Memory::now()?);
        }
        if !over {
            return Ok(Phase::Measure);
        }
        self.end = Some((Snapshot::take(self.peer, self.device)?, cpu_ns()));
        Ok(Phase::Stop)
    }

    /// What happened between the ends, and the processor time of the whole process.
    fn interval(&self) -> (Interval, u64) {
        let ends = self.begin.as_ref().zip(self.end.as_ref());
        let ((begin, before_ns), (end, after_ns)) =
            ends.expect("both are set before a run without failure ends");
        (begin.until(end), after_ns - before_ns)
    }
}

fn measure(
    peer: &dyn Peer,
    objects: Verified<'_>,
    device: &Device,
    task: &MicroTask,
    request: &RunRequest,
) -> Result<Fields> {
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
    let measured = workload::run(objects, request.point, request.seed, || timed.phase())?;
    let (interval, cpu_ns) = timed.interval();
    let changed_bytes = measured.writes * task.setup.object_bytes;
    let written = interval.device.written_bytes as f64 / changed_bytes as f64;
    let pool_bytes = if task.kind == Kind::Zswap { zswap::pool_bytes() } else { 0 };
    let metadata_bytes = peer.metadata_bytes();
    Ok(Fields::default()
        .with("seconds", interval.time.as_secs_f64())
        .with("ops", measured.ops)
        .with("ops_per_s", measured.ops_per_s)
        .with("p50_ns", measured.percentile_ns(50.0))
        .with("p99_ns", measured.percentile_ns(99.0))
        .with("cpu_ns_each", cpu_ns as f64 / measured.ops.max(1) as f64)
        .with("memory_bytes", timed.memory.total_bytes() + pool_bytes)
        .with("pool_bytes", pool_bytes)
        .with("metadata_bytes", metadata_bytes)
        .with("device", interval.device)
        .with("changed_bytes", changed_bytes)
        .with("written_per_changed", (changed_bytes > 0).then_some(written))
        .with("stats", interval.stats))
}
