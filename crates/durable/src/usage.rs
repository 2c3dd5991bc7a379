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
    /// Waits for the end of the cleaner's pass, which counts bytes twice or not at all while it moves them.
    pub(crate) fn of(core: &Core) -> Self {
        let _at_rest = core.cleaner();
        Self {
            live_bytes: core.log.live_bytes(),
            file_bytes: u64::from(core.log.chunks().0) * u64::from(core.log.superblock.chunk_bytes),
            reserve_bytes: core.log.free_bytes(),
            map_bytes: core.map.ram_bytes() as u64,
        }
    }
}
