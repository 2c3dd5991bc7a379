//! Pushes and pops, half and half, each thread on a queue of its own; and objects that are written whole, each thread its own.

use aquifer_durable::structures::Queue;
use aquifer_durable::{Ref, Result, Transactional, Typed};

use super::{Client, Clients, Hundred, Size, Values, first_wrong};
use crate::payload::Payload;
use crate::rng::Rng;

/// 64 bytes.
type Item = [u64; 8];
/// Items that are pushed together at first.
const FILLED_TOGETHER: u64 = 50;
/// Objects that are made together.
const MADE_TOGETHER: usize = 20;

/// A queue of items with the numbers from `front` to before `back`.
struct QueueClient {
    queue: Queue<Item>,
    front: u64,
    back: u64,
    values: Values<Item>,
    rng: Rng,
    /// What was popped instead of the item in front.
    wrong: Option<String>,
}

/// The clients of as many queues.
pub(super) fn clients<H: Transactional>(heap: &H, size: Size, payload: Payload) -> Result<Clients<H>> {
    let client = |thread| -> Result<Box<dyn Client<H>>> {
        let queue = heap.transaction(|tx| Queue::create(tx))?;
        let (values, rng) = (Values::new(payload), Rng::new(size.seed << 8 | thread));
        let mut client = QueueClient { queue, front: 0, back: 0, values, rng, wrong: None };
        while client.back < size.entries / size.threads {
            client.push(heap, FILLED_TOGETHER)?;
        }
        Ok(Box::new(client))
    };
    (0..size.threads).map(client).collect()
}

impl QueueClient {
    fn push(&mut self, heap: &impl Transactional, count: u64) -> Result<()> {
        let (queue, back, values) = (self.queue, self.back, &self.values);
        heap.transaction(|tx| (back..back + count).try_for_each(|number| queue.push(tx, values.of(number))))?;
        self.back += count;
        Ok(())
    }

    fn pop(&mut self, heap: &impl Transactional) -> Result<()> {
        let queue = self.queue;
        let popped = heap.transaction(|tx| queue.pop(tx))?;
        let expected = Some(self.values.of(self.front));
        if popped != expected {
            let front = self.front;
            self.wrong.get_or_insert(format!("item {front} is {popped:x?} instead of {expected:x?}"));
        }
        self.front += 1;
        Ok(())
    }
}

impl<H: Transactional> Client<H> for QueueClient {
    fn step(&mut self, heap: &H) -> Result<()> {
        if self.front == self.back || self.rng.below(2) == 0 { self.push(heap, 1) } else { self.pop(heap) }
    }

    fn wrong(&mut self, heap: &H) -> Result<Option<String>> {
        let queue = self.queue;
        let items = heap.transaction(|tx| queue.len(tx))?;
        Ok(self.wrong.take().or_else(|| first_wrong(&[("items", items, self.back - self.front)])))
    }
}

/// The objects of one thread, and what was written last to each.
struct Objects {
    objects: Vec<(Ref<Hundred>, u64)>,
    values: Values<Hundred>,
    rng: Rng,
    now: u64,
}

/// The clients of objects.
pub(super) fn objects<H: Transactional>(heap: &H, size: Size, payload: Payload) -> Result<Clients<H>> {
    let client = |thread| -> Result<Box<dyn Client<H>>> {
        let (values, mut objects) = (Values::new(payload), Vec::new());
        let count = (size.entries / size.threads).max(1) as usize;
        while objects.len() < count {
            let some = heap.transaction(|tx| {
                (0..MADE_TOGETHER).map(|_| Ok((tx.create(values.of(1))?, 1))).collect::<Result<Vec<_>>>()
            })?;
            objects.extend(some);
        }
        Ok(Box::new(Objects { objects, values, rng: Rng::new(size.seed << 8 | thread), now: 1 }))
    };
    (0..size.threads).map(client).collect()
}

impl<H: Transactional> Client<H> for Objects {
    fn step(&mut self, heap: &H) -> Result<()> {
        self.now += 1;
        let any = self.rng.below(self.objects.len() as u64) as usize;
        let (object, stamp) = &mut self.objects[any];
        let value = self.values.of(self.now);
        heap.transaction(|tx| tx.set(*object, value))?;
        *stamp = self.now;
        Ok(())
    }

    fn wrong(&mut self, heap: &H) -> Result<Option<String>> {
        for &(object, stamp) in &self.objects {
            let (found, expected) = (heap.transaction(|tx| tx.get(object))?, self.values.of(stamp));
            if found != expected {
                return Ok(Some(format!("{object:?} is {found:x?} instead of {expected:x?}")));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use aquifer_durable::{DurableHeap, Options};

    use super::*;

    #[test]
    fn a_byte_that_was_changed_is_seen() {
        let path = std::env::temp_dir().join(format!("aquifer-objects-{}", std::process::id()));
        let heap = DurableHeap::open(&path, &Options::default()).expect("a temporary file");
        let values = Values::<Hundred>::new(Payload::Text);
        assert_ne!(values.of(7).0[1..], values.of(8).0[1..]);
        let object = heap.transaction(|tx| tx.create(values.of(7))).expect("room");
        let mut client = Objects { objects: vec![(object, 7)], values, rng: Rng::new(1), now: 7 };
        assert_eq!(client.wrong(&heap).expect("it is read"), None);
        client.step(&heap).expect("room");
        assert_eq!(client.wrong(&heap).expect("it is read"), None);
        let mut other = client.values.of(8);
        other.1 ^= 1;
        heap.transaction(|tx| tx.set(object, other)).expect("room");
        let wrong = client.wrong(&heap).expect("it is read").expect("a bit was changed");
        assert!(wrong.contains(" instead of ") && wrong.starts_with("Ref"), "{wrong}");
        drop(heap);
        std::fs::remove_file(&path).expect("was created");
    }
}
