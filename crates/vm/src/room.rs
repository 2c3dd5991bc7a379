//! Room for a page: an entry, a slot, a place at its address. The only file with waits for room.

use aquifer_base::PageId;
use aquifer_cache::{Class, Lack, SlotId};
use aquifer_map::State;
use aquifer_map::entries::TableFull;
use aquifer_sys::{Backoff, process};

use crate::backing::WriterWait;
use crate::error::{FaultError, Reason};
use crate::leave::{leave_all_in_fault, leave_oldest_in_fault, leave_one_in_fault};
use crate::mapping::BATCH;
use crate::pages::Pages;
use crate::patience::Patience;
use crate::residence::{Held, may_leave};

/// Share of the page buffer for pages that are on their way out: one in this many.
const LEAVING: usize = 8;
/// How often one fault tries to make room by evicting, and how often it waits for other threads that do.
const TRIES: usize = 32;
/// Waits of one fault for a thread that evicts, which may have lost the processor. After [`TRIES`] the page
/// buffer may exceed its share by half, three per cent of the budget, rather than keep faults from the
/// device. Beyond that faults wait, a second at most.
const WAITS_MAX: usize = 10_000;
/// Batches that one fault unmaps at most.
const BATCHES_MAX: usize = 8;
/// Pages that one page meets in the entry table.
const RIVALS: usize = 16;
/// Slots that one try to evict looks at, at least, and tries beyond those that look at all.
const SLOTS_PER_TRY: usize = 32;
const TRIES_SPARE: usize = 16;
/// How often the writer looks at a slot before it is evicted. Each look costs a look-up of the page, also when almost
/// all pages are clean.
const LOOKS_PER_SLOT: usize = 4;

// ---- Entries -----------------------------------------------------------------

/// Takes a page, and waits while another thread holds it. If the table has no room, one of the page's rivals
/// leaves first.
///
/// # Errors
/// [`FaultError::Again`] after the patience; nothing can leave.
pub(crate) fn hold_in_fault<'a>(
    pages: &'a Pages,
    page: PageId,
    patience: &mut Patience,
) -> Result<Held<'a>, FaultError> {
    loop {
        match pages.residence.try_hold_any(page) {
            Ok(Some(held)) => return Ok(held),
            Ok(None) => patience.wait_in_fault(page, Reason::Moving)?,
            Err(TableFull) => {
                evict_rival_in_fault(pages, page, &mut patience.writer)?;
                wait_in_fault(pages, page, patience)?;
            }
        }
    }
}

/// Has one of the pages leave whose entry this one could have.
///
/// # Errors
/// Nothing can be written back any more.
pub(crate) fn evict_rival_in_fault(
    pages: &Pages,
    page: PageId,
    wait: &mut WriterWait,
) -> Result<(), FaultError> {
    let mut rivals = [page; RIVALS];
    let mut count = 0;
    let mut dirty = None;
    let (mut mapped_whole, mut mapped) = ([page; RIVALS], 0);
    pages.residence.for_each_rival(page, &mut |rival, entry| {
        if may_leave(entry) && pages.is_whole(rival) {
            mapped_whole[mapped % RIVALS] = rival;
            mapped += 1;
        }
        if entry.state() == State::Cached && count < RIVALS {
            rivals[count] = rival;
            count += 1;
            dirty = dirty.or_else(|| entry.is_dirty().then_some(rival));
        }
    });
    // Each time from another one on, or the newest of them would always be the one to leave.
    rivals[..count].rotate_left(pages.residence.evicted() as usize % count.max(1));
    if rivals[..count].iter().any(|&rival| pages.residence.evict(rival)) {
        return Ok(());
    }
    match dirty {
        Some(rival) => {
            pages.backing.want_written(rival);
            wait_for_writer_in_fault(pages, page, wait)
        }
        None => {
            // Each time another one, or two neighbours that one instruction needs would evict each other for ever.
            match mapped.min(RIVALS) {
                0 => leave_oldest_in_fault(pages),
                mapped => {
                    let turn = pages.counters.faults.sum() as usize % mapped;
                    leave_one_in_fault(pages, mapped_whole[turn]);
                }
            }
            Ok(())
        }
    }
}

// ---- Slots -------------------------------------------------------------------

/// A slot for a page that is not in RAM, whose entry the caller holds.
///
/// # Errors
/// Nothing can leave RAM any more; [`FaultError::Again`] after the patience.
pub(crate) fn allocate_slot_in_fault(
    pages: &Pages,
    class: Class,
    page: PageId,
    patience: &mut Patience,
) -> Result<SlotId, FaultError> {
    let residence = &pages.residence;
    // Each try looks at some of the slots. When nothing is written any more, few have clean pages: all are looked at.
    let mut tries_left = residence.slots(class) / SLOTS_PER_TRY + TRIES_SPARE;
    loop {
        let evicted = residence.evicted();
        if let Some(slot) = residence.allocate_slot(class, page) {
            let period = (residence.slots_ahead(class) / LOOKS_PER_SLOT) as u64;
            // While none leaves RAM nothing is to be written.
            let is_next = evicted / period != residence.evicted() / period;
            if is_next && residence.has_dirty() {
                pages.backing.want_writer();
            } else if residence.compresses() && residence.wants_compression() == Some(Lack::Urgent) {
                pages.backing.want_compressor();
            }
            return Ok(slot);
        }
        unmap_wanted_in_fault(pages, class);
        unmap_due_in_fault(pages);
        match wait_for_writer_in_fault(pages, page, &mut patience.writer) {
            Err(FaultError::Stopped { .. }) if tries_left > 0 => tries_left -= 1,
            waited => waited?,
        }
        wait_in_fault(pages, page, patience)?;
    }
}

