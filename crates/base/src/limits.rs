//! A limit on everything.

/// The kernel's page size on every machine we support.
pub const OS_PAGE_BYTES: usize = 4096;
/// Pages per leaf; equal to the entries of one OS page table, so that a leaf's 2 MiB of address
/// range and its page table come and go together.
pub const LEAF_PAGES: usize = 512;
/// Address range of one leaf.
pub const LEAF_RANGE_BYTES: usize = OS_PAGE_BYTES * LEAF_PAGES;
/// Bits of a page id: 64 TiB of address range per heap.
pub const PAGE_ID_BITS: u32 = 34;
/// Log addresses count units of this many bytes.
pub const LOG_GRAIN_BYTES: usize = 4;
/// Bits of a log address: 4 TiB of log.
pub const LOG_ADDRESS_BITS: u32 = 40;
/// Largest payload of one framed record. A whole page has no frame.
pub const RECORD_PAYLOAD_BYTES_MAX: usize = OS_PAGE_BYTES - 1;
/// Largest object.
pub const OBJECT_BYTES_MAX: u64 = 1 << 30;
/// Smallest RAM budget of a heap.
pub const RAM_BYTES_MIN: u64 = 8 << 20;
/// Home space that is mapped, locked and versioned together in a durable heap.
pub const PARTITION_BYTES: usize = 4096;
/// Bits of a home address: 4 TiB of home space per durable heap.
pub const HOME_BITS: u32 = 42;
