//! The policies compared, and what an object costs in RAM under each.

use aquifer_cache::policy::{Clock, Lru, Policy, S3Fifo, Sieve};

/// Object, slot header and translation entry with its share of the leaves, in bytes.
pub const OBJECT_BYTES: f64 = 128.0 + 8.0 + 10.0;
/// Two links, in bytes.
const LINK_BYTES: f64 = 8.0;
/// The ghost queue is as long as the main queue.
const GHOST_SHARE: f64 = 0.9;

/// A policy of the table.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Candidate {
    /// As it is by default.
    Clock,
    /// With marks up to this limit, without patience.
    PlainClock(u8),
    Lru,
    Sieve,
    S3Fifo,
}

impl Candidate {
    /// In the order of the table.
    pub const ALL: [Self; 7] = [
        Self::PlainClock(1),
        Self::PlainClock(3),
        Self::PlainClock(7),
        Self::Clock,
        Self::Lru,
        Self::Sieve,
        Self::S3Fifo,
    ];

    /// As in the table.
    pub fn name(self) -> String {
        match self {
            Self::PlainClock(limit) => format!("clock/{limit}"),
            _ => self.policy(0).name().to_owned(),
        }
    }

    /// A new policy for a cache of `slots` slots.
    pub fn policy(self, slots: usize) -> Box<dyn Policy> {
        match self {
            Self::Clock => Box::new(Clock::new()),
            Self::PlainClock(limit) => Box::new(Clock::with_limit(limit)),
            Self::Lru => Box::new(Lru::new()),
            Self::Sieve => Box::new(Sieve::new()),
            Self::S3Fifo => Box::new(S3Fifo::new(ghosts(slots))),
        }
    }

    /// RAM per object of a cache of `slots` slots, in bytes.
    pub fn bytes_per_object(self, slots: usize) -> f64 {
        let links = if self.policy(0).needs_links() { LINK_BYTES } else { 0.0 };
        let ghosts =
            if self == Self::S3Fifo { S3Fifo::ghost_bytes(ghosts(slots)) as f64 / slots as f64 } else { 0.0 };
        OBJECT_BYTES + links + ghosts
    }

    /// Slots that fit where `slots` objects without links fit.
    pub fn slots_in_equal_ram(self, slots: usize) -> usize {
        (slots as f64 * OBJECT_BYTES / self.bytes_per_object(slots)) as usize
    }
}

fn ghosts(slots: usize) -> usize {
    (slots as f64 * GHOST_SHARE) as usize
}
