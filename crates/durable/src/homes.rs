//! Which home addresses are allocated: an ordinary allocator in RAM, made again when the heap is opened.
//!
//! Home space costs nothing until it is written, so objects of each size have areas of their own. What size an area is for
//! stands in the heap itself, in the table of areas; which of its slots are taken is seen in the map.
//!
//! ```text
//! area 0:  root, directory of named roots | table of areas: class u16 for each | unused
//! other:   partitions, each with as many slots as fit; a slot of more than a partition has whole ones
//! ```

use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use aquifer_base::HomeAddress;
use aquifer_base::limits::{HOME_BITS, LOG_GRAIN_BYTES, PARTITION_BYTES};

use crate::error::{Error, Result};

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
/// Classes of whole grains up to a partition, then eight for each doubling.
const SMALL: usize = PARTITION_BYTES / LOG_GRAIN_BYTES;
const STEPS: usize = 8;
/// Slots that were given back, and are taken together.
const TAKEN_TOGETHER: usize = 16;
/// Largest object.
pub(crate) const OBJECT_BYTES_MAX: u64 = AREA_BYTES;
const CLASSES: usize = SMALL + 1 + STEPS * (AREA_BYTES / PARTITION_BYTES as u64).ilog2() as usize;

/// A size that areas are made for; 0 is invalid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SizeClass(pub(crate) u16);

impl SizeClass {
    /// The smallest class for `bytes`, which are not more than [`OBJECT_BYTES_MAX`].
    pub(crate) fn for_bytes(bytes: u64) -> Self {
        let grains = bytes.max(1).div_ceil(LOG_GRAIN_BYTES as u64);
        if grains <= SMALL as u64 {
            return Self(grains as u16);
        }
        let partitions = bytes.div_ceil(PARTITION_BYTES as u64);
        (SMALL + 1..CLASSES)
            .map(|class| Self(class as u16))
            .find(|class| class.slot_bytes() >= partitions * PARTITION_BYTES as u64)
            .expect("the last class is as large as any object")
    }

    /// A class as it stands in the table.
    pub(crate) fn from_code(code: u16) -> Option<Self> {
        (1..CLASSES as u16).contains(&code).then_some(Self(code))
    }

    /// Home space of a slot.
    pub(crate) fn slot_bytes(self) -> u64 {
        let class = usize::from(self.0);
        if class <= SMALL {
            return (class * LOG_GRAIN_BYTES) as u64;
        }
        let step = class - SMALL - 1;
        let (doubling, eighth) = (step / STEPS, step % STEPS);
        // One eighth more than a power of two, and so on up to the next one; whole partitions.
        let base = (PARTITION_BYTES as u64) << doubling;
        (base + base * (eighth as u64 + 1) / STEPS as u64).next_multiple_of(PARTITION_BYTES as u64)
    }

    /// Slots of an area.
    fn slots(self) -> u64 {
        if usize::from(self.0) <= SMALL {
            AREA_BYTES / PARTITION_BYTES as u64 * self.slots_per_partition()
        } else {
            AREA_BYTES / self.slot_bytes()
        }
    }

    fn slots_per_partition(self) -> u64 {
        PARTITION_BYTES as u64 / self.slot_bytes()
    }

    /// Slots from this one on to the end of its partition.
    fn slots_left_in_partition(self, slot: u64) -> u64 {
        if usize::from(self.0) > SMALL {
            1
        } else {
            self.slots_per_partition() - slot % self.slots_per_partition()
        }
    }

    /// First byte of a slot, from the start of its area.
    fn slot_offset(self, slot: u64) -> u64 {
        if usize::from(self.0) > SMALL {
            return slot * self.slot_bytes();
        }
        let per = self.slots_per_partition();
        slot / per * PARTITION_BYTES as u64 + slot % per * self.slot_bytes()
    }

    /// The first slot that begins `offset` bytes or more from the start of an area.
    fn slot_from(self, offset: u64) -> u64 {
        if usize::from(self.0) > SMALL {
            return offset.div_ceil(self.slot_bytes());
        }
        let (partition, within) = (offset / PARTITION_BYTES as u64, offset % PARTITION_BYTES as u64);
        let in_partition = within.div_ceil(self.slot_bytes()).min(self.slots_per_partition());
        partition * self.slots_per_partition() + in_partition
    }

    /// Bytes from the start of a slot to `offset`, a byte of an area, and from there to the slot's end. `None` behind the last slot of
    /// a partition or of the area.
    #[inline]
    fn around(self, offset: u32) -> Option<(u32, u32)> {
        let is_small = usize::from(self.0) <= SMALL;
        let (within, end) = if is_small {
            (offset % PARTITION_BYTES as u32, PARTITION_BYTES as u32)
        } else {
            (offset, AREA_BYTES as u32)
        };
        let bytes =
            if is_small { u32::from(self.0) * LOG_GRAIN_BYTES as u32 } else { self.slot_bytes() as u32 };
        let before = within % bytes;
        (end - (within - before) >= bytes).then_some((before, bytes - before))
    }
}

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
mod tests {
    use super::*;

