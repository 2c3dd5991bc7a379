//! Which home addresses are allocated: an ordinary allocator in RAM, made again when the heap is opened.
//!
//! Home space costs nothing until it is written, so objects of each size have areas of their own. What size an area is for
//! stands in the heap itself, in the table of areas; which of its slots are taken is seen in the map.
//!
//! ```text
//! area 0:  root, directory of named roots | table of areas: class u16 for each | unused
//! other:   partitions, each with as many slots as fit; a slot of more than a partition has whole ones
//! ```
//!
//! **An area loses its class** when no area is left and each of its slots is free for everybody: no object, transaction or session has one
//! ([`Homes::vacate`]). Then it is spare, and may be given to another class. An area without objects is spare when the heap is opened.
//!
//! Accesses read classes without a lock. A transaction that has read a class before it changed touches no object of the new class:
//!
//! 1. [`Homes::era`] is raised before classes are taken away, and after it. A transaction remembers the era in which it begins.
//! 2. The first object of the new class is committed after both. Its partitions have versions newer than the second raise.
//! 3. A view that begins before is older than these versions. A load of the partition extends it, which reads the clock and then the
//!    era. A commit that stores to the object or frees it locks the partition and then reads the era. Both find another one: a conflict.
//! 4. A commit that finds its own era holds the locks, and what it stores to or frees is an object of the class that it knows. A slot of
//!    the area is taken, so the area keeps this class until the commit has ended.
//! 5. An address that a class refuses, or that has none, is a conflict too in another era: an object of the older class may have been
//!    there. A thread that finds a class taken away finds the first raise.

mod class;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use aquifer_base::HomeAddress;
use aquifer_base::limits::{HOME_BITS, PARTITION_BYTES};

use crate::error::{Error, Result};
use class::CLASSES;
pub(crate) use class::SizeClass;

/// Home space of one area.
pub(crate) const AREA_BYTES: u64 = 16 << 20;
/// How many there can be.
pub(crate) const AREAS: usize = ((1u64 << HOME_BITS) / AREA_BYTES) as usize;
/// Home space that every heap has.
const HOME_BYTES_MIN: u64 = 256 << 30;
/// Larger ones have this many times their capacity: what a file can say of home space, and the map must have room for, is bounded by it.
const HOME_PER_CAPACITY: u64 = 16;
/// Where the root stands: the home address of the program's first object, 0 for none.
pub(crate) const ROOT: HomeAddress = HomeAddress(8);
/// Where the directory of named roots stands: the home address of its tree, 0 for none.
pub(crate) const ROOTS: HomeAddress = HomeAddress(16);
/// Where the table of areas begins.
const TABLE: HomeAddress = HomeAddress(PARTITION_BYTES as u64);
/// The last partition of area 0, where nothing stays.
pub(crate) const SCRATCH: HomeAddress = HomeAddress(AREA_BYTES - PARTITION_BYTES as u64);
/// Bytes of area 0 that every heap has: the root's partition and the table.
pub(crate) const FORMATTED_BYTES: usize = PARTITION_BYTES + AREAS * CLASS_BYTES;
/// Bytes of a table's entry.
pub(crate) const CLASS_BYTES: usize = 2;
/// What stands in the table for an area with objects of which nobody knows the class. Nothing more is allocated there.
pub(crate) const CLASS_LOST: u16 = u16::MAX;
/// The code of an area that has lost its class. It does not stand in the table, which has the old one until the area is given again.
const VACANT: u16 = u16::MAX - 1;
/// Slots that were given back, and are taken together.
const TAKEN_TOGETHER: usize = 16;
/// Largest object.
pub(crate) const OBJECT_BYTES_MAX: u64 = AREA_BYTES;

/// The slots of one class.
#[derive(Default)]
struct Slots {
    /// Slots that were given back.
    free: Vec<HomeAddress>,
    /// The area whose slots are given out for the first time, and how many were.
    fresh: Option<(u32, u64)>,
}

