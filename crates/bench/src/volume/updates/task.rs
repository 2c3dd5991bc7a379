//! The child that updates for a while.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::super::file::MappedFile;
use super::super::meter::Meter;
use super::super::peer::Setup;
use crate::error::{Error, Result};
use crate::payload::Payload;
use crate::rng::Rng;
use crate::study::Fields;

/// Updates, of the last ones, that are looked at in the end.
const LOOKED_AT: u64 = 10_000;
/// Updates between two looks at the clock.
const BATCH: u64 = 8;

/// Update for a while.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct UpdatesTask {
    /// Number of the run; with the updates between syncs it decides all choices.
    pub run: u32,
    /// The mapped file.
    pub setup: Setup,
    /// Updates between two syncs.
    pub every: u64,
    /// Bytes of each.
    pub update_bytes: u64,
    /// Seconds before the measured ones.
    pub warmup_s: f64,
    /// Measured seconds.
    pub seconds: f64,
}

/// The updates, one after the other.
struct Client<'a> {
    file: &'a MappedFile,
    words: &'a [AtomicU64],
    /// Words of an update.
    length: u64,
    every: u64,
    rng: Rng,
    payload: Payload,
    /// The objects that the last updates have written, by their place.
    last: HashMap<u64, u64>,
    updates: u64,
    syncs: u64,
    sync_s: f64,
}

/// Updates and measures.
///
/// # Errors
/// [`Error::WrongData`] if one of the last updates is not in the file when it is opened again; those of `MappedFile`.
pub fn work(task: &UpdatesTask) -> Result<Fields> {
    let file = MappedFile::open(&task.setup)?;
    let mut client = Client {
        file: &file,
        words: file.words(),
        length: task.update_bytes / 8,
        payload: task.setup.payload,
        every: task.every,
        // Cells share a file: the same updates again would change nothing, and a volume writes nothing then.
        rng: Rng::new(u64::from(task.run) << 32 ^ task.every),
        last: HashMap::new(),
        updates: 0,
        syncs: 0,
        sync_s: 0.0,
    };
    client.update_for(task.warmup_s)?;
    (client.updates, client.syncs, client.sync_s) = (0, 0, 0.0);
    let meter = Meter::start(&task.setup.path)?;
    client.update_for(task.seconds)?;
    let cost = meter.stop()?;
    let Client { last, updates, syncs, sync_s, .. } = client;
    file.close()?;
    look_for(&last, task.update_bytes / 8, &task.setup)?;
    Ok(cost.figures(updates as f64).with("syncs", syncs).with("sync_ms", sync_s * 1e3 / syncs.max(1) as f64))
}

impl Client<'_> {
    /// Updates for a while, and syncs in the end.
    fn update_for(&mut self, seconds: f64) -> Result<()> {
        let start = Instant::now();
        while start.elapsed().as_secs_f64() < seconds {
            for _ in 0..BATCH {
                self.update();
                if self.updates.is_multiple_of(self.every) {
                    self.sync()?;
                }
            }
        }
        self.sync()
    }

    fn update(&mut self) {
        let place = self.rng.below(self.words.len() as u64 / self.length) * self.length;
        let words = &self.words[place as usize..(place + self.length) as usize];
        let object = self.rng.next();
        for (word, place) in words.iter().zip(0..) {
            word.store(self.payload.word(object, place), Ordering::Relaxed);
        }
        if self.last.len() as u64 >= LOOKED_AT {
            self.last.clear();
        }
        self.last.insert(place, object);
        self.updates += 1;
    }

    fn sync(&mut self) -> Result<()> {
        let start = Instant::now();
        self.file.sync()?;
        self.sync_s += start.elapsed().as_secs_f64();
        self.syncs += 1;
        Ok(())
    }
}

/// Opens the file again and compares.
fn look_for(last: &HashMap<u64, u64>, length: u64, setup: &Setup) -> Result<()> {
    let file = MappedFile::open(setup)?;
    for (&first, &object) in last {
        for place in 0..length {
            let found = file.words()[(first + place) as usize].load(Ordering::Relaxed);
            let wanted = setup.payload.word(object, place);
            if found != wanted {
                let what = format!(
                    "update at word {first}, word {place}: wanted {wanted:#018x}, which was synced, found {found:#018x}"
                );
                return Err(Error::WrongData { peer: setup.peer.to_string(), what });
            }
        }
    }
    Ok(())
}
