//! Batches of random objects, read by one thread from a heap with many times more data than RAM,
//! through the C interface. Every byte is checked.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::sample::Batches;
use super::{OBJECT_BYTES, data};
use crate::child::{Event, Parent};
use crate::device::Device;
use crate::error::Result;
use crate::machine::Context;
use crate::measure::{Interval, Snapshot};
use crate::peer::aquifer::Aquifer;
use crate::peer::fio::RAMP_S;
use crate::peer::{Peer, Setup};
use crate::process::cpu_ns;
use crate::rng::Rng;
use crate::sample::Record;

/// Objects of one batch.
pub const BATCH_OBJECTS: u64 = 1024;

/// What the child is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BatchesTask {
    /// Heap and array.
    pub setup: Setup,
    /// Limit of the control group; for the record.
    pub limit_bytes: Option<u64>,
}

/// One run.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct BatchRequest {
    /// Number of the run, from 1.
    pub run: u32,
    /// Measured time.
    pub seconds: f64,
    /// The device's writes before the run; for the record.
    pub background_write_bytes_per_s: u64,
}

/// The child's part: fills the heap, then answers requests.
///
/// # Errors
/// [`crate::Error::Unavailable`] without the library, [`crate::Error::WrongData`].
pub fn work(task: &BatchesTask, context: &Context, parent: &mut Parent) -> Result<()> {
    let device = Device::holding(&task.setup.dir)?;
    let heap = Aquifer::open(&task.setup, false)?;
    let objects = heap.objects().count();
    data::fill(&heap, |done| parent.progress("filling", done, objects))?;
    let ready = |done, total| parent.progress("warming up", done, total);
    Reader::new(&heap, 0).replace(task.setup.ram_bytes / OBJECT_BYTES, ready)?;
    parent.tell(&Event::Ready);
    while let Some(request) = parent.request::<BatchRequest>()? {
        let reading = Reading::measure(&heap, &device, &request)?;
        let sample = reading.sample(task, &request, context);
        parent.tell(&Event::Record(Box::new(Record::Batches(Box::new(sample)))));
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
    fn measure(heap: &Aquifer, device: &Device, request: &BatchRequest) -> Result<Self> {
        let mut reader = Reader::new(heap, request.run.into());
        // As long as fio reads before it counts.
        reader.read_for(Duration::from_secs_f64(RAMP_S))?;
        let (begin, cpu_before_ns) = (Snapshot::take(heap, device)?, cpu_ns());
        let objects = reader.read_for(Duration::from_secs_f64(request.seconds))?;
        let cpu_s = (cpu_ns() - cpu_before_ns) as f64 / 1e9;
        let interval = begin.until(&Snapshot::take(heap, device)?);
        Ok(Self { objects, cpu_s, interval })
    }

    fn sample(self, task: &BatchesTask, request: &BatchRequest, context: &Context) -> Batches {
        Batches {
            run: request.run,
            data_bytes: task.setup.data_bytes,
            ram_bytes: task.setup.ram_bytes,
            limit_bytes: task.limit_bytes,
            flash_bytes: task.setup.flash_bytes,
            object_bytes: task.setup.object_bytes,
            batch_objects: BATCH_OBJECTS,
            warmup_s: RAMP_S,
            seconds: self.interval.time.as_secs_f64(),
            objects: self.objects,
            cpu_s: self.cpu_s,
            stats: self.interval.stats.unwrap_or_default(),
            device: self.interval.device,
            background_write_bytes_per_s: request.background_write_bytes_per_s,
            fio: Vec::new(),
            context: context.clone(),
        }
    }
}

/// Reads random batches, each into the same memory.
struct Reader<'a> {
    heap: &'a Aquifer,
    rng: Rng,
    indices: Vec<u64>,
    memory: Vec<u8>,
}

impl<'a> Reader<'a> {
    fn new(heap: &'a Aquifer, seed: u64) -> Self {
        let memory = vec![0; (BATCH_OBJECTS * OBJECT_BYTES) as usize];
        Self { heap, rng: Rng::new(seed), indices: vec![0; BATCH_OBJECTS as usize], memory }
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
        self.indices.iter().zip(read).try_for_each(|(&index, bytes)| data::check(index, bytes))
    }
}