/// All home addresses.
pub(crate) struct Homes {
    slots: Box<[Mutex<Slots>]>,
    /// The code of each area: that of its class, 0 before it has one, [`VACANT`] or [`CLASS_LOST`]. Accesses read it without a lock.
    classes: Box<[AtomicU16]>,
    /// How many slots of each area are in the list of its class. Changes with the list, under its lock.
    listed: Box<[AtomicU32]>,
    /// Raised before and after classes are taken away.
    era: AtomicU64,
    /// Areas that were reserved, the first one too.
    reserved: AtomicUsize,
    /// Areas that were reserved and have no class. Locked before lists of slots.
    spare: Mutex<Vec<u32>>,
}

/// What allocating needs first.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// A slot.
    Slot(HomeAddress),
    /// No slot: this area must become one of the class, which must be written to the table, and then be added.
    NeedsArea(u32),
    /// No slot and no area.
    Exhausted,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where the class of an area stands.
pub(crate) fn class_home(area: u32) -> HomeAddress {
    TABLE.plus_bytes(u64::from(area) * CLASS_BYTES as u64)
}

/// Home space of a heap with a file that may grow to `capacity_bytes`.
pub(crate) fn bytes_for(capacity_bytes: u64) -> u64 {
    capacity_bytes.saturating_mul(HOME_PER_CAPACITY).clamp(HOME_BYTES_MIN, 1 << HOME_BITS)
}

fn area_start(area: u32) -> HomeAddress {
    HomeAddress(u64::from(area) * AREA_BYTES)
}

impl Homes {
    /// Nothing is allocated in `home_bytes`, see [`bytes_for`].
    pub(crate) fn new(home_bytes: u64) -> Self {
        let areas = home_bytes.div_ceil(AREA_BYTES);
        Self {
            slots: (0..CLASSES).map(|_| Mutex::default()).collect(),
            classes: (0..areas).map(|_| AtomicU16::new(0)).collect(),
            listed: (0..areas).map(|_| AtomicU32::new(0)).collect(),
            era: AtomicU64::new(0),
            reserved: AtomicUsize::new(1),
            spare: Mutex::default(),
        }
    }

    /// Another number after classes were taken away from areas. What a transaction knows of classes holds for one era.
    #[inline]
    pub(crate) fn era(&self) -> &AtomicU64 {
        &self.era
    }

    fn code_of(&self, area: u64) -> u16 {
        self.classes.get(area as usize).map_or(0, |code| code.load(Ordering::Acquire))
    }

    /// The class of an area.
    #[inline]
    pub(crate) fn class_of(&self, area: u64) -> Option<SizeClass> {
        SizeClass::from_code(self.classes.get(area as usize)?.load(Ordering::Acquire))
    }

    /// The class of the slot that begins at `home`.
    #[inline]
    pub(crate) fn slot_at(&self, home: HomeAddress) -> Option<SizeClass> {
        let class = self.class_of(home.0 / AREA_BYTES)?;
        matches!(class.around((home.0 % AREA_BYTES) as u32), Some((0, _))).then_some(class)
    }

    /// Whether `len` bytes from `home` on are of one slot, or of what the heap has for itself; 0 bytes always are.
    ///
    /// # Errors
    /// [`Error::NotAllocated`] if no slot is there, [`Error::Beyond`] if they are more than the slot has.
    #[inline]
    pub(crate) fn check(&self, home: HomeAddress, len: usize) -> Result<()> {
        let offset = home.0 % AREA_BYTES;
        let room = match self.class_of(home.0 / AREA_BYTES) {
            Some(class) => class.around(offset as u32).map(|(_, behind)| u64::from(behind)),
            None => self.has_unknown_slots(home).then_some(AREA_BYTES - offset),
        };
        match room {
            Some(room) if len as u64 <= room => Ok(()),
            _ if len == 0 => Ok(()),
            Some(_) => Err(Error::Beyond { home, bytes: len as u64 }),
            None => Err(Error::NotAllocated(home)),
        }
    }

    /// Whether `home` is in the first area, or in one whose class is lost: only the map tells what is allocated there.
    #[cold]
    fn has_unknown_slots(&self, home: HomeAddress) -> bool {
        home.0 < AREA_BYTES || self.code_of(home.0 / AREA_BYTES) == CLASS_LOST
    }

