//! Loads, stores, allocations, and the commit.

use std::sync::MutexGuard;

use aquifer_base::HomeAddress;
use aquifer_base::limits::LOG_GRAIN_BYTES;
use aquifer_log::geometry::SegmentId;

use crate::block::Role;
use crate::core::Core;
use crate::draft::{Committed, Draft};
use crate::error::{Error, Result};
use crate::homes;
use crate::session::Session;
use crate::write_set::Piece;

const GRAIN: usize = LOG_GRAIN_BYTES;

/// A transaction under way. Dropped without a commit, it has not happened.
pub struct Transaction<'h> {
    heap: &'h Core,
    session: MutexGuard<'h, Session>,
    /// Whether changes are refused, because the heap was opened so.
    is_read_only: bool,
}

/// A transaction that only reads. It sees one state of the heap, and ends without a commit.
///
/// Data structures take it where they change nothing.
pub struct ReadTransaction<'h>(Transaction<'h>);

impl<'h> ReadTransaction<'h> {
    pub(crate) fn new(transaction: Transaction<'h>) -> Self {
        Self(transaction)
    }

    /// As [`Transaction::load`].
    ///
    /// # Errors
    /// The same.
    #[inline]
    pub fn load(&mut self, home: HomeAddress, out: &mut [u8]) -> Result<()> {
        self.0.load(home, out)
    }

    /// As [`Transaction::load_u64`].
    ///
    /// # Errors
    /// The same.
    #[inline]
    pub fn load_u64(&mut self, home: HomeAddress) -> Result<u64> {
        self.0.load_u64(home)
    }

    /// As [`Transaction::root`].
    ///
    /// # Errors
    /// The same.
    pub fn root(&mut self) -> Result<Option<HomeAddress>> {
        self.0.root()
    }

    /// As [`Transaction::size`].
    ///
    /// # Errors
    /// The same.
    pub fn size(&mut self, object: HomeAddress) -> Result<u64> {
        self.0.size(object)
    }

    /// As [`Transaction::next_object`].
    ///
    /// # Errors
    /// The same.
    pub fn next_object(&mut self, after: HomeAddress) -> Result<Option<HomeAddress>> {
        self.0.next_object(after)
    }
}

/// A part of a transaction, and the chunk that was taken for it.
pub(crate) type Part = (Vec<Piece>, SegmentId);

impl<'h> Transaction<'h> {
    pub(crate) fn begin(heap: &'h Core, mut session: MutexGuard<'h, Session>) -> Self {
        session.draft.begin_with(&heap.homes);
        Self { heap, session, is_read_only: heap.is_read_only }
    }

    /// Refuses a change of a heap that was opened to read only.
    #[inline]
    fn ensure_changes(&self) -> Result<()> {
        if self.is_read_only { Err(Error::ReadOnly) } else { Ok(()) }
    }

    /// Where `bytes` from byte `offset` of the object at `object` are. Whether the object is allocated is found by the load or the store.
    ///
    /// # Errors
    /// [`Error::NoObject`] if no object can begin there, [`Error::Beyond`], [`Error::Conflict`].
    #[inline]
    pub fn place(&self, object: HomeAddress, offset: u64, bytes: u64) -> Result<HomeAddress> {
        self.session.draft.place(&self.heap.homes, object, offset, bytes)
    }

    /// Bytes of the object at `object`: what it was allocated with, rounded up to a multiple of 4.
    ///
    /// # Errors
    /// [`Error::NoObject`], [`Error::Conflict`].
    pub fn size(&mut self, object: HomeAddress) -> Result<u64> {
        self.session.draft.size(self.heap, object)
    }

    /// The first object behind `after`, in the order of home addresses; `HomeAddress(0)` is before all.
    ///
    /// All objects that this transaction sees are found so: those of data structures and of the directory of roots too.
    /// The transaction meets all that allocate or free an object where it has looked.
    ///
    /// # Errors
    /// [`Error::Conflict`].
    pub fn next_object(&mut self, after: HomeAddress) -> Result<Option<HomeAddress>> {
        self.session.draft.next_object(self.heap, after)
    }

