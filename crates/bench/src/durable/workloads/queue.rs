//! Pushes and pops, half and half, each thread on a queue of its own.

use aquifer_durable::structures::Queue;
use aquifer_durable::{Result, Transactional};

use super::client::{Client, Clients, first_wrong};
use super::map::Stamped;
use crate::rng::Rng;

/// 64 bytes.
type Item = [u64; 8];
/// Items that are pushed together at first.
const FILLED_TOGETHER: u64 = 50;

/// A queue of items with the numbers from `front` to before `back`.
pub struct QueueClient {
    queue: Queue<Item>,
    front: u64,
    back: u64,
    rng: Rng,
    /// What was popped instead of the item in front.
    wrong: Option<String>,
}

/// The clients of as many queues, with so many items in all.
///
/// # Errors
/// The heap's.
pub fn clients<H: Transactional>(heap: &H, items: u64, threads: u64, seed: u64) -> Result<Clients<H>> {
    let client = |thread| -> Result<Box<dyn Client<H>>> {
        let queue = heap.transaction(|tx| Queue::create(tx))?;
        let rng = Rng::new(seed << 8 | thread);
        let mut client = QueueClient { queue, front: 0, back: 0, rng, wrong: None };
        while client.back < items / threads {
            client.push(heap, FILLED_TOGETHER)?;
        }
        Ok(Box::new(client))
    };
    (0..threads).map(client).collect()
}

impl QueueClient {
    fn push(&mut self, heap: &impl Transactional, count: u64) -> Result<()> {
        let (queue, back) = (self.queue, self.back);
        heap.transaction(|tx| (back..back + count).try_for_each(|number| queue.push(tx, Item::of(number))))?;
        self.back += count;
        Ok(())
    }

    fn pop(&mut self, heap: &impl Transactional) -> Result<()> {
        let queue = self.queue;
        let popped = heap.transaction(|tx| queue.pop(tx))?.map(|item| item.stamp());
        if popped != Some(self.front) {
            self.wrong.get_or_insert(format!("item {popped:?} instead of {}", self.front));
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
