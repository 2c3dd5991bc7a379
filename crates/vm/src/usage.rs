//! What an engine uses at a moment.

use aquifer_base::limits::OS_PAGE_BYTES;
use aquifer_map::leaf_table::ROW_BYTES;

use crate::context::{CONTEXT_BYTES, SAVERS_BYTES};
use crate::pages::Pages;

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

/// What it uses now, when `leaves_in_use` leaves were given out.
pub(crate) fn usage(pages: &Pages, leaves_in_use: u32) -> Usage {
    let leaves = leaves_in_use as usize;
    let Pages { residence, backing, mapping, contexts, .. } = pages;
    let log = backing.log();
    let page_buffer_bytes = residence.buffered() * OS_PAGE_BYTES;
    let page_table_bytes = (mapping.live_ranges() + leaves / 512 + 1) * OS_PAGE_BYTES;
    let own_metadata_bytes = residence.table_bytes() + backing.leaves().ram_bytes() + leaves * ROW_BYTES;
    let (cache_bytes, cache_metadata_bytes) = residence.cache_bytes();
    Usage {
        ram_bytes: own_metadata_bytes
            + cache_bytes
            + log.ram_bytes()
            + log.geometry().block_bytes
            + contexts.len() * CONTEXT_BYTES
            + SAVERS_BYTES
            + page_buffer_bytes
            + page_table_bytes,
        metadata_bytes: own_metadata_bytes + cache_metadata_bytes + log.metadata_bytes(),
        page_buffer_bytes,
        page_table_bytes,
        cache_bytes,
        cache_objects: residence.objects(),
        evicted_objects: residence.evicted(),
        flash_live_bytes: log.segments().live_bytes_total(),
    }
}