    /// Fills `out` with the bytes from `home` on, as this transaction sees them.
    ///
    /// # Errors
    /// [`Error::NotAllocated`], [`Error::Beyond`] if the bytes are more than the object there has, [`Error::Conflict`].
    #[inline]
    pub fn load(&mut self, home: HomeAddress, out: &mut [u8]) -> Result<()> {
        self.session.draft.load(self.heap, home, out)
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

    /// Writes `bytes` from `home` on. They are in the heap when the transaction has committed.
    ///
    /// # Errors
    /// [`Error::NotAllocated`], [`Error::Beyond`] if `bytes` are more than the object there has, [`Error::Conflict`]. An object that
    /// another transaction frees afterwards is found by the commit. [`Error::ReadOnly`].
    #[inline]
    pub fn store(&mut self, home: HomeAddress, bytes: &[u8]) -> Result<()> {
        self.ensure_changes()?;
        self.session.draft.store(self.heap, home, bytes)
    }

    /// Writes a number at `home`, in the byte order of this machine.
    ///
    /// # Errors
    /// As [`Transaction::store`].
    #[inline]
    pub fn store_u64(&mut self, home: HomeAddress, number: u64) -> Result<()> {
        self.store(home, &number.to_ne_bytes())
    }

    /// A new object of `bytes`, all zeros; 0 bytes count as 1.
    ///
    /// # Errors
    /// [`Error::TooLarge`], [`Error::Full`], [`Error::Conflict`], [`Error::ReadOnly`].
    pub fn alloc(&mut self, bytes: u64) -> Result<HomeAddress> {
        self.ensure_changes()?;
        self.session.draft.alloc(self.heap, bytes)
    }

    /// Frees the object at `home`.
    ///
    /// # Errors
    /// [`Error::NoObject`], [`Error::Conflict`], [`Error::ReadOnly`].
    pub fn free(&mut self, home: HomeAddress) -> Result<()> {
        self.ensure_changes()?;
        self.session.draft.free(self.heap, home)
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
        self.session.draft.writes.allocate(HomeAddress(0), homes::FORMATTED_BYTES as u32 / GRAIN as u32);
        Ok(())
    }

    /// Allocates a run at a place that the allocator did not choose, with bytes from `fill`, or zeros.
    pub(crate) fn put(&mut self, home: HomeAddress, grains: u32, fill: Option<impl FnOnce(&mut [u8])>) {
        let writes = &mut self.session.draft.writes;
        writes.allocate(home, grains);
        if let Some(fill) = fill {
            let mut bytes = vec![0; grains as usize * GRAIN];
            fill(&mut bytes);
            writes.write(home, &bytes);
        }
    }

    /// Takes away what [`Transaction::put`] has allocated.
    pub(crate) fn take(&mut self, home: HomeAddress, grains: u32) {
        self.session.draft.writes.free(home, grains);
    }

    /// Makes all of it durable, and then visible, at once.
    ///
    /// # Errors
    /// [`Error::Conflict`], [`Error::NotAllocated`] for a store to a place that is not allocated, [`Error::Full`],
    /// [`Error::TooLarge`], [`Error::Spent`], [`Error::Io`]. Nothing of it has happened then.
    pub fn commit(mut self) -> Result<()> {
        if self.session.draft.writes.is_empty() {
            return Ok(());
        }
        let parts = self.make_room()?;
        self.session.begin_commit(&self.heap.clock);
        let outcome = self.commit_parts(&parts);
        self.session.end_commit();
        let draft = &mut self.session.draft;
        if outcome.is_err() {
            draft.view.unlock_unchanged(&self.heap.map);
            // After an error of the device nothing is persisted any more, so these are not missed.
            if !matches!(outcome, Err(Error::Io { .. })) {
                parts.into_iter().for_each(|(_, id)| self.heap.log.put_back(id));
            }
            return outcome;
        }
        draft.succeed(&self.heap.homes);
        self.heap.commits.add(1);
        Ok(())
    }

    /// Merges what was written, encodes the block, and sees that there is room for it, while nothing is locked. A transaction that is
    /// larger than a chunk is cut into parts, each of which gets a chunk; otherwise there are none.
    fn make_room(&mut self) -> Result<Vec<Part>> {
        let session = &mut *self.session;
        session.draft.writes.merge();
        let (writes, pieces) = (&session.draft.writes, session.draft.writes.pieces());
        session.block.encode(writes, pieces, &[], Role::Whole);
        let heap = self.heap;
        let limit = heap.log.block_bytes_max() as u64;
        if session.block.len() as u64 <= limit {
            return heap.make_room(session).map(|()| Vec::new());
        }
        let (mut parts, purpose): (Vec<Part>, _) = (Vec::new(), heap.purpose_of(pieces));
        for pieces in writes.parts(limit) {
            match heap.take_chunk(purpose) {
                Ok(id) => parts.push((pieces, id)),
                Err(error) => {
                    parts.into_iter().for_each(|(_, id)| heap.log.put_back(id));
                    return Err(error);
                }
            }
        }
        Ok(parts)
    }

    fn commit_parts(&mut self, parts: &[Part]) -> Result<()> {
        let heap = self.heap;
        let session = &mut *self.session;
        let Draft { view, writes, .. } = &mut session.draft;
        view.lock(&heap.map, writes.pieces());
        // They are opened at the version before this one.
        parts.iter().for_each(|&(_, id)| heap.log.reserve(id));
        let version = view.take_version(heap.versions())?;
        heap.check_allocated(&mut session.draft)?;
        if parts.is_empty() {
            // The partitions are locked until it is durable: what others see is (ADR 58).
            let at = session.append(&heap.log, version)?;
            heap.enter_block(session, at);
        } else {
            heap.append_parts(session, parts, version)?;
        }
        session.draft.view.unlock(&heap.map, version);
        Ok(())
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        self.session.draft.give_up(&self.heap.homes);
        self.session.rest();
    }
}
