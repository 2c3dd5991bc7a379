//! Proof that entries, slots, pages and log agree.

use std::collections::HashMap;
use std::time::Duration;

use aquifer_base::LeafId;
use aquifer_cache::SlotId;
use aquifer_device::AlignedBuffer;
use aquifer_map::leaves::SCRATCH_BYTES;
use aquifer_map::{Entry, Place, State};
use aquifer_sys::SignalsBlocked;

use crate::pages::Pages;

/// Looks at a disagreement before it counts.
const LOOKS: usize = 5;

/// Looks at everything and describes the first disagreement. `leaves_in_use` leaves were given out.
///
/// No other thread may use the heap meanwhile; the writer and the cleaner may.
///
/// # Errors
/// A sentence that names both sides of the disagreement.
pub(crate) fn check(pages: &Pages, leaves_in_use: u32) -> Result<(), String> {
    let _signals = SignalsBlocked::new();
    // A thread that handles faults may still be at the end of one whose page is in use already, and the
    // writer between two steps. What is broken stays broken.
    for _ in 0..LOOKS {
        if check_once(pages, leaves_in_use).is_ok() {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    check_once(pages, leaves_in_use)
}

fn check_once(pages: &Pages, leaves_in_use: u32) -> Result<(), String> {
    check_entries(pages)?;
    check_slots(pages)?;
    check_pins(pages)?;
    check_log(pages, leaves_in_use)
}

fn check_entries(pages: &Pages) -> Result<(), String> {
    let mut problem = None;
    let mut mapped: HashMap<LeafId, u32> = HashMap::new();
    let mut dirty = 0u64;
    pages.residence.for_each(&mut |page, entry| {
        dirty += u64::from(entry.is_dirty());
        if entry.state() == State::Mapped {
            *mapped.entry(page.leaf()).or_default() += 1;
        }
        let owner = entry.slot().and_then(|slot| pages.residence.owner(SlotId(slot)));
        let busy = entry.state() == State::Moving;
        if !busy && owner != Some(page) {
            problem.get_or_insert(format!(
                "entry of {page:?} names slot {:?}, which {owner:?} owns",
                entry.slot()
            ));
        }
    });
    if let Some(problem) = problem {
        return Err(problem);
    }
    for (leaf, count) in mapped {
        let counted = pages.mapping.mapped(leaf) - pages.natives.guards(leaf);
        if counted != count {
            return Err(format!("{count} pages of {leaf:?} are mapped, its range counts {counted}"));
        }
    }
    Ok(())
}

/// The pages that are counted as pinned are those whose entries say so: mapped ones, and those that are used more than
/// once in their slots.
fn check_pins(pages: &Pages) -> Result<(), String> {
    let (mut mapped, mut shared) = (0, 0);
    pages.residence.for_each(&mut |_, entry| match entry.state() {
        State::Mapped => mapped += usize::from(entry.is_pinned()),
        State::Cached => shared += usize::from(entry.is_pinned() && entry.is_shared()),
        State::Moving => {}
    });
    let is_not_pinned = |page| !pages.residence.find(page).is_some_and(Entry::is_pinned);
    for (book, counted, marked) in
        [("pinned", &pages.holds.pins, mapped), ("used more than once", &pages.holds.uses, shared)]
    {
        if let Some(page) = counted.find_page(is_not_pinned) {
            return Err(format!("{page:?} is {book}, its entry is {:?}", pages.residence.find(page)));
        }
        if marked != counted.len() {
            return Err(format!("{marked} entries are {book}, {} pages are", counted.len()));
        }
    }
    Ok(())
}

fn check_slots(pages: &Pages) -> Result<(), String> {
    let mut problem = None;
    pages.residence.for_each_slot(&mut |slot, page| match pages.residence.find(page) {
        Some(entry) if entry.slot() == Some(slot.0) || entry.state() == State::Moving => {}
        // The writer or the cleaner may have just let it go.
        _ if pages.residence.owner(slot) != Some(page) => {}
        other => {
            problem.get_or_insert(format!("slot {slot:?} belongs to {page:?}, whose entry is {other:?}"));
        }
    });
    problem.map_or(Ok(()), Err)
}

/// The live bytes of the segments must be those that the leaves account for.
fn check_log(pages: &Pages, leaves_in_use: u32) -> Result<(), String> {
    let mut scratch = AlignedBuffer::new(SCRATCH_BYTES);
    let before = pages.backing.log().segments().live_bytes_total();
    let mut accounted = 0u64;
    for leaf in (0..leaves_in_use).map(LeafId).filter(|&leaf| !pages.backing.leaves().is_empty(leaf)) {
        let held = pages.backing.leaves().hold(leaf, &mut scratch).map_err(|error| error.to_string())?;
        let count = (0..aquifer_base::limits::LEAF_PAGES).filter(|&n| held.place(n) != Place::ZERO).count();
        accounted += (count * held.record_bytes()) as u64 + held.logged_bytes() as u64;
    }
    let after = pages.backing.log().segments().live_bytes_total();
    // Only a log at rest can be compared.
    if before == after && before != accounted {
        return Err(format!("segments count {before} live bytes, leaves account for {accounted}"));
    }
    Ok(())
}
