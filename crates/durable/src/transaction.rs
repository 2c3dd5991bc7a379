//! Loads, stores, allocations, and the commit.

use std::sync::MutexGuard;

use aquifer_base::HomeAddress;
use aquifer_base::limits::{HOME_BITS, LOG_GRAIN_BYTES, PARTITION_BYTES};
use aquifer_log::geometry::SegmentId;

use crate::block::Role;
use crate::error::{Error, Result};
use crate::heap::DurableHeap;
use crate::homes::{self, SizeClass, Taken};
use crate::log::Purpose;
use crate::session::Session;
use crate::write_set::{Content, Piece};

const GRAIN: usize = LOG_GRAIN_BYTES;
const HOME_BYTES: u64 = 1 << HOME_BITS;

/// A transaction under way. Dropped without a commit, it has not happened.
pub struct Transaction<'h> {
    heap: &'h DurableHeap,
    session: MutexGuard<'h, Session>,
}

/// A part of a transaction, and the chunk that was taken for it.
pub(crate) type Part = (Vec<Piece>, SegmentId);

/// Whether these bytes are in home space.
#[inline]
fn check_range(home: HomeAddress, len: usize) -> Result<()> {
    let is_inside = home.0 < HOME_BYTES && len as u64 <= HOME_BYTES - home.0;
    if is_inside { Ok(()) } else { Err(Error::NotAllocated(home)) }
}

impl<'h> Transaction<'h> {
    pub(crate) fn begin(heap: &'h DurableHeap, mut session: MutexGuard<'h, Session>) -> Self {
        session.clear();
        session.view.begin(heap.versions());
        Self { heap, session }
    }

    /// Fills `out` with the bytes from `home` on, as this transaction sees them.
    ///
    /// # Errors
    /// [`Error::NotAllocated`], [`Error::Conflict`].
    #[inline]
    pub fn load(&mut self, home: HomeAddress, out: &mut [u8]) -> Result<()> {
        check_range(home, out.len())?;
        if home.offset_bytes() + out.len() <= PARTITION_BYTES {
            return self.load_portion(home, out);
        }
        let first = PARTITION_BYTES - home.offset_bytes();
        let (head, rest) = out.split_at_mut(first);
        self.load_portion(home, head)?;
        for (n, portion) in rest.chunks_mut(PARTITION_BYTES).enumerate() {
            self.load_portion(home.plus_bytes((first + n * PARTITION_BYTES) as u64), portion)?;
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

    /// Loads bytes of one partition.
    #[inline]
    fn load_portion(&mut self, home: HomeAddress, out: &mut [u8]) -> Result<()> {
        if out.is_empty() {
            return Ok(());
        }
        if self.session.writes.may_have(home, out.len()) {
            return self.load_with_writes(home, out);
        }
        if self.load_committed(home, out)? == 0 { Ok(()) } else { Err(Error::NotAllocated(home)) }
    }

    fn load_with_writes(&mut self, home: HomeAddress, out: &mut [u8]) -> Result<()> {
        let over = self.session.writes.overlay(home, out).ok_or(Error::NotAllocated(home))?;
        if over.bytes == out.len() {
            return Ok(());
        }
        let missing = self.load_committed(home, out)?;
        if over.bytes > 0 {
            self.session.writes.overlay(home, out);
        }
        // Nothing else is missing than what it has allocated itself.
        if missing <= over.fresh { Ok(()) } else { Err(Error::NotAllocated(home)) }
    }

    /// Fills `out` with what is committed in one partition; returns how many bytes of it are not allocated.
    #[inline]
    fn load_committed(&mut self, home: HomeAddress, out: &mut [u8]) -> Result<usize> {
        let Self { heap, session } = self;
        let Session { view, hints, .. } = &mut **session;
        let hint = hints.of(home.0 / GRAIN as u64);
        view.read(heap.versions(), home.partition(), || heap.copy(home, out, hint))
    }

    /// Writes `bytes` from `home` on. They are in the heap when the transaction has committed.
    ///
    /// # Errors
    /// [`Error::NotAllocated`] if this transaction has freed a part of it; other places that are not allocated are found by the
    /// commit. [`Error::Conflict`].
    #[inline]
    pub fn store(&mut self, home: HomeAddress, bytes: &[u8]) -> Result<()> {
        check_range(home, bytes.len())?;
        if home.0.is_multiple_of(GRAIN as u64) && bytes.len().is_multiple_of(GRAIN) {
            return self.store_grains(home, bytes);
        }
        self.store_around(home, bytes)
    }

    /// Stores whole grains, with what is around the bytes.
    fn store_around(&mut self, home: HomeAddress, bytes: &[u8]) -> Result<()> {
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
        let is_written = bytes.is_empty() || self.session.writes.write(home, bytes);
        if is_written { Ok(()) } else { Err(Error::NotAllocated(home)) }
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
        let outcome = self.commit_parts(&parts);
        let Session { view, allocated, freed, .. } = &mut *self.session;
        if outcome.is_err() {
            view.unlock_unchanged(&self.heap.map);
            // After an error of the device nothing is persisted any more, so these are not missed.
            if !matches!(outcome, Err(Error::Io { .. })) {
                parts.into_iter().for_each(|(_, id)| self.heap.log.put_back(id));
            }
            return outcome;
        }
        allocated.clear();
        freed.drain(..).for_each(|home| self.heap.homes.give_back(home));
        Ok(())
    }

    /// Encodes the block, and sees that there is room for it, while nothing is locked. A transaction that is larger than a chunk is
    /// cut into parts, each of which gets a chunk; otherwise there are none.
    fn make_room(&mut self) -> Result<Vec<Part>> {
        let session = &mut *self.session;
        let pieces = session.writes.pieces();
        session.block.encode(&session.writes, pieces, &[], Role::Whole);
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

    fn commit_parts(&mut self, parts: &[Part]) -> Result<()> {
        let heap = self.heap;
        let session = &mut *self.session;
        session.view.lock(&heap.map, session.writes.pieces())?;
        let version = session.view.take_version(heap.versions())?;
        heap.check_allocated(session)?;
        if parts.is_empty() {
            let at = session.append(&heap.log, version)?;
            heap.enter_block(session, at);
        } else {
            heap.append_parts(session, parts, version)?;
        }
        session.view.unlock(&heap.map, version);
        Ok(())
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        // What it allocated and did not commit.
        self.session.allocated.drain(..).for_each(|home| self.heap.homes.give_back(home));
    }
}