/// Has the mapped pages of the slab that `class` waits for leave their addresses.
pub(crate) fn unmap_wanted_in_fault(pages: &Pages, class: Class) {
    let (mut next, mut count) = ([PageId(0); BATCH], 0);
    pages.residence.for_each_wanted(Some(class), &mut |page| {
        if pages.residence.find(page).is_some_and(may_leave) {
            next[count] = page;
            count += 1;
        }
        if count == BATCH {
            leave_all_in_fault(pages, &next);
            count = 0;
        }
    });
    leave_all_in_fault(pages, &next[..count]);
}

// ---- Places at addresses -----------------------------------------------------

/// Has small pages leave until the page buffer has room for `more` and a page table.
///
/// A part of it is for pages that are on their way out in other threads. Beyond that, wait for them.
pub(crate) fn make_for_small_in_fault(pages: &Pages, more: usize) {
    let share = pages.residence.page_buffer_units();
    let (limit, most) = (share - share / LEAVING, share / 2 * 3);
    let mut backoff = Backoff::new();
    let (mut evictions, mut waits) = (0, 0);
    // Bounded: pinned and busy pages may keep it full for a while; the page queue has some slack.
    while evictions < TRIES && waits < WAITS_MAX {
        let used = pages.residence.buffered() + pages.mapping.live_ranges() + more;
        let mapped = used + pages.residence.leaving();
        if used >= limit || pages.mapping.excess() > 0 {
            leave_oldest_in_fault(pages);
            evictions += 1;
        } else if mapped < share || (waits >= TRIES && mapped < most) {
            return;
        } else {
            backoff.wait();
            waits += 1;
        }
    }
}

/// Has whole pages leave their addresses, so that evictions find some that are not mapped.
pub(crate) fn unmap_due_in_fault(pages: &Pages) {
    let residence = &pages.residence;
    for _ in 0..BATCHES_MAX {
        let due = residence.unmapping_due();
        // A few less cost a call to the kernel for a few pages.
        if due == 0 || (due < BATCH && due < residence.slots(Class::WHOLE) / 16) {
            break;
        }
        let mut next = [PageId(0); BATCH];
        let count = residence.next_to_unmap(due, &mut next);
        next[..count].sort_unstable();
        leave_all_in_fault(pages, &next[..count]);
        // Pages that do not come back are evicted soon, and should be clean by then.
        if residence.has_dirty() {
            pages.backing.want_writer();
        }
    }
    free_page_tables_in_fault(pages);
    free_mappings_in_fault(pages);
}

/// Pages that are at their addresses by mappings of their own can be more than the kernel has mappings. Then some go to their slots, a batch more than must.
fn free_mappings_in_fault(pages: &Pages) {
    let excess = pages.mapping.excess();
    if excess == 0 {
        return;
    }
    let mut next = [PageId(0); BATCH];
    for _ in 0..BATCHES_MAX.min(excess.div_ceil(BATCH)) {
        let slots = pages.residence.slots(Class::WHOLE);
        let count = pages.residence.next_to_unmap(slots, &mut next);
        leave_all_in_fault(pages, &next[..count]);
    }
}

/// The page tables of thinly spread pages can take more RAM than their share. Then ranges are emptied, all pages of each,
/// beginning with those of the pages whose turn it is.
fn free_page_tables_in_fault(pages: &Pages) {
    let share = pages.residence.page_buffer_units() / 4 * 3;
    let mut next = [PageId(0); 1];
    for _ in 0..BATCHES_MAX {
        if pages.mapping.live_ranges() < share
            || pages.residence.next_to_unmap(pages.residence.slots(Class::WHOLE), &mut next) == 0
        {
            return;
        }
        let (mut of_leaf, mut count) = ([PageId(0); BATCH], 0);
        pages.residence.for_each_of_leaf(next[0].leaf(), &mut |page, entry| {
            if entry.state() == State::Mapped && count < BATCH {
                of_leaf[count] = page;
                count += 1;
            }
        });
        leave_all_in_fault(pages, &of_leaf[..count]);
    }
}

// ---- Waits -------------------------------------------------------------------

/// Has the writer make a pass, for a fault that cannot go on before that; to be called again until it can.
///
/// # Errors
/// Nothing can be written back any more.
pub(crate) fn wait_for_writer_in_fault(
    pages: &Pages,
    page: PageId,
    wait: &mut WriterWait,
) -> Result<(), FaultError> {
    pages.backing.wait_for_writer_in_fault(page, wait)?;
    pages.counters.writer_waits.add(1);
    Ok(())
}

/// Waits a little for RAM.
///
/// # Errors
/// [`FaultError::Again`] when it was long enough.
pub(crate) fn wait_in_fault(pages: &Pages, page: PageId, patience: &mut Patience) -> Result<(), FaultError> {
    let began_ns = process::monotonic_ns();
    let waited = patience.wait_for_room_in_fault(page, || is_crowded(pages, page));
    pages.residence.note_room_wait(process::monotonic_ns() - began_ns);
    waited
}

/// Whether all slots for pages like this one are held by references and pins. Looks at all slots.
fn is_crowded(pages: &Pages, page: PageId) -> bool {
    let class_of = |page: PageId| pages.backing.size_of(page.leaf()).map(|size| size.class);
    let class = class_of(page);
    let mut is_free = false;
    pages.residence.for_each_slot(&mut |_, owner| {
        let is_like = class_of(owner) == class;
        is_free |= is_like && pages.residence.find(owner).is_some_and(|entry| !entry.is_pinned());
    });
    !is_free
}