    /// The first slot that begins at `home` or behind it, and its class.
    pub(crate) fn slot_from(&self, home: HomeAddress) -> Option<(HomeAddress, SizeClass)> {
        let (mut area, mut offset) = (home.0 / AREA_BYTES, home.0 % AREA_BYTES);
        while area < self.reserved.load(Ordering::Acquire) as u64 {
            if let Some(class) = self.class_of(area) {
                let slot = class.slot_from(offset);
                if slot < class.slots() {
                    return Some((HomeAddress(area * AREA_BYTES + class.slot_offset(slot)), class));
                }
            }
            (area, offset) = (area + 1, 0);
        }
        None
    }

    /// Areas that have a class, and the first one.
    pub(crate) fn areas(&self) -> Vec<u32> {
        self.areas_where(|code| SizeClass::from_code(code).is_some())
    }

    /// Areas in which something is allocated, or was: the log may still tell of it.
    pub(crate) fn areas_with_history(&self) -> Vec<u32> {
        self.areas_where(|code| code != 0)
    }

    /// The first area, and those with a code that `is_wanted`.
    fn areas_where(&self, is_wanted: impl Fn(u16) -> bool) -> Vec<u32> {
        let reserved = self.reserved.load(Ordering::Acquire) as u32;
        (0..reserved).filter(|&area| area == 0 || is_wanted(self.code_of(area.into()))).collect()
    }

    /// Takes a slot, and some more that go into `others`, the next one last: such as were given back, or the rest of a partition.
    pub(crate) fn take(&self, class: SizeClass, others: &mut Vec<HomeAddress>) -> Taken {
        if let Some(home) = self.take_of_class(class, others) {
            return Taken::Slot(home);
        }
        if let Some(area) = locked(&self.spare).pop() {
            return Taken::NeedsArea(area);
        }
        let next = |area| (area < self.classes.len()).then_some(area + 1);
        let area = self.reserved.fetch_update(Ordering::AcqRel, Ordering::Acquire, next);
        area.map_or(Taken::Exhausted, |area| Taken::NeedsArea(area as u32))
    }

    fn take_of_class(&self, class: SizeClass, others: &mut Vec<HomeAddress>) -> Option<HomeAddress> {
        let mut slots = locked(&self.slots[usize::from(class.0)]);
        let more = slots.free.len().saturating_sub(TAKEN_TOGETHER);
        others.extend(slots.free.drain(more..).inspect(|&home| self.count(home, -1)));
        if let Some(home) = others.pop() {
            return Some(home);
        }
        let (area, given) = slots.fresh.filter(|&(_, given)| given < class.slots())?;
        let end = class.slots().min(given + class.slots_left_in_partition(given));
        slots.fresh = Some((area, end));
        let home = |slot| area_start(area).plus_bytes(class.slot_offset(slot));
        others.extend((given + 1..end).rev().map(home));
        Some(home(given))
    }

    /// Counts a slot that goes into the list of its class, or out of it. The list is locked.
    fn count(&self, home: HomeAddress, change: i32) {
        let listed = &self.listed[(home.0 / AREA_BYTES) as usize];
        listed.store(listed.load(Ordering::Relaxed).wrapping_add_signed(change), Ordering::Relaxed);
    }

    /// Adds slots to the list of their class.
    fn list(&self, slots: &mut Slots, homes: impl Iterator<Item = HomeAddress>) {
        slots.free.extend(homes.inspect(|&home| self.count(home, 1)));
    }

    /// Gives slots of an area out for the first time from now on, of which `given` are not free. The rest of the area before it is listed.
    fn begin_area(&self, slots: &mut Slots, class: SizeClass, area: u32, given: u64) {
        if let Some((old, given)) = slots.fresh.replace((area, given)) {
            let rest = given..class.slots();
            self.list(slots, rest.map(|slot| area_start(old).plus_bytes(class.slot_offset(slot))));
        }
    }

    /// An area is one of the class from now on; the table says so.
    pub(crate) fn add_area(&self, area: u32, class: SizeClass) {
        self.classes[area as usize].store(class.0, Ordering::Release);
        self.begin_area(&mut locked(&self.slots[usize::from(class.0)]), class, area, 0);
    }

    /// An area that was needed does not become one of a class, because the table cannot say so.
    pub(crate) fn give_up_area(&self, area: u32) {
        locked(&self.spare).push(area);
    }

