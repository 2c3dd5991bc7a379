//! Slots made of atomics, without objects.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering::SeqCst};

use super::super::{Position, Slots};

#[derive(Default)]
struct FakeSlot {
    occupied: AtomicBool,
    mark: AtomicU8,
    links: [AtomicU32; 2],
    key: AtomicU32,
}

/// A size class of a fixed number of slots, all empty at first.
pub struct FakeSlots(Vec<FakeSlot>);

impl FakeSlots {
    pub fn new(count: u32) -> Self {
        Self((0..count).map(|_| FakeSlot::default()).collect())
    }

    pub fn fill(&self, at: u32, key: u32) {
        self.0[at as usize].key.store(key, SeqCst);
        self.0[at as usize].occupied.store(true, SeqCst);
    }

    pub fn empty(&self, at: u32) {
        self.0[at as usize].occupied.store(false, SeqCst);
    }

    pub fn mark_of(&self, at: u32) -> u8 {
        self.mark(Position(at))
    }

    fn at(&self, at: Position) -> &FakeSlot {
        &self.0[at.0 as usize]
    }
}

impl Slots for FakeSlots {
    fn end(&self) -> u32 {
        self.0.len() as u32
    }

    fn is_occupied(&self, at: Position) -> bool {
        self.at(at).occupied.load(SeqCst)
    }

    fn mark(&self, at: Position) -> u8 {
        self.at(at).mark.load(SeqCst)
    }

    fn set_mark(&self, at: Position, mark: u8) {
        assert!(mark < 8, "a mark has three bits");
        self.at(at).mark.store(mark, SeqCst);
    }

    fn links(&self, at: Position) -> (u32, u32) {
        let [first, second] = &self.at(at).links;
        (first.load(SeqCst), second.load(SeqCst))
    }

    fn set_links(&self, at: Position, links: (u32, u32)) {
        let [first, second] = &self.at(at).links;
        first.store(links.0, SeqCst);
        second.store(links.1, SeqCst);
    }

    fn key_hash(&self, at: Position) -> u32 {
        self.at(at).key.load(SeqCst)
    }
}
