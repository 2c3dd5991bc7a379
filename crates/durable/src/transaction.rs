//! Loads, stores, allocations, and the commit.

use std::sync::MutexGuard;
use std::sync::atomic::Ordering;

use aquifer_base::limits::{HOME_BITS, LOG_GRAIN_BYTES, PARTITION_BYTES};
use aquifer_base::{HomeAddress, PartitionId};
use aquifer_log::geometry::SegmentId;
use aquifer_map::partitions::{GRAINS, Source, Word};

use crate::block::{self, Role};
use crate::error::{Error, Result};
use crate::heap::DurableHeap;
use crate::homes::{self, SizeClass, Taken};
use crate::log::Purpose;
use crate::session::Session;
use crate::write_set::{Content, Piece};

const GRAIN: usize = LOG_GRAIN_BYTES;
const HOME_BYTES: u64 = 1 << HOME_BITS;
/// Looks at a locked partition before the transaction gives way.
const SPINS: u32 = 200;

/// A transaction under way. Dropped without a commit, it has not happened.
pub struct Transaction<'h> {
    heap: &'h DurableHeap,
    session: MutexGuard<'h, Session>,
    /// All that it sees is of this version of the heap.
    version: u64,
}

/// A part of a transaction, and the chunk that was taken for it.
pub(crate) type Part = (Vec<Piece>, SegmentId);

/// The grains of a partition that a range of bytes touches, and where the partition's bytes begin.
struct Portion {
    id: PartitionId,
    /// Bytes from the start of the partition.
    start: usize,
    len: usize,
}

/// The portions of `len` bytes from `home` on, a partition each.
fn portions(home: HomeAddress, len: usize) -> impl Iterator<Item = (usize, Portion)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let left = len.checked_sub(done).filter(|&left| left > 0)?;
        let home = home.plus_bytes(done as u64);
        let start = home.offset_bytes();
        let portion = Portion { id: home.partition(), start, len: left.min(PARTITION_BYTES - start) };
        done += portion.len;
        Some((done - portion.len, portion))
    })
}

/// Whether these bytes are in home space.
#[inline]
fn check_range(home: HomeAddress, len: usize) -> Result<()> {
    let is_inside = home.0 < HOME_BYTES && len as u64 <= HOME_BYTES - home.0;
    if is_inside { Ok(()) } else { Err(Error::NotAllocated(home)) }
}

impl<'h> Transaction<'h> {
    pub(crate) fn begin(heap: &'h DurableHeap, mut session: MutexGuard<'h, Session>) -> Self {
        session.clear();
        Self { heap, session, version: heap.clock.load(Ordering::Acquire) }
    }

    /// Fills `out` with the bytes from `home` on, as this transaction sees them.
    ///
    /// # Errors
    /// [`Error::NotAllocated`], [`Error::Conflict`].
    pub fn load(&mut self, home: HomeAddress, out: &mut [u8]) -> Result<()> {
        check_range(home, out.len())?;
        for (at, portion) in portions(home, out.len()) {
            let len = portion.len;
            self.load_portion(home.plus_bytes(at as u64), &portion, &mut out[at..at + len])?;
        }
        Ok(())
    }

    /// The number at `home`, in the byte order of this machine.
    ///
    /// # Errors
    /// As [`Transaction::load`].
    #[inline]
    pub fn load_u64(&mut self, home: HomeAddress) -> Result<u64> {
        let mut bytes = [0; 8];
        self.load(home, &mut bytes)?;
        Ok(u64::from_ne_bytes(bytes))
    }

    #[inline]
    fn load_portion(&mut self, home: HomeAddress, portion: &Portion, out: &mut [u8]) -> Result<()> {
        if self.session.writes.may_have(home) {
            return self.load_with_writes(home, portion, out);
        }
        if self.load_committed(portion, out)? { Err(Error::NotAllocated(home)) } else { Ok(()) }
    }

