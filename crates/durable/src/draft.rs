//! A transaction before its commit: what it has seen and what it wants to write. Nobody else sees anything of it.

use aquifer_base::HomeAddress;
use aquifer_base::limits::{LOG_GRAIN_BYTES, PARTITION_BYTES};
use aquifer_map::partitions::Hint;

use crate::error::{Error, Result};
use crate::hints::Hints;
use crate::homes::{self, Homes, SizeClass, Taken};
use crate::supply::Supply;
use crate::tuning::Tuning;
use crate::view::{Versions, View};
use crate::write_set::{BYTES_MAX, WriteSet};

const GRAIN: usize = LOG_GRAIN_BYTES;

/// What is committed, wherever a heap keeps it.
pub(crate) trait Committed {
    /// Versions and locks of partitions.
    fn versions(&self) -> Versions<'_>;

    /// Fills `out` with the committed bytes of one partition from `home` on; returns how many of them are not allocated. Anything at all
    /// if somebody changes the partition meanwhile.
    ///
    /// # Errors
    /// [`Error::Damaged`].
    fn copy(&self, home: HomeAddress, out: &mut [u8], hint: &mut Hint) -> Result<usize>;

    /// Whether the grain at `home` is allocated by what is committed now. Anything at all if somebody changes its partition meanwhile.
    fn is_allocated(&self, home: HomeAddress, hint: &mut Hint) -> bool;

    /// Which home addresses are allocated.
    fn homes(&self) -> &Homes;

    /// Makes an area of home space one for objects of a class.
    fn give_area(&self, area: u32, class: SizeClass) -> Result<()>;

    /// Makes slots free for everybody that nobody uses now.
    fn give_slots_back(&self) {}

    /// How large it may become.
    fn capacity_bytes(&self) -> u64;
}

/// A transaction before its commit.
#[derive(Default)]
pub(crate) struct Draft {
    pub(crate) writes: WriteSet,
    pub(crate) view: View,
    pub(crate) hints: Hints,
    supply: Supply,
    /// Objects that it has allocated.
    pub(crate) allocated: Vec<HomeAddress>,
    /// Objects that it has freed.
    pub(crate) freed: Vec<HomeAddress>,
}

impl Draft {
    /// One without anything, for any number of transactions.
    pub(crate) fn new(tuning: &Tuning) -> Self {
        let (writes, hints) = (WriteSet::new(tuning.merges_writes), Hints::new(tuning.hot_nodes));
        Self { writes, hints, ..Self::default() }
    }

    /// As [`Draft::begin`], for a transaction that looks at `homes`.
    #[inline]
    pub(crate) fn begin_with(&mut self, homes: &Homes) {
        self.view.begin_era(homes.era());
        self.begin();
    }

    /// Begins another transaction, which sees the present.
    #[inline]
    pub(crate) fn begin(&mut self) {
        self.writes.clear();
        self.allocated.clear();
        self.freed.clear();
        self.view.begin();
    }

    /// Checks that `len` bytes from `home` on are of one slot.
    #[inline]
    fn check(&self, homes: &Homes, home: HomeAddress, len: usize) -> Result<()> {
        homes.check(home, len).or_else(|error| self.refuse(homes, error))
    }

    /// The class of the slot that begins at `home`.
    ///
    /// # Errors
    /// [`Error::NoObject`], [`Error::Conflict`].
    #[inline]
    pub(crate) fn slot_at(&self, homes: &Homes, home: HomeAddress) -> Result<SizeClass> {
        homes.slot_at(home).map_or_else(|| self.refuse(homes, Error::NoObject(home)), Ok)
    }

    /// Fails with what the class of an area says, or with a conflict if it was another one when the transaction began.
    #[cold]
    fn refuse<T>(&self, homes: &Homes, error: Error) -> Result<T> {
        self.view.ensure_era(homes.era()).and(Err(error))
    }

    /// See [`Transaction::place`](crate::Transaction::place).
    #[inline]
    pub(crate) fn place(
        &self,
        homes: &Homes,
        object: HomeAddress,
        offset: u64,
        bytes: u64,
    ) -> Result<HomeAddress> {
        let class = self.slot_at(homes, object)?;
        match offset.checked_add(bytes) {
            Some(end) if end <= class.slot_bytes() => Ok(object.plus_bytes(offset)),
            _ => {
                let home = HomeAddress(object.0.saturating_add(offset));
                self.refuse(homes, Error::Beyond { home, bytes })
            }
        }
    }

