//! What a heap takes.

use crate::core::Core;

/// What a heap takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Usage {
    /// Bytes of objects in the log.
    pub live_bytes: u64,
    /// Memory of the file's chunks, free ones included.
    pub file_bytes: u64,
    /// Part of that which is free: for the cleaner, and for what is written next.
    pub reserve_bytes: u64,
    /// RAM of the map's extents.
    pub map_bytes: u64,
}

impl Usage {
    /// The memory is that of this moment, also in the middle of a pass of the cleaner. Bytes of objects are counted when the pass has
    /// ended: while it moves them, they count twice or not at all.
    pub(crate) fn of(core: &Core) -> Self {
        let file_bytes = u64::from(core.log.chunks().0) * u64::from(core.log.superblock.chunk_bytes);
        let (reserve_bytes, map_bytes) = (core.log.free_bytes(), core.map.ram_bytes() as u64);
        let _at_rest = core.cleaner();
        Self { live_bytes: core.log.live_bytes(), file_bytes, reserve_bytes, map_bytes }
    }
}
