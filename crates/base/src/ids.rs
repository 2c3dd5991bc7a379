//! Newtypes for the things that are counted and addressed.

use crate::limits::{LEAF_PAGES, LOG_GRAIN_BYTES, OS_PAGE_BYTES, PARTITION_BYTES};

/// One page of a heap's address range: the unit of translation.
///
/// An object of at most [`OS_PAGE_BYTES`] bytes has a page of its own; a larger one spans
/// consecutive pages. At most [`crate::limits::PAGE_ID_BITS`] bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PageId(pub u64);

impl PageId {
    /// The page at `offset_bytes` from the start of the heap's range.
    pub const fn from_offset(offset_bytes: u64) -> Self {
        Self(offset_bytes / OS_PAGE_BYTES as u64)
    }

    /// Bytes from the start of the heap's range.
    pub const fn offset_bytes(self) -> u64 {
        self.0 * OS_PAGE_BYTES as u64
    }

    /// The leaf that translates this page.
    pub const fn leaf(self) -> LeafId {
        LeafId((self.0 / LEAF_PAGES as u64) as u32)
    }

    /// Position within its leaf, 0 to 511.
    pub const fn index(self) -> usize {
        (self.0 % LEAF_PAGES as u64) as usize
    }
}

/// A group of [`LEAF_PAGES`] consecutive pages: 2 MiB of address range, one OS page table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LeafId(pub u32);

impl LeafId {
    /// The page at `index` (0 to 511) of this leaf.
    pub const fn page(self, index: usize) -> PageId {
        PageId(self.0 as u64 * LEAF_PAGES as u64 + index as u64)
    }
}

/// Where a record begins in the log, in units of [`LOG_GRAIN_BYTES`]. At most 40 bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LogAddress(pub u64);

impl LogAddress {
    /// The address of byte `offset_bytes`, which must be a multiple of the grain.
    pub const fn from_offset(offset_bytes: u64) -> Self {
        debug_assert!(offset_bytes.is_multiple_of(LOG_GRAIN_BYTES as u64));
        Self(offset_bytes / LOG_GRAIN_BYTES as u64)
    }

    /// Bytes from the start of the log's device.
    pub const fn offset_bytes(self) -> u64 {
        self.0 * LOG_GRAIN_BYTES as u64
    }

    /// The address `bytes` further on.
    pub const fn plus_bytes(self, bytes: usize) -> Self {
        Self::from_offset(self.offset_bytes() + bytes as u64)
    }
}

/// Where a byte of a durable heap is for its program, however often its bytes are moved in the log: bytes from the start of
/// the heap's home space. At most [`crate::limits::HOME_BITS`] bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct HomeAddress(pub u64);

impl HomeAddress {
    /// The partition that maps this byte.
    pub const fn partition(self) -> PartitionId {
        PartitionId((self.0 / PARTITION_BYTES as u64) as u32)
    }

    /// Bytes from the start of its partition.
    pub const fn offset_bytes(self) -> usize {
        (self.0 % PARTITION_BYTES as u64) as usize
    }

    /// The address `bytes` further on.
    pub const fn plus_bytes(self, bytes: u64) -> Self {
        Self(self.0 + bytes)
    }
}

/// [`PARTITION_BYTES`] of home space, which are mapped to the log, locked and versioned together.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PartitionId(pub u32);

impl PartitionId {
    /// Its first byte.
    pub const fn start(self) -> HomeAddress {
        HomeAddress(self.0 as u64 * PARTITION_BYTES as u64)
    }
}

/// A number that a program gives to objects that will live and die together. Leaves hold objects of one class only.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct AllocationClass(pub u8);

impl AllocationClass {
    /// The class of a thread that never chose one.
    pub const DEFAULT: Self = Self(0);
}