    fn load_with_writes(&mut self, home: HomeAddress, portion: &Portion, out: &mut [u8]) -> Result<()> {
        let covered = self.session.writes.overlay(home, out).ok_or(Error::NotAllocated(home))?;
        if covered == out.len() {
            return Ok(());
        }
        let has_hole = self.load_committed(portion, out)?;
        self.session.writes.overlay(home, out);
        // Holes under what was written are those of its own allocations.
        if has_hole && covered == 0 { Err(Error::NotAllocated(home)) } else { Ok(()) }
    }

    /// Fills `out` with what is committed; returns whether some of it is not allocated.
    #[inline]
    fn load_committed(&mut self, portion: &Portion, out: &mut [u8]) -> Result<bool> {
        loop {
            let before = self.settled(portion.id)?;
            if before.version() > self.version {
                self.extend()?;
                continue;
            }
            let has_hole = self.copy(portion, out);
            if self.heap.map.is_unchanged(portion.id, before) {
                let reads = &mut self.session.reads;
                let read = (portion.id, before.version());
                if reads.last() != Some(&read) {
                    reads.push(read);
                }
                return Ok(has_hole);
            }
        }
    }

    /// The partition's word when nobody commits to it.
    #[inline]
    fn settled(&self, id: PartitionId) -> Result<Word> {
        for _ in 0..SPINS {
            let word = self.heap.map.word(id);
            if !word.is_locked() {
                return Ok(word);
            }
            std::hint::spin_loop();
        }
        Err(Error::Conflict)
    }

    #[inline]
    fn copy(&self, portion: &Portion, out: &mut [u8]) -> bool {
        let (mut at, mut has_hole) = (portion.start, false);
        let end = portion.start + portion.len;
        while at < end {
            let run = self.heap.map.find(portion.id, at / GRAIN);
            let until = (run.end * GRAIN).min(end);
            let target = &mut out[at - portion.start..until - portion.start];
            match run.source {
                Source::Hole => {
                    has_hole = true;
                    target.fill(0);
                }
                Source::Zeros => target.fill(0),
                Source::Log(grain) => {
                    let offset = u64::from(grain) * GRAIN as u64 + (at % GRAIN) as u64;
                    self.heap.log.persist.read(offset, target);
                }
            }
            at = until;
        }
        has_hole
    }

    /// Sees the present version of the heap from now on, if all that was read is of it.
    fn extend(&mut self) -> Result<()> {
        let now = self.heap.clock.load(Ordering::Acquire);
        for &(id, version) in &self.session.reads {
            let word = self.heap.map.word(id);
            if word.is_locked() || word.version() != version {
                return Err(Error::Conflict);
            }
        }
        self.version = now;
        Ok(())
    }

    /// Writes `bytes` from `home` on. They are in the heap when the transaction has committed.
    ///
    /// # Errors
    /// [`Error::NotAllocated`] if this transaction has freed a part of it; other places that are not allocated are found by the
    /// commit. [`Error::Conflict`].
    pub fn store(&mut self, home: HomeAddress, bytes: &[u8]) -> Result<()> {
        check_range(home, bytes.len())?;
        if home.0.is_multiple_of(GRAIN as u64) && bytes.len().is_multiple_of(GRAIN) {
            return self.store_grains(home, bytes);
        }
        // Whole grains, with what is around the bytes.
        let start = HomeAddress(home.0 / GRAIN as u64 * GRAIN as u64);
        let skip = (home.0 - start.0) as usize;
        let mut grains = vec![0; (skip + bytes.len()).next_multiple_of(GRAIN)];
        self.load(start, &mut grains)?;
        grains[skip..skip + bytes.len()].copy_from_slice(bytes);
        self.store_grains(start, &grains)
    }

    /// Writes a number at `home`, in the byte order of this machine.
    ///
    /// # Errors
    /// As [`Transaction::store`].
    #[inline]
    pub fn store_u64(&mut self, home: HomeAddress, number: u64) -> Result<()> {
        self.store(home, &number.to_ne_bytes())
    }

