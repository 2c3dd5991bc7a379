//! How large the slots of an area are, and where in it they are.

use aquifer_base::limits::{LOG_GRAIN_BYTES, PARTITION_BYTES};

use super::AREA_BYTES;

/// Classes of whole grains up to a partition, then eight for each doubling.
const SMALL: usize = PARTITION_BYTES / LOG_GRAIN_BYTES;
const STEPS: usize = 8;
/// Codes of classes are less.
pub(super) const CLASSES: usize = SMALL + 1 + STEPS * (AREA_BYTES / PARTITION_BYTES as u64).ilog2() as usize;

/// A size that areas are made for; 0 is invalid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SizeClass(pub(crate) u16);

impl SizeClass {
    /// The smallest class for `bytes`, which are not more than [`OBJECT_BYTES_MAX`](super::OBJECT_BYTES_MAX).
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
    pub(super) fn slots(self) -> u64 {
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
    pub(super) fn slots_left_in_partition(self, slot: u64) -> u64 {
        if usize::from(self.0) > SMALL {
            1
        } else {
            self.slots_per_partition() - slot % self.slots_per_partition()
        }
    }

    /// First byte of a slot, from the start of its area.
    pub(super) fn slot_offset(self, slot: u64) -> u64 {
        if usize::from(self.0) > SMALL {
            return slot * self.slot_bytes();
        }
        let per = self.slots_per_partition();
        slot / per * PARTITION_BYTES as u64 + slot % per * self.slot_bytes()
    }

    /// The first slot that begins `offset` bytes or more from the start of an area.
    pub(super) fn slot_from(self, offset: u64) -> u64 {
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
    pub(super) fn around(self, offset: u32) -> Option<(u32, u32)> {
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

#[cfg(test)]
mod tests {
    use aquifer_base::HomeAddress;

    use super::super::OBJECT_BYTES_MAX;
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
}