    /// See [`Transaction::load`](crate::Transaction::load).
    #[inline]
    pub(crate) fn load(
        &mut self,
        committed: &impl Committed,
        home: HomeAddress,
        out: &mut [u8],
    ) -> Result<()> {
        self.check(committed.homes(), home, out.len())?;
        if home.offset_bytes() + out.len() <= PARTITION_BYTES {
            return self.load_portion(committed, home, out);
        }
        let first = PARTITION_BYTES - home.offset_bytes();
        let (head, rest) = out.split_at_mut(first);
        self.load_portion(committed, home, head)?;
        for (n, portion) in rest.chunks_mut(PARTITION_BYTES).enumerate() {
            let home = home.plus_bytes((first + n * PARTITION_BYTES) as u64);
            self.load_portion(committed, home, portion)?;
        }
        Ok(())
    }

    /// Loads bytes of one partition.
    #[inline]
    fn load_portion(&mut self, committed: &impl Committed, home: HomeAddress, out: &mut [u8]) -> Result<()> {
        if out.is_empty() {
            return Ok(());
        }
        if self.writes.may_have(home, out.len()) {
            return self.load_with_writes(committed, home, out);
        }
        let missing = self.load_committed(committed, home, out)?;
        if missing == 0 { Ok(()) } else { Err(Error::NotAllocated(home)) }
    }

    fn load_with_writes(
        &mut self,
        committed: &impl Committed,
        home: HomeAddress,
        out: &mut [u8],
    ) -> Result<()> {
        let over = self.writes.overlay(home, out).ok_or(Error::NotAllocated(home))?;
        if over.bytes == out.len() {
            return Ok(());
        }
        let missing = self.load_committed(committed, home, out)?;
        if over.bytes > 0 {
            self.writes.overlay(home, out);
        }
        // Nothing else is missing than what it has allocated itself.
        if missing <= over.fresh { Ok(()) } else { Err(Error::NotAllocated(home)) }
    }

    /// Fills `out` with what is committed in one partition; returns how many bytes of it are not allocated.
    #[inline]
    fn load_committed(
        &mut self,
        committed: &impl Committed,
        home: HomeAddress,
        out: &mut [u8],
    ) -> Result<usize> {
        let hint = self.hints.of(home.0 / GRAIN as u64);
        self.view.read(committed.versions(), home.partition(), || committed.copy(home, out, hint))?
    }

    /// See [`Transaction::store`](crate::Transaction::store).
    #[inline]
    pub(crate) fn store(
        &mut self,
        committed: &impl Committed,
        home: HomeAddress,
        bytes: &[u8],
    ) -> Result<()> {
        self.check(committed.homes(), home, bytes.len())?;
        self.ensure_allocated(committed, home, bytes.len())?;
        if home.0.is_multiple_of(GRAIN as u64) && bytes.len().is_multiple_of(GRAIN) {
            return self.store_grains(home, bytes);
        }
        self.store_around(committed, home, bytes)
    }

    /// Refuses bytes that are not allocated. An object is allocated from its first grain on without a gap, so the last one tells.
    #[inline]
    fn ensure_allocated(&mut self, committed: &impl Committed, home: HomeAddress, len: usize) -> Result<()> {
        let last = HomeAddress(home.0 + len.max(1) as u64 - 1);
        if committed.is_allocated(last, self.hints.of(last.0 / GRAIN as u64)) || len == 0 {
            return Ok(());
        }
        self.ensure_seen(committed, home, last)
    }

    /// Refuses bytes that are not allocated for this transaction, whose view may be older than what is committed, and which may
    /// have allocated them itself.
    #[cold]
    fn ensure_seen(
        &mut self,
        committed: &impl Committed,
        home: HomeAddress,
        last: HomeAddress,
    ) -> Result<()> {
        match self.load_portion(committed, last, &mut [0]) {
            Err(Error::NotAllocated(_)) => {
                self.load_portion(committed, home, &mut [0])?;
                Err(Error::Beyond { home, bytes: last.0 - home.0 + 1 })
            }
            outcome => outcome,
        }
    }