    /// Leaves the areas before this one out.
    #[cfg(test)]
    pub(crate) fn skip_to(&self, area: usize) {
        self.reserved.store(area, Ordering::Release);
    }

    /// Gives slots of a class back.
    pub(crate) fn give_back(&self, class: SizeClass, slots: impl Iterator<Item = HomeAddress>) {
        self.list(&mut locked(&self.slots[usize::from(class.0)]), slots);
    }

    /// Takes their class away from areas in which no slot is taken, if no area is spare. Returns whether there is one then.
    #[cold]
    pub(crate) fn vacate(&self) -> bool {
        let mut spare = locked(&self.spare);
        if spare.is_empty() {
            let mut areas = BTreeMap::<u16, Vec<u32>>::new();
            for area in self.areas() {
                areas.entry(self.code_of(area.into())).or_default().push(area);
            }
            let classes =
                areas.into_iter().filter_map(|(code, areas)| Some((SizeClass::from_code(code)?, areas)));
            spare.extend(classes.flat_map(|(class, areas)| self.unlist(class, areas)));
            self.era.fetch_add(u64::from(!spare.is_empty()), Ordering::AcqRel);
            spare.iter().for_each(|&area| self.classes[area as usize].store(VACANT, Ordering::Release));
            self.era.fetch_add(u64::from(!spare.is_empty()), Ordering::AcqRel);
        }
        !spare.is_empty()
    }

    /// Takes all slots of those areas out of the list of a class of which no slot is taken. Returns these areas.
    fn unlist(&self, class: SizeClass, mut areas: Vec<u32>) -> Vec<u32> {
        let mut slots = locked(&self.slots[usize::from(class.0)]);
        let Slots { free, fresh } = &mut *slots;
        let given =
            |area| fresh.filter(|&(fresh, _)| fresh == area).map_or(class.slots(), |(_, given)| given);
        let listed = |area: u32| self.listed[area as usize].load(Ordering::Relaxed);
        areas.retain(|&area| u64::from(listed(area)) == given(area));
        if !areas.is_empty() {
            // They are in order.
            let is_one = |area: u64| areas.binary_search(&(area as u32)).is_ok();
            free.retain(|home| !is_one(home.0 / AREA_BYTES));
            *fresh = fresh.filter(|&(area, _)| !is_one(area.into()));
            areas.iter().for_each(|&area| self.listed[area as usize].store(0, Ordering::Relaxed));
        }
        areas
    }

    /// Takes over an area of a heap that is opened, behind all that were taken over. `holes` are the runs of it in which nothing is
    /// allocated, in order, as first and last byte and one; what is behind the last object is one of them.
    pub(crate) fn restore_area(
        &self,
        area: u32,
        code: u16,
        holes: impl Iterator<Item = (HomeAddress, HomeAddress)>,
    ) {
        let before = self.reserved.fetch_max(area as usize + 1, Ordering::AcqRel);
        let (first, end) = (area_start(area), area_start(area + 1));
        let mut holes = holes.peekable();
        let is_vacant = holes.peek() == Some(&(first, end));
        // Areas that it skips were reserved in vain.
        locked(&self.spare).extend((before as u32..area).chain(is_vacant.then_some(area)));
        self.classes[area as usize].store(if is_vacant { VACANT } else { code }, Ordering::Release);
        let Some(class) = SizeClass::from_code(code).filter(|_| !is_vacant) else { return };
        let mut slots = locked(&self.slots[usize::from(class.0)]);
        let mut fresh = class.slots();
        for (from, to) in holes {
            let from_slot = class.slot_from(from.0 - first.0);
            if to == end {
                fresh = from_slot;
                break;
            }
            let begun = (from_slot..class.slots()).map(|slot| first.plus_bytes(class.slot_offset(slot)));
            self.list(&mut slots, begun.take_while(|home| home.0 + class.slot_bytes() <= to.0));
        }
        self.begin_area(&mut slots, class, area, fresh);
    }

    /// Leaves areas up to this one to be given, and no others.
    #[cfg(test)]
    pub(crate) fn end_with(&self, area: u32) {
        let reserved = self.reserved.swap(AREAS, Ordering::AcqRel) as u32;
        locked(&self.spare).extend(reserved..=area);
    }
}

#[cfg(test)]
mod moves_tests;
#[cfg(test)]
mod tests;