    #[inline]
    fn store_grains(&mut self, home: HomeAddress, bytes: &[u8]) -> Result<()> {
        if bytes.is_empty() || self.session.writes.write(home, bytes) {
            Ok(())
        } else {
            Err(Error::NotAllocated(home))
        }
    }

    /// A new object of `bytes`, all zeros; 0 bytes count as 1.
    ///
    /// # Errors
    /// [`Error::TooLarge`], [`Error::Full`].
    pub fn alloc(&mut self, bytes: u64) -> Result<HomeAddress> {
        if bytes > homes::OBJECT_BYTES_MAX {
            return Err(Error::TooLarge { what: "an object", bytes, limit: homes::OBJECT_BYTES_MAX });
        }
        let class = SizeClass::for_bytes(bytes);
        let home = loop {
            match self.heap.homes.take(class) {
                Taken::Slot(home) => break home,
                Taken::NeedsArea(area) => self.heap.give_area(area, class)?,
                Taken::Exhausted => return Err(Error::Full { capacity_bytes: self.heap.capacity_bytes() }),
            }
        };
        self.session.allocated.push(home);
        self.session.writes.allocate(home, bytes.max(1).div_ceil(GRAIN as u64) as u32);
        Ok(home)
    }

    /// Frees the object at `home`.
    ///
    /// # Errors
    /// [`Error::NoObject`], [`Error::Conflict`].
    pub fn free(&mut self, home: HomeAddress) -> Result<()> {
        let class = self.heap.homes.slot_at(home).ok_or(Error::NoObject(home))?;
        let mut first = [0];
        self.load(home, &mut first).map_err(|error| match error {
            Error::NotAllocated(home) => Error::NoObject(home),
            other => other,
        })?;
        self.session.writes.free(home, (class.slot_bytes() / GRAIN as u64) as u32);
        self.session.freed.push(home);
        Ok(())
    }

    /// The program's first object, through which it finds all others.
    ///
    /// # Errors
    /// [`Error::Conflict`].
    pub fn root(&mut self) -> Result<Option<HomeAddress>> {
        let root = self.load_u64(homes::ROOT)?;
        Ok((root != 0).then_some(HomeAddress(root)))
    }

    /// Makes an object the first one.
    ///
    /// # Errors
    /// As [`Transaction::store`].
    pub fn set_root(&mut self, root: HomeAddress) -> Result<()> {
        self.store_u64(homes::ROOT, root.0)
    }

    /// Allocates what every heap has.
    pub(crate) fn format(&mut self) -> Result<()> {
        self.session.writes.allocate(HomeAddress(0), homes::FORMATTED_BYTES as u32 / GRAIN as u32);
        Ok(())
    }

    /// Makes all of it durable, and then visible, at once.
    ///
    /// # Errors
    /// [`Error::Conflict`], [`Error::NotAllocated`] for a store to a place that is not allocated, [`Error::Full`],
    /// [`Error::TooLarge`], [`Error::Io`]. Nothing of it has happened then.
    pub fn commit(mut self) -> Result<()> {
        if self.session.writes.is_empty() {
            return Ok(());
        }
        let parts = self.make_room()?;
        let outcome = self.lock().and_then(|()| self.commit_locked(&parts));
        if outcome.is_err() {
            self.unlock_unchanged();
            // After an error of the device nothing is persisted any more, so these are not missed.
            if !matches!(outcome, Err(Error::Io { .. })) {
                parts.into_iter().for_each(|(_, id)| self.heap.log.put_back(id));
            }
            return outcome;
        }
        self.session.allocated.clear();
        let freed = std::mem::take(&mut self.session.freed);
        freed.iter().for_each(|&home| self.heap.homes.give_back(home));
        self.session.freed = freed;
        Ok(())
    }

