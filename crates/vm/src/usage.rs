//! What an engine uses at a moment.

use aquifer_base::limits::OS_PAGE_BYTES;
use aquifer_sys::SignalsBlocked;

use crate::context::CONTEXT_BYTES;
use crate::engine::Engine;
use crate::save::SAVERS_BYTES;

/// RAM and flash that an engine uses, and what is in it.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    /// All RAM of the engine, bytes.
    pub ram_bytes: usize,
    /// Of these: neither objects nor mapped pages, but entries, leaves, slot headers, segments.
    pub metadata_bytes: usize,
    /// Of these: mapped pages.
    pub page_buffer_bytes: usize,
    /// Of these: the kernel's page tables for them, one for each range with a mapped page, and the upper levels.
    pub page_table_bytes: usize,
    /// Of these: slabs of the object cache.
    pub cache_bytes: usize,
    /// Objects in the cache.
    pub cache_objects: u64,
    /// Objects that have left the cache.
    pub evicted_objects: u64,
    /// Bytes of records that are still needed.
    pub flash_live_bytes: u64,
}

impl Engine {
    /// What it uses now, when `leaves_in_use` leaves were given out.
    ///
    /// # Context
    /// May wait for a fork of another thread.
    pub fn usage(&self, leaves_in_use: u32) -> Usage {
        let _signals = SignalsBlocked::new();
        let _pass = self.users_gate.pass_in_fault();
        let leaves = leaves_in_use as usize;
        let (cache, log) = (&self.cache, &self.log);
        let page_buffer_bytes = self.page_buffer.len() * OS_PAGE_BYTES;
        let page_table_bytes = (self.ranges.live() + leaves / 512 + 1) * OS_PAGE_BYTES;
        let own_metadata_bytes = self.entries.ram_bytes()
            + self.leaves.ram_bytes(leaves_in_use)
            + self.page_buffer.ram_bytes()
            + leaves * 4;
        Usage {
            ram_bytes: own_metadata_bytes
                + cache.ram_bytes()
                + log.ram_bytes()
                + log.geometry().block_bytes
                + self.contexts.len() * CONTEXT_BYTES
                + SAVERS_BYTES
                + page_buffer_bytes
                + page_table_bytes,
            metadata_bytes: own_metadata_bytes + cache.metadata_bytes() + log.metadata_bytes(),
            page_buffer_bytes,
            page_table_bytes,
            cache_bytes: cache.ram_bytes(),
            cache_objects: cache.objects(),
            evicted_objects: cache.evicted(),
            flash_live_bytes: log.segments().live_bytes_total(),
        }
    }
}
