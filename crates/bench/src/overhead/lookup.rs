//! The cost of finding a page that is in RAM: one lock-free look into the table of entries.

use std::hint::black_box;
use std::time::Instant;

use aquifer_base::PageId;
use aquifer_map::EntryTable;

use crate::overhead::{Cost, LOOKUP, OverheadTask};
use crate::rng::Rng;

/// RAM that an object of 128 bytes takes with its slot header and its entry.
const BYTES_PER_OBJECT: u64 = 148;
/// Data to RAM, which decides how far apart the pages in RAM lie.
const SPREAD: u64 = 16;
const LOOKUPS: u32 = 1_000_000;

/// Random lookups in a table as full as a heap of that budget makes it.
pub fn measure(task: &OverheadTask) -> Cost {
    let entries = task.ram_bytes / BYTES_PER_OBJECT;
    let table = EntryTable::new(entries as usize);
    let mut rng = Rng::new(7);
    let mut pages = Vec::with_capacity(entries as usize);
    for slot in 0..entries {
        let page = PageId(slot * SPREAD + rng.below(SPREAD));
        if let Ok(locked) = table.lock(page) {
            let entry = locked.entry().cached(slot as u32);
            locked.release(entry);
            pages.push(page);
        }
    }
    let ns = (0..task.runs).map(|_| lookup_ns(&table, &pages, &mut rng)).collect();
    Cost { name: LOOKUP, ns, note: format!("random pages among {} in RAM, one after the other", pages.len()) }
}

fn lookup_ns(table: &EntryTable, pages: &[PageId], rng: &mut Rng) -> f64 {
    let wanted: Vec<PageId> = (0..LOOKUPS).map(|_| pages[rng.below(pages.len() as u64) as usize]).collect();
    let start = Instant::now();
    for &page in &wanted {
        black_box(table.find(page));
    }
    start.elapsed().as_nanos() as f64 / f64::from(LOOKUPS)
}