    #[test]
    fn classes_are_in_order_and_fit() {
        let mut before = 0;
        for code in 1..CLASSES as u16 {
            let bytes = SizeClass(code).slot_bytes();
            assert!(bytes >= before && SizeClass(code).slots() > 0, "class {code}: {bytes}");
            before = bytes;
        }
        assert_eq!(before, OBJECT_BYTES_MAX);
        for bytes in (1..20_000).chain([1 << 20, (1 << 20) + 1, OBJECT_BYTES_MAX]) {
            let class = SizeClass::for_bytes(bytes);
            assert!(class.slot_bytes() >= bytes);
        }
    }

    #[test]
    fn small_slots_cross_no_partition() {
        for code in 1..=SMALL as u16 {
            let class = SizeClass(code);
            for slot in (0..class.slots()).step_by(97) {
                let home = HomeAddress(class.slot_offset(slot));
                assert_eq!(home.partition(), home.plus_bytes(class.slot_bytes() - 1).partition());
                assert_eq!(class.around(home.0 as u32), Some((0, class.slot_bytes() as u32)));
                let last = home.0 as u32 + class.slot_bytes() as u32 - 1;
                assert_eq!(class.around(last), Some((class.slot_bytes() as u32 - 1, 1)));
            }
        }
    }

    /// Not even behind the last slot of a partition or of an area.
    #[test]
    fn no_byte_is_of_two_slots() {
        for code in [1, 25, 26, 700, 1024, 1025, 1030, CLASSES as u16 - 1] {
            let (homes, class) = (Homes::new(), SizeClass(code));
            homes.restore_area(3, code, std::iter::empty());
            let mut end = 0;
            for slot in 0..class.slots() {
                let first = area_start(3).plus_bytes(class.slot_offset(slot));
                if first.0 > end && slot > 0 {
                    assert!(homes.check(HomeAddress(end), 1).is_err(), "class {code}, slot {slot}");
                }
                end = first.0 + class.slot_bytes();
                assert!(homes.check(first, class.slot_bytes() as usize).is_ok());
                assert!(homes.check(HomeAddress(end - 1), 2).is_err(), "class {code}, slot {slot}");
                assert_eq!(homes.slot_from(HomeAddress(first.0 + 1)).is_some(), slot + 1 < class.slots());
                assert_eq!(homes.slot_from(first), Some((first, class)));
            }
            assert!(homes.check(area_start(4), 1).is_err() && homes.check(area_start(2), 1).is_err());
        }
        assert!(Homes::new().check(ROOT, 8).is_ok());
    }

    #[test]
    fn the_slot_from_an_offset_on_is_the_first() {
        for code in [1, 25, 26, 700, 1024, 1025, 1030, CLASSES as u16 - 1] {
            let class = SizeClass(code);
            for offset in (0..200_000).step_by(4) {
                let slot = class.slot_from(offset).min(class.slots());
                assert!(slot == class.slots() || class.slot_offset(slot) >= offset, "class {code}, {offset}");
                assert!(slot == 0 || class.slot_offset(slot - 1) < offset, "class {code}, {offset}");
            }
        }
    }

    /// What was free is free again, and nothing else.
    #[test]
    fn an_area_is_restored_from_its_holes() {
        let class = SizeClass::for_bytes(100);
        let begun = |slot| area_start(1).plus_bytes(class.slot_offset(slot));
        let homes = Homes::new();
        // Slots 0, 1 and 45 are taken; there are 40 in a partition.
        let holes = [(begun(1).plus_bytes(100), begun(45)), (begun(45).plus_bytes(100), area_start(2))];
        homes.restore_area(1, class.0, holes.into_iter());
        let mut others = Vec::new();
        let mut found: Vec<_> = (0..50)
            .map(|_| match others.pop().map_or_else(|| homes.take(class, &mut others), Taken::Slot) {
                Taken::Slot(home) => home,
                other => panic!("{other:?}"),
            })
            .collect();
        found.sort();
        let expected: Vec<_> = (2..45).chain(46..53).map(begun).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn an_area_that_was_given_up_is_asked_for_again() {
        let (homes, mut others) = (Homes::new(), Vec::new());
        for class in [SizeClass::for_bytes(100), SizeClass::for_bytes(5000)] {
            for _ in 0..AREAS + 9 {
                let Taken::NeedsArea(area) = homes.take(class, &mut others) else {
                    panic!("no area is left")
                };
                homes.give_up_area(area);
            }
        }
    }

    #[test]
    fn slots_are_given_out_once() {
        let homes = Homes::new();
        let class = SizeClass::for_bytes(100);
        let mut others = Vec::new();
        let Taken::NeedsArea(area) = homes.take(class, &mut others) else { panic!("there is no area yet") };
        assert_eq!(area, 1);
        homes.add_area(area, class);
        let mut seen = std::collections::HashSet::new();
        for _ in 0..1000 {
            let Taken::Slot(home) = homes.take(class, &mut others) else { panic!("an area has more") };
            for home in others.drain(..).chain([home]) {
                assert!(seen.insert(home) && homes.slot_at(home) == Some(class));
            }
        }
        let home = *seen.iter().next().expect("a thousand");
        homes.give_back(class, std::iter::once(home));
        assert_eq!(homes.take(class, &mut others), Taken::Slot(home));
    }
}
