//! Which home addresses are allocated: an ordinary allocator in RAM, made again when the heap is opened.
//!
//! Home space costs nothing until it is written, so objects of each size have areas of their own. What size an area is for
//! stands in the heap itself, in the table of areas; which of its slots are taken is seen in the map.
//!
//! ```text
//! area 0:  root, directory of named roots | table of areas: class u16 for each | unused
//! other:   partitions, each with as many slots as fit; a slot of more than a partition has whole ones
//! ```

mod class;

use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use aquifer_base::HomeAddress;
use aquifer_base::limits::{HOME_BITS, PARTITION_BYTES};

use crate::error::{Error, Result};
use class::CLASSES;
pub(crate) use class::SizeClass;

/// Home space of one area.
pub(crate) const AREA_BYTES: u64 = 16 << 20;
/// How many there are.
pub(crate) const AREAS: usize = ((1u64 << HOME_BITS) / AREA_BYTES) as usize;
/// Where the root stands: the home address of the program's first object, 0 for none.
pub(crate) const ROOT: HomeAddress = HomeAddress(8);
/// Where the directory of named roots stands: the home address of its tree, 0 for none.
pub(crate) const ROOTS: HomeAddress = HomeAddress(16);
/// Where the table of areas begins.
const TABLE: HomeAddress = HomeAddress(PARTITION_BYTES as u64);
/// Bytes of area 0 that every heap has: the root's partition and the table.
pub(crate) const FORMATTED_BYTES: usize = PARTITION_BYTES + AREAS * CLASS_BYTES;
/// Bytes of a table's entry.
pub(crate) const CLASS_BYTES: usize = 2;
/// What stands in the table for an area with objects of which nobody knows the class. Nothing more is allocated there.
pub(crate) const CLASS_LOST: u16 = u16::MAX;
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
    /// The class of each area, 0 for none. Each is written once, before an object of the area can be seen, so that all accesses read
    /// them without a lock.
    classes: Box<[AtomicU16]>,
    /// Areas that were reserved, the first one too.
    reserved: AtomicUsize,
    /// Areas that were reserved in vain.
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

fn area_start(area: u32) -> HomeAddress {
    HomeAddress(u64::from(area) * AREA_BYTES)
}

impl Homes {
    /// Nothing is allocated.
    pub(crate) fn new() -> Self {
        Self {
            slots: (0..CLASSES).map(|_| Mutex::default()).collect(),
            classes: (0..AREAS).map(|_| AtomicU16::new(0)).collect(),
            reserved: AtomicUsize::new(1),
            spare: Mutex::default(),
        }
    }

    /// The class of an area.
    #[inline]
    pub(crate) fn class_of(&self, area: u64) -> Option<SizeClass> {
        let code = self.classes.get(area as usize)?.load(Ordering::Acquire);
        (code != 0).then_some(SizeClass(code))
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
            None => (home.0 < AREA_BYTES).then_some(AREA_BYTES - offset),
        };
        match room {
            Some(room) if len as u64 <= room => Ok(()),
            _ if len == 0 => Ok(()),
            Some(_) => Err(Error::Beyond { home, bytes: len as u64 }),
            None => Err(Error::NotAllocated(home)),
        }
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

    /// Areas that have something in them, the first one too.
    pub(crate) fn areas(&self) -> Vec<u32> {
        let reserved = self.reserved.load(Ordering::Acquire) as u32;
        (0..reserved).filter(|&area| area == 0 || self.class_of(area.into()).is_some()).collect()
    }

    /// Takes a slot, and some more that go into `others`, the next one last: such as were given back, or the rest of a partition.
    pub(crate) fn take(&self, class: SizeClass, others: &mut Vec<HomeAddress>) -> Taken {
        let mut slots = locked(&self.slots[usize::from(class.0)]);
        let more = slots.free.len().saturating_sub(TAKEN_TOGETHER);
        others.extend(slots.free.drain(more..));
        if let Some(home) = others.pop() {
            return Taken::Slot(home);
        }
        if let Some((area, given)) = slots.fresh.filter(|&(_, given)| given < class.slots()) {
            let end = class.slots().min(given + class.slots_left_in_partition(given));
            slots.fresh = Some((area, end));
            let home = |slot| area_start(area).plus_bytes(class.slot_offset(slot));
            others.extend((given + 1..end).rev().map(home));
            return Taken::Slot(home(given));
        }
        if let Some(area) = locked(&self.spare).pop() {
            return Taken::NeedsArea(area);
        }
        let next = |area| (area < AREAS).then_some(area + 1);
        let area = self.reserved.fetch_update(Ordering::AcqRel, Ordering::Acquire, next);
        area.map_or(Taken::Exhausted, |area| Taken::NeedsArea(area as u32))
    }

    /// An area is one of the class from now on; the table says so.
    pub(crate) fn add_area(&self, area: u32, class: SizeClass) {
        self.classes[area as usize].store(class.0, Ordering::Release);
        let mut slots = locked(&self.slots[usize::from(class.0)]);
        let Slots { free, fresh } = &mut *slots;
        if let Some((old, given)) = fresh.replace((area, 0)) {
            // Another thread was as fast.
            let rest = given..class.slots();
            free.extend(rest.map(|slot| area_start(old).plus_bytes(class.slot_offset(slot))));
        }
    }

    /// An area that was needed does not become one of a class, because the table cannot say so.
    pub(crate) fn give_up_area(&self, area: u32) {
        locked(&self.spare).push(area);
    }

    /// Gives slots of a class back.
    pub(crate) fn give_back(&self, class: SizeClass, slots: impl Iterator<Item = HomeAddress>) {
        locked(&self.slots[usize::from(class.0)]).free.extend(slots);
    }

    /// Takes over an area of a heap that is opened. `holes` are the runs of it in which nothing is allocated, in order, as first and
    /// last byte and one; what is behind the last object is one of them.
    pub(crate) fn restore_area(
        &self,
        area: u32,
        code: u16,
        holes: impl Iterator<Item = (HomeAddress, HomeAddress)>,
    ) {
        self.reserved.fetch_max(area as usize + 1, Ordering::AcqRel);
        let Some(class) = SizeClass::from_code(code) else { return };
        self.classes[area as usize].store(code, Ordering::Release);
        let (first, end) = (area_start(area), area_start(area + 1));
        let mut slots = locked(&self.slots[usize::from(class.0)]);
        let mut fresh = class.slots();
        for (from, to) in holes {
            let from_slot = class.slot_from(from.0 - first.0);
            if to == end {
                fresh = from_slot;
                break;
            }
            let begun = (from_slot..class.slots()).map(|slot| first.plus_bytes(class.slot_offset(slot)));
            slots.free.extend(begun.take_while(|home| home.0 + class.slot_bytes() <= to.0));
        }
        if let Some((old, given)) = slots.fresh.replace((area, fresh)) {
            let rest = given..class.slots();
            slots.free.extend(rest.map(|slot| area_start(old).plus_bytes(class.slot_offset(slot))));
        }
    }
}

#[cfg(test)]
mod tests;
