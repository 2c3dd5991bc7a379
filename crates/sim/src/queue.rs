//! What happens next.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use aquifer_remote::donor::lending::Moment;

/// Events in the order of their moments; events of the same moment keep the order in which they were added.
#[derive(Debug)]
pub struct EventQueue<E> {
    heap: BinaryHeap<Reverse<Entry<E>>>,
    added: u64,
}

#[derive(Debug)]
struct Entry<E> {
    at: Moment,
    nth: u64,
    event: E,
}

impl<E> EventQueue<E> {
    /// Empty.
    #[must_use]
    pub fn new() -> Self {
        EventQueue { heap: BinaryHeap::new(), added: 0 }
    }

    /// Something will happen.
    pub fn add(&mut self, at: Moment, event: E) {
        self.heap.push(Reverse(Entry { at, nth: self.added, event }));
        self.added += 1;
    }

    /// What happens next, and when.
    pub fn take_next(&mut self) -> Option<(Moment, E)> {
        self.heap.pop().map(|Reverse(entry)| (entry.at, entry.event))
    }
}

impl<E> Default for EventQueue<E> {
    fn default() -> Self {
        EventQueue::new()
    }
}

// The event itself has no part in the order.
impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<E> Eq for Entry<E> {}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.nth).cmp(&(other.at, other.nth))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_by_moment_and_then_as_they_were_added() {
        let mut queue = EventQueue::new();
        for (seconds, name) in [(3, 'd'), (1, 'a'), (2, 'b'), (2, 'c')] {
            queue.add(Moment::from_secs(seconds), name);
        }
        let names: String = std::iter::from_fn(|| queue.take_next()).map(|(_, name)| name).collect();
        assert_eq!(names, "abcd");
    }

    #[test]
    fn what_is_added_meanwhile_finds_its_place() {
        let mut queue = EventQueue::default();
        queue.add(Moment::from_secs(1), 1);
        queue.add(Moment::from_secs(9), 9);
        assert_eq!(queue.take_next(), Some((Moment::from_secs(1), 1)));
        queue.add(Moment::from_secs(5), 5);
        assert_eq!(queue.take_next(), Some((Moment::from_secs(5), 5)));
        assert_eq!(queue.take_next(), Some((Moment::from_secs(9), 9)));
        assert_eq!(queue.take_next(), None);
    }
}