    /// Encodes the block, and sees that there is room for it, while nothing is locked. A transaction that is larger than a chunk is
    /// cut into parts, each of which gets a chunk; otherwise there are none.
    fn make_room(&mut self) -> Result<Vec<Part>> {
        let session = &mut *self.session;
        let pieces = session.writes.pieces();
        block::encode(&session.writes, pieces, &[], Role::Whole, &mut session.block);
        let is_free = pieces.iter().all(|piece| piece.content == Content::Hole);
        let purpose = if is_free { Purpose::Free } else { Purpose::Write };
        let limit = self.heap.log.block_bytes_max() as u64;
        if session.block.len() as u64 <= limit {
            return self.heap.make_room(session, purpose).map(|()| Vec::new());
        }
        let mut parts: Vec<Part> = Vec::new();
        for pieces in session.writes.parts(limit) {
            match self.heap.take_chunk(purpose) {
                Ok(id) => parts.push((pieces, id)),
                Err(error) => {
                    parts.into_iter().for_each(|(_, id)| self.heap.log.put_back(id));
                    return Err(error);
                }
            }
        }
        Ok(parts)
    }

    /// Locks the partitions that it writes to, in order.
    fn lock(&mut self) -> Result<()> {
        let Session { writes, locks, .. } = &mut *self.session;
        for piece in writes.pieces() {
            let (first, last) = (piece.start / GRAINS as u64, (piece.end() - 1) / GRAINS as u64);
            for number in first..=last {
                let id = PartitionId(number as u32);
                if locks.last().is_some_and(|&(last, _)| last == id) {
                    continue;
                }
                let mut spins = 0;
                let word = loop {
                    match self.heap.map.try_lock(id) {
                        Some(word) => break word,
                        None if spins == SPINS => return Err(Error::Conflict),
                        None => spins += 1,
                    }
                    std::hint::spin_loop();
                };
                locks.push((id, word));
            }
        }
        Ok(())
    }

    fn unlock_unchanged(&mut self) {
        for (id, word) in self.session.locks.drain(..) {
            self.heap.map.unlock_unchanged(id, word);
        }
    }

    fn commit_locked(&mut self, parts: &[Part]) -> Result<()> {
        let heap = self.heap;
        let version = heap.clock.fetch_add(1, Ordering::AcqRel) + 1;
        if version != self.version + 1 {
            self.validate()?;
        }
        self.check_allocated()?;
        let session = &mut *self.session;
        if parts.is_empty() {
            let at = session.append(&heap.log, version)?;
            heap.enter_block(session, at);
        } else {
            heap.append_parts(session, parts, version)?;
        }
        for (id, _) in session.locks.drain(..) {
            heap.map.unlock(id, version);
        }
        Ok(())
    }

    /// Whether all that was read is still the newest.
    fn validate(&self) -> Result<()> {
        for &(id, version) in &self.session.reads {
            let word = self.heap.map.word(id);
            let is_ours = || self.session.locks.binary_search_by_key(&id, |&(id, _)| id).is_ok();
            if word.version() != version || (word.is_locked() && !is_ours()) {
                return Err(Error::Conflict);
            }
        }
        Ok(())
    }

    /// Whether what it writes is allocated. The partitions are locked.
    fn check_allocated(&self) -> Result<()> {
        for piece in self.session.writes.pieces().iter().filter(|piece| !piece.is_fresh) {
            if matches!(piece.content, Content::Bytes(_)) {
                self.check_piece(piece)?;
            }
        }
        Ok(())
    }

    fn check_piece(&self, piece: &Piece) -> Result<()> {
        let mut grain = piece.start;
        while grain < piece.end() {
            let within = grain % GRAINS as u64;
            let run = self.heap.map.find(PartitionId((grain / GRAINS as u64) as u32), within as usize);
            if run.source == Source::Hole {
                return Err(Error::NotAllocated(HomeAddress(grain * GRAIN as u64)));
            }
            grain += run.end as u64 - within;
        }
        Ok(())
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        // What it allocated and did not commit.
        let allocated = std::mem::take(&mut self.session.allocated);
        allocated.iter().for_each(|&home| self.heap.homes.give_back(home));
        self.session.allocated = allocated;
    }
}
