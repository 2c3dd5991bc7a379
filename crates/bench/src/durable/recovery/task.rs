//! The child that makes one sample: a log is filled and closed, opened with a look at the clock, and looked at.

use std::path::PathBuf;
use std::time::Instant;

use aquifer_base::HomeAddress;
use aquifer_durable::{Backing, DurableHeap, Options};
use serde::{Deserialize, Serialize};

use super::sample::{Checkpoint, Filling, Recovery};
use crate::child::{Event, Parent};
use crate::durable::store::failed;
use crate::error::{Error, Result};
use crate::machine::Context;
use crate::process::cpu_ns;
use crate::rng::{Rng, mix};
use crate::sample::Record;

/// Objects that are made together.
const FILLED_TOGETHER: u64 = 99;
/// One object is written anew for so many that are made.
const REWRITTEN: u64 = 3;
/// Objects that are looked at afterwards.
const CHECKED: u64 = 10_000;

/// What the child is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RecoveryTask {
    /// Bytes of an object.
    pub object_bytes: u64,
    /// How the log is filled.
    pub filling: Filling,
    /// Whether a checkpoint is written when it is closed.
    pub checkpoint: Checkpoint,
    /// Number of the run.
    pub run: u32,
    /// Bytes of the log when it is closed.
    pub log_bytes: u64,
    /// The file grows only while at least this share of it is objects.
    pub utilisation_percent: u32,
    /// How large the file may become.
    pub capacity_bytes: u64,
    /// Where the file goes.
    pub dir: PathBuf,
}

/// What a log was filled with.
struct Filled {
    objects: Vec<HomeAddress>,
    rewritten: u64,
    rng: Rng,
}

/// The child's part.
///
/// # Errors
/// [`Error::WrongData`], and those of the heap.
pub fn work(task: &RecoveryTask, context: &Context, parent: &mut Parent) -> Result<()> {
    let heap = task.open()?;
    let mut filled = Filled { objects: Vec::new(), rewritten: 0, rng: Rng::new(u64::from(task.run)) };
    task.fill(&heap, &mut filled, parent).map_err(|error| task.failed("filling", &error))?;
    let written_bytes = heap.persist().counts().bytes();
    let before = heap.usage();
    drop(heap);
    let (begin, cpu_before) = (Instant::now(), cpu_ns());
    let heap = task.open()?;
    let (seconds, cpu_s) = (begin.elapsed().as_secs_f64(), (cpu_ns() - cpu_before) as f64 / 1e9);
    let usage = heap.usage();
    task.check(&heap, &mut filled)?;
    let sample = Recovery {
        object_bytes: task.object_bytes,
        filling: task.filling,
        checkpoint: task.checkpoint,
        run: task.run,
        objects: filled.objects.len() as u64,
        rewritten: filled.rewritten,
        utilisation_percent: task.utilisation_percent,
        written_bytes,
        log_bytes: before.file_bytes - before.reserve_bytes,
        live_bytes: usage.live_bytes,
        map_bytes_before: before.map_bytes,
        map_bytes: usage.map_bytes,
        seconds,
        cpu_s,
        context: context.clone(),
    };
    parent.tell(&Event::Record(Box::new(Record::Recovery(Box::new(sample)))));
    Ok(())
}

impl RecoveryTask {
    fn path(&self) -> PathBuf {
        self.dir.join("heap")
    }

    fn open(&self) -> Result<DurableHeap> {
        let options = Options {
            capacity_bytes: self.capacity_bytes,
            utilisation_percent: self.utilisation_percent,
            backing: Backing::Memory,
            checkpoint_bytes: if self.checkpoint == Checkpoint::Yes { u64::MAX } else { 0 },
            ..Options::default()
        };
        DurableHeap::open(&self.path(), &options).map_err(|error| self.failed("opening", &error))
    }

    /// What object number `index` has: never the same in two of them.
    fn content(&self, index: u64) -> Vec<u8> {
        let words = (0..self.object_bytes.div_ceil(8)).flat_map(|n| mix(index ^ n << 40).to_le_bytes());
        words.take(self.object_bytes as usize).collect()
    }

    /// Writes until the log is as long as wanted.
    fn fill(
        &self,
        heap: &DurableHeap,
        filled: &mut Filled,
        parent: &mut Parent,
    ) -> aquifer_durable::Result<()> {
        loop {
            let usage = heap.usage();
            let used = usage.file_bytes - usage.reserve_bytes;
            if used >= self.log_bytes {
                return Ok(());
            }
            parent.progress("filling", used, self.log_bytes);
            self.add(heap, filled)?;
            if self.filling == Filling::Fragmented {
                (0..FILLED_TOGETHER / REWRITTEN).try_for_each(|_| self.rewrite(heap, filled))?;
            }
        }
    }

    fn add(&self, heap: &DurableHeap, filled: &mut Filled) -> aquifer_durable::Result<()> {
        let first = filled.objects.len() as u64;
        // A transaction's block fits into a chunk.
        let count = FILLED_TOGETHER.min((1 << 19) / self.object_bytes);
        let homes = heap.transaction(|tx| {
            let make = |index| {
                let home = tx.alloc(self.object_bytes)?;
                tx.store(home, &self.content(index)).map(|()| home)
            };
            (first..first + count).map(make).collect::<aquifer_durable::Result<Vec<_>>>()
        })?;
        filled.objects.extend(homes);
        Ok(())
    }

    fn rewrite(&self, heap: &DurableHeap, filled: &mut Filled) -> aquifer_durable::Result<()> {
        let index = filled.rng.below(filled.objects.len() as u64);
        let (home, content) = (filled.objects[index as usize], self.content(index));
        filled.rewritten += 1;
        heap.transaction(|tx| tx.store(home, &content))
    }

    fn check(&self, heap: &DurableHeap, filled: &mut Filled) -> Result<()> {
        for _ in 0..CHECKED {
            let index = filled.rng.below(filled.objects.len() as u64);
            let (home, mut found) = (filled.objects[index as usize], vec![0; self.object_bytes as usize]);
            let loaded = heap.transaction(|tx| tx.load(home, &mut found));
            loaded.map_err(|error| self.failed("reading", &error))?;
            if found != self.content(index) {
                let what = format!("object {index} is not what was written");
                return Err(Error::WrongData { peer: self.filling.to_string(), what });
            }
        }
        Ok(())
    }

    fn failed(&self, doing: &'static str, error: &aquifer_durable::Error) -> Error {
        failed(doing, &self.path(), error)
    }
}
