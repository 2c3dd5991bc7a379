use aquifer_base::limits::OS_PAGE_BYTES;
use aquifer_base::{AllocationClass, LeafId};

use super::*;
use crate::leave::Batch;
use crate::leave::tests::engine_of;
use crate::{Engine, PinError};

const LEAF: LeafId = LeafId(0);

fn engine() -> Option<Engine> {
    let engine = engine_of(OS_PAGE_BYTES)?;
    engine.give_out_leaf(LEAF, OS_PAGE_BYTES, AllocationClass::DEFAULT);
    Some(engine)
}

fn bring(engine: &Engine, page: PageId, access: Access) {
    resolve_in_fault(engine.pages(), page, access).expect("resolved");
}

/// Takes a page from its address to its slot; returns whether it counts as written.
fn leaves_dirty(engine: &Engine, page: PageId) -> bool {
    let mut batch = Batch::new(engine.pages());
    assert!(batch.take_in_fault(page), "it is mapped and not pinned");
    batch.leave_in_fault();
    engine.pages().residence.find(page).expect("it is in its slot").is_dirty()
}

fn is_writable(engine: &Engine, page: PageId) -> bool {
    engine.pages().residence.find(page).expect("it is in RAM").is_writable()
}

/// The page must be mapped writable.
fn write(engine: &Engine, page: PageId, at: usize, byte: u8) {
    assert!(is_writable(engine, page));
    // SAFETY: the page is mapped writable, and nothing evicts it here.
    unsafe { engine.address_of(page).add(at).write_volatile(byte) };
}

fn byte_of(engine: &Engine, page: PageId, at: usize) -> u8 {
    bring(engine, page, Access::Read);
    // SAFETY: the page is mapped, and nothing evicts it here.
    unsafe { engine.address_of(page).add(at).read_volatile() }
}

#[test]
fn a_page_that_may_be_written_is_clean_until_it_was() {
    let Some(engine) = engine() else { return };
    let page = LEAF.page(7);
    bring(&engine, page, Access::MayWrite);
    assert!(!leaves_dirty(&engine, page), "nobody wrote");
    bring(&engine, page, Access::MayWrite);
    write(&engine, page, 4095, 1);
    write(&engine, page, 4095, 0);
    assert!(!leaves_dirty(&engine, page), "the bytes are what they were");
    bring(&engine, page, Access::MayWrite);
    write(&engine, page, 4095, 1);
    assert!(leaves_dirty(&engine, page));
    assert_eq!(byte_of(&engine, page, 4095), 1);
    assert!(is_writable(&engine, page), "it is dirty whatever happens to it");
    write(&engine, page, 4095, 0);
    assert!(leaves_dirty(&engine, page), "flash has other bytes, or none");
    assert_eq!(byte_of(&engine, page, 4095), 0);
}

#[test]
fn a_page_that_is_written_has_no_digest_of_an_earlier_time() {
    let Some(engine) = engine() else { return };
    let page = LEAF.page(8);
    bring(&engine, page, Access::MayWrite);
    assert!(!leaves_dirty(&engine, page));
    bring(&engine, page, Access::Write);
    assert!(leaves_dirty(&engine, page), "a write is taken at its word");
    let other = LEAF.page(9);
    bring(&engine, other, Access::Read);
    assert!(!is_writable(&engine, other));
    bring(&engine, other, Access::Write);
    assert!(leaves_dirty(&engine, other), "a first write is as well");
}

#[test]
fn a_page_that_is_pinned_for_a_call_is_clean_unless_the_call_wrote() -> Result<(), PinError> {
    let Some(engine) = engine() else { return Ok(()) };
    for (read_first, page) in [(false, LEAF.page(1)), (true, LEAF.page(2))] {
        if read_first {
            bring(&engine, page, Access::Read);
        }
        engine.pin(page, 1)?;
        assert!(is_writable(&engine, page));
        engine.unpin(page, 1)?;
        assert!(!leaves_dirty(&engine, page), "read first: {read_first}");
        engine.pin(page, 1)?;
        write(&engine, page, 0, 9);
        engine.unpin(page, 1)?;
        assert!(leaves_dirty(&engine, page), "read first: {read_first}");
        assert_eq!(byte_of(&engine, page, 0), 9);
    }
    Ok(())
}

/// Pages that were never written, but for one in the midst of them, are walked through in order.
#[test]
fn fresh_pages_come_along_with_those_that_are_not() {
    for bytes in [128, OS_PAGE_BYTES] {
        let Some(engine) = engine_of(bytes) else { return };
        engine.give_out_leaf(LEAF, bytes, AllocationClass::DEFAULT);
        let old = LEAF.page(40);
        bring(&engine, old, Access::Write);
        write(&engine, old, 3, 77);
        assert!(leaves_dirty(&engine, old));
        let before = engine.counters().faults.sum();
        let stamp = |page: PageId| (page.index() % 200 + 1) as u8;
        let is_mapped = |page: PageId| {
            engine.pages().residence.find(page).is_some_and(|entry| entry.state() == State::Mapped)
        };
        for page in (0..300).map(|index| LEAF.page(index)) {
            if !is_mapped(page) {
                bring(&engine, page, Access::Write);
            }
            let expected = if page == old { 77 } else { 0 };
            // SAFETY: the page is mapped, and nothing evicts it here.
            let found = unsafe { engine.address_of(page).add(3).read_volatile() };
            assert_eq!(found, expected, "{page:?} of {bytes} bytes");
            write(&engine, page, 3, stamp(page));
        }
        let faults = engine.counters().faults.sum() - before;
        assert!(faults < 30, "{faults} faults for 300 pages of {bytes} bytes");
        for page in (0..300).map(|index| LEAF.page(index)) {
            // Others have left by themselves.
            assert!(!is_mapped(page) || leaves_dirty(&engine, page), "{page:?} of {bytes} bytes");
            assert_eq!(byte_of(&engine, page, 3), stamp(page));
        }
    }
}

#[test]
fn parts_of_memory_that_are_written_are_mapped_writable_for_reads() {
    let Some(engine) = engine() else { return };
    for page in (100..140).map(|index| LEAF.page(index)) {
        bring(&engine, page, Access::Read);
        if !is_writable(&engine, page) {
            bring(&engine, page, Access::Write);
        }
        write(&engine, page, 5, 5);
        assert!(leaves_dirty(&engine, page));
    }
    let upgrades = engine.counters().faults_write_upgrade.sum();
    assert!(upgrades <= 4, "{upgrades}");
    // Pages that are only read are seen to be, and protected again after a while.
    let protected = (200..240).map(|index| LEAF.page(index)).filter(|&page| {
        bring(&engine, page, Access::Read);
        let is_protected = !is_writable(&engine, page);
        assert!(!leaves_dirty(&engine, page));
        is_protected
    });
    assert!(protected.count() > 20);
}
