//! What is known of each segment.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

use crate::geometry::SegmentId;
use crate::record::Kind;

/// Life of a segment: `Free -> Open -> Sealed -> Free`, or `Sealed -> Retired`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum State {
    /// Holds nothing that is needed.
    Free = 0,
    /// A head appends to it.
    Open = 1,
    /// Full; may be cleaned.
    Sealed = 2,
    /// Could not be read whole while it was cleaned; never written again, so that what it still holds
    /// can be reported as damaged instead of being overwritten.
    Retired = 3,
}

impl State {
    fn from_code(code: u8) -> Self {
        match code {
            0 => Self::Free,
            1 => Self::Open,
            2 => Self::Sealed,
            _ => Self::Retired,
        }
    }
}

#[derive(Default)]
struct Segment {
    live_bytes: AtomicU32,
    generation: AtomicU32,
    sealed_at: AtomicU32,
    opened_for: AtomicU32,
    state: AtomicU8,
    kind: AtomicU8,
}

/// The segments of a log: 20 bytes of RAM each.
pub struct SegmentTable {
    segments: Box<[Segment]>,
}

impl SegmentTable {
    /// All segments free. Their generations begin at a random number: a record that an earlier heap left on the
    /// same device does not verify, even where a write of this one was lost.
    pub fn new(count: u32) -> Self {
        let first = RandomState::new().hash_one(count) as u32;
        let segment = |_| Segment { generation: AtomicU32::new(first), ..Segment::default() };
        Self { segments: (0..count).map(segment).collect() }
    }

    /// How many there are.
    pub fn len(&self) -> u32 {
        self.segments.len() as u32
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// RAM that the table takes.
    pub fn ram_bytes(&self) -> usize {
        std::mem::size_of_val(&*self.segments)
    }

    fn at(&self, id: SegmentId) -> &Segment {
        &self.segments[id.0 as usize]
    }

    /// Present state.
    pub fn state(&self, id: SegmentId) -> State {
        State::from_code(self.at(id).state.load(Ordering::Acquire))
    }

    /// Moves on to `state`.
    pub fn set_state(&self, id: SegmentId, state: State) {
        self.at(id).state.store(state as u8, Ordering::Release);
    }

    /// Bytes of records that are still needed.
    pub fn live_bytes(&self, id: SegmentId) -> u32 {
        self.at(id).live_bytes.load(Ordering::Relaxed)
    }

    /// A record of `bytes` was written.
    pub fn add_live(&self, id: SegmentId, bytes: u32) {
        self.at(id).live_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// A record of `bytes` is garbage now.
    pub fn subtract_live(&self, id: SegmentId, bytes: u32) {
        let before = self.at(id).live_bytes.fetch_sub(bytes, Ordering::Relaxed);
        debug_assert!(before >= bytes, "segment {id:?} has {before} live bytes, {bytes} were released");
    }

    /// Begins another life of the segment, with records of `kind`; its earlier records no longer verify.
    pub fn next_generation(&self, id: SegmentId, kind: Kind) {
        self.at(id).generation.fetch_add(1, Ordering::AcqRel);
        self.at(id).kind.store(kind as u8, Ordering::Relaxed);
    }

    /// How many lives it has had, and a random number.
    pub fn generation(&self, id: SegmentId) -> u32 {
        self.at(id).generation.load(Ordering::Acquire)
    }

    /// Takes over a segment that was found on a device, in the life that it has there.
    pub fn restore(&self, id: SegmentId, generation: u32, state: State) {
        self.at(id).generation.store(generation, Ordering::Release);
        self.set_state(id, state);
    }

    /// How many readers ([`crate::readers`]) there had been when its present life began.
    pub(crate) fn opened_for(&self, id: SegmentId) -> u64 {
        u64::from(self.at(id).opened_for.load(Ordering::Relaxed))
    }

    pub(crate) fn set_opened_for(&self, id: SegmentId, readers: u64) {
        self.at(id).opened_for.store(u32::try_from(readers).unwrap_or(u32::MAX), Ordering::Relaxed);
    }

    /// Which records it has in its present life.
    pub fn kind(&self, id: SegmentId) -> Kind {
        match self.at(id).kind.load(Ordering::Relaxed) {
            leaf if leaf == Kind::Leaf as u8 => Kind::Leaf,
            whole if whole == Kind::Whole as u8 => Kind::Whole,
            _ => Kind::Page,
        }
    }

    /// Checksum seed of the segment's present life.
    pub fn seed(&self, id: SegmentId) -> u32 {
        let generation = self.generation(id);
        (id.0 ^ generation.rotate_left(16)).wrapping_mul(0x9E37_79B1)
    }

    /// When it was sealed, in seals since the log was made.
    pub fn sealed_at(&self, id: SegmentId) -> u32 {
        self.at(id).sealed_at.load(Ordering::Relaxed)
    }

    /// Seals it at time `now`.
    pub fn seal(&self, id: SegmentId, now: u32) {
        self.at(id).sealed_at.store(now, Ordering::Relaxed);
        self.set_state(id, State::Sealed);
    }

    /// Every segment in `state`.
    pub fn in_state(&self, state: State) -> impl Iterator<Item = SegmentId> + '_ {
        (0..self.len()).map(SegmentId).filter(move |&id| self.state(id) == state)
    }

    /// Sum of the live bytes of all segments.
    pub fn live_bytes_total(&self) -> u64 {
        self.segments.iter().map(|s| s.live_bytes.load(Ordering::Relaxed) as u64).sum()
    }
}
