//! Batches of random objects, read by one thread from a heap with many times more data than RAM,
//! through the C interface. Every byte is checked.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::{OBJECT_BYTES, data};
use crate::child::{Event, Parent};
use crate::device::Device;
use crate::error::Result;
use crate::measure::{Interval, Snapshot};
use crate::payload::Payload;
use crate::peer::aquifer::{Aquifer, Layout};
use crate::peer::fio::RAMP_S;
use crate::peer::{Peer, Setup};
use crate::process::cpu_ns;
use crate::rng::Rng;
use crate::study::Fields;

/// Objects of one batch.
pub const BATCH_OBJECTS: u64 = 1024;

/// What the child is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BatchesTask {
    /// Heap and array.
    pub setup: Setup,
}

/// One run.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct BatchRequest {
    /// Number of the run, from 1.
    pub run: u32,
    /// Measured time.
    pub seconds: f64,
}

/// The child's part: fills the heap, then answers requests.
///
/// # Errors
/// [`crate::Error::Unavailable`] without the library, [`crate::Error::WrongData`].
pub fn work(task: &BatchesTask, parent: &mut Parent) -> Result<()> {
    let device = Device::holding(&task.setup.dir)?;
    let heap = Aquifer::open(&task.setup, Layout::Objects)?;
    let objects = heap.objects().count();
    data::fill(&heap, task.setup.payload, |done| parent.progress("filling", done, objects))?;
    let ready = |done, total| parent.progress("warming up", done, total);
    Reader::new(&heap, task.setup.payload, 0).replace(task.setup.ram_bytes / OBJECT_BYTES, ready)?;
    parent.tell(&Event::Ready);
    while let Some(request) = parent.request::<BatchRequest>()? {
        let figures = Reading::measure(&heap, task.setup.payload, &device, &request)?.figures();
        parent.tell(&Event::Figures(figures));
    }
    Ok(())
}

/// What one run read.
struct Reading {
    objects: u64,
    cpu_s: f64,
    interval: Interval,
}

impl Reading {
    fn measure(heap: &Aquifer, payload: Payload, device: &Device, request: &BatchRequest) -> Result<Self> {
        let mut reader = Reader::new(heap, payload, request.run.into());
        // As long as fio reads before it counts.
        reader.read_for(Duration::from_secs_f64(RAMP_S))?;
        let (begin, cpu_before_ns) = (Snapshot::take(heap, device)?, cpu_ns());
        let objects = reader.read_for(Duration::from_secs_f64(request.seconds))?;
        let cpu_s = (cpu_ns() - cpu_before_ns) as f64 / 1e9;
        let interval = begin.until(&Snapshot::take(heap, device)?);
        Ok(Self { objects, cpu_s, interval })
    }

    fn figures(self) -> Fields {
        let (seconds, stats) = (self.interval.time.as_secs_f64(), self.interval.stats.unwrap_or_default());
        // Reads of leaves say where objects are, and are no reads of objects.
        let device_reads = stats.device_reads.saturating_sub(stats.leaves_read) as f64;
        let objects = self.objects.max(1) as f64;
        Fields::default()
            .with("seconds", seconds)
            .with("objects_per_s", objects / seconds)
            .with("device_reads_per_s", device_reads / seconds)
            .with("found_in_ram", 1.0 - device_reads / objects)
            .with("cpu_us_each", self.cpu_s * 1e6 / objects)
            .with("disk_read_bytes", self.interval.device.read_bytes)
    }
}

/// Reads random batches, each into the same memory.
struct Reader<'a> {
    heap: &'a Aquifer,
    payload: Payload,
    rng: Rng,
    indices: Vec<u64>,
    memory: Vec<u8>,
}

impl<'a> Reader<'a> {
    fn new(heap: &'a Aquifer, payload: Payload, seed: u64) -> Self {
        let memory = vec![0; (BATCH_OBJECTS * OBJECT_BYTES) as usize];
        Self { heap, payload, rng: Rng::new(seed), indices: vec![0; BATCH_OBJECTS as usize], memory }
    }

    /// Whole batches until `time` is over; the number of objects.
    fn read_for(&mut self, time: Duration) -> Result<u64> {
        let (start, mut objects) = (Instant::now(), 0);
        while start.elapsed() < time {
            self.read()?;
            objects += BATCH_OBJECTS;
        }
        Ok(objects)
    }

    /// Reads as many objects as the RAM could hold at most. What the fill left in RAM is dirty, and
    /// would else be written in the first measured seconds.
    fn replace(&mut self, most: u64, mut progress: impl FnMut(u64, u64)) -> Result<()> {
        for done in (0..most).step_by(BATCH_OBJECTS as usize) {
            self.read()?;
            progress(done, most);
        }
        Ok(())
    }

    fn read(&mut self) -> Result<()> {
        let count = self.heap.objects().count();
        self.indices.iter_mut().for_each(|index| *index = self.rng.below(count));
        // What an earlier batch left here must not pass for an answer.
        self.memory.fill(0);
        self.heap.read_batch(&self.indices, &mut self.memory)?;
        let read = self.memory.chunks_exact(OBJECT_BYTES as usize);
        self.indices.iter().zip(read).try_for_each(|(&index, bytes)| data::check(self.payload, index, bytes))
    }
}