    /// Stores whole grains, with what is around the bytes.
    fn store_around(&mut self, committed: &impl Committed, home: HomeAddress, bytes: &[u8]) -> Result<()> {
        let start = HomeAddress(home.0 / GRAIN as u64 * GRAIN as u64);
        let skip = (home.0 - start.0) as usize;
        let mut grains = vec![0; (skip + bytes.len()).next_multiple_of(GRAIN)];
        self.load(committed, start, &mut grains)?;
        grains[skip..skip + bytes.len()].copy_from_slice(bytes);
        self.store_grains(start, &grains)
    }

    #[inline]
    fn store_grains(&mut self, home: HomeAddress, bytes: &[u8]) -> Result<()> {
        if !self.writes.has_room_for(bytes.len()) {
            let bytes = self.writes.grains_max() * GRAIN as u64 + bytes.len() as u64;
            return Err(Error::TooLarge { what: "a transaction", bytes, limit: BYTES_MAX as u64 });
        }
        let is_written = bytes.is_empty() || self.writes.write(home, bytes);
        if is_written { Ok(()) } else { Err(Error::NotAllocated(home)) }
    }

    /// See [`Transaction::alloc`](crate::Transaction::alloc).
    pub(crate) fn alloc(&mut self, committed: &impl Committed, bytes: u64) -> Result<HomeAddress> {
        if bytes > homes::OBJECT_BYTES_MAX {
            return Err(Error::TooLarge { what: "an object", bytes, limit: homes::OBJECT_BYTES_MAX });
        }
        let home = self.take_slot(committed, SizeClass::for_bytes(bytes))?;
        self.allocated.push(home);
        // What it has stored to or freed may be in areas of another class now, perhaps where the slot is.
        self.view.ensure_era(committed.homes().era())?;
        if self.writes.may_have(home, GRAIN) && self.writes.overlay(home, &mut [0; GRAIN]).is_none() {
            // This transaction wants to free it, and somebody else has done so and committed.
            return Err(Error::Conflict);
        }
        self.writes.allocate(home, bytes.max(1).div_ceil(GRAIN as u64) as u32);
        Ok(home)
    }

    /// Takes a slot, and gives areas to the class that it needs for it.
    fn take_slot(&mut self, committed: &impl Committed, class: SizeClass) -> Result<HomeAddress> {
        let homes = committed.homes();
        loop {
            match self.supply.take(homes, class) {
                Taken::Slot(home) => return Ok(home),
                Taken::NeedsArea(area) => {
                    let given = committed.give_area(area, class);
                    given.inspect_err(|_| homes.give_up_area(area))?;
                }
                Taken::Exhausted => {
                    self.give_slots_back(homes);
                    committed.give_slots_back();
                    if !homes.vacate() {
                        return Err(Error::Full { capacity_bytes: committed.capacity_bytes() });
                    }
                }
            }
        }
    }

    /// Gives the free slots of its session to everybody.
    pub(crate) fn give_slots_back(&mut self, homes: &Homes) {
        self.supply.give_all_back(homes);
    }

    /// See [`Transaction::free`](crate::Transaction::free).
    pub(crate) fn free(&mut self, committed: &impl Committed, home: HomeAddress) -> Result<()> {
        let class = self.slot_at(committed.homes(), home)?;
        let mut first = [0];
        self.load(committed, home, &mut first).map_err(|error| match error {
            Error::NotAllocated(home) => Error::NoObject(home),
            other => other,
        })?;
        self.writes.free(home, (class.slot_bytes() / GRAIN as u64) as u32);
        self.freed.push(home);
        Ok(())
    }

    /// It has committed: what it has freed can be allocated again.
    #[inline]
    pub(crate) fn succeed(&mut self, homes: &Homes) {
        self.allocated.clear();
        self.freed.drain(..).for_each(|home| self.supply.give_back(homes, home));
    }

    /// It will not commit: what it has allocated can be allocated again. Nothing after [`Draft::succeed`].
    #[inline]
    pub(crate) fn give_up(&mut self, homes: &Homes) {
        self.allocated.drain(..).for_each(|home| self.supply.give_back(homes, home));
    }
}
