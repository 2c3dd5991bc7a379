//! Sizes of slots.

/// Bytes of the slots of each class: steps of 16 up to 128, then four to each doubling.
pub const SIZES: [usize; 28] = [
    16, 32, 48, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 448, 512, 640, 768, 896, 1024, 1280,
    1536, 1792, 2048, 2560, 3072, 3584, 4096,
];

/// A size class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Class(u8);

impl Class {
    /// The class of whole pages: bytes that fill an OS page, so that a page and its slot need not both have memory.
    pub const WHOLE: Self = Self(SIZES.len() as u8 - 1);

    /// The smallest class whose slots hold `bytes`; `None` above 4096.
    pub fn for_bytes(bytes: usize) -> Option<Self> {
        let class = SIZES.partition_point(|&size| size < bytes);
        (class < SIZES.len()).then_some(Self(class as u8))
    }

    pub(crate) const fn from_index(index: usize) -> Self {
        Self(index as u8)
    }

    /// Position in [`SIZES`].
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// Bytes of its slots.
    pub const fn slot_bytes(self) -> usize {
        SIZES[self.0 as usize]
    }

    /// All classes, smallest first.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..SIZES.len()).map(Self::from_index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_that_fits() {
        assert_eq!(Class::for_bytes(1).map(Class::slot_bytes), Some(16));
        assert_eq!(Class::for_bytes(128).map(Class::slot_bytes), Some(128));
        assert_eq!(Class::for_bytes(129).map(Class::slot_bytes), Some(160));
        assert_eq!(Class::for_bytes(4096).map(Class::slot_bytes), Some(4096));
        assert_eq!(Class::for_bytes(4097), None);
    }
}
