//! Objects that are written whole, each thread its own.

use aquifer_durable::{Ref, Result, Transactional, Typed};

use crate::durable::workloads::client::{Client, Clients};
use crate::durable::workloads::map::{Hundred, Stamped};
use crate::rng::Rng;

/// Objects that are made together.
const FILLED_TOGETHER: usize = 20;

/// The objects of one thread, and what was written last to each.
struct Objects {
    objects: Vec<(Ref<Hundred>, u64)>,
    rng: Rng,
    now: u64,
}

/// The clients of so many objects.
///
/// # Errors
/// The heap's.
pub fn clients<H: Transactional>(heap: &H, entries: u64, threads: u64, seed: u64) -> Result<Clients<H>> {
    let client = |thread| -> Result<Box<dyn Client<H>>> {
        let mut objects = Vec::new();
        let count = (entries / threads).max(1) as usize;
        while objects.len() < count {
            let some = heap.transaction(|tx| {
                (0..FILLED_TOGETHER).map(|_| Ok((tx.create(Hundred::of(1))?, 1))).collect::<Result<Vec<_>>>()
            })?;
            objects.extend(some);
        }
        Ok(Box::new(Objects { objects, rng: Rng::new(seed << 8 | thread), now: 1 }))
    };
    (0..threads).map(client).collect()
}

impl<H: Transactional> Client<H> for Objects {
    fn step(&mut self, heap: &H) -> Result<()> {
        self.now += 1;
        let any = self.rng.below(self.objects.len() as u64) as usize;
        let (object, stamp) = &mut self.objects[any];
        heap.transaction(|tx| tx.set(*object, Hundred::of(self.now)))?;
        *stamp = self.now;
        Ok(())
    }

    fn wrong(&mut self, heap: &H) -> Result<Option<String>> {
        for &(object, expected) in &self.objects {
            let found = heap.transaction(|tx| tx.get(object))?.stamp();
            if found != expected {
                return Ok(Some(format!("{found} at {object:?} instead of {expected}")));
            }
        }
        Ok(None)
    }
}
