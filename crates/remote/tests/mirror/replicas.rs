//! Two slabs, and flash for what they have no room for.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use aquifer_device::{Counted, Device};
use aquifer_remote::mirror::{Mirror, PAGE_BYTES};
use aquifer_remote::transport::fake::Behaviour;

use crate::donors::{DEVICE_BYTES, Several, filled, flash, mirror_of_two, read, wait_until, write};

const PAGES: u64 = DEVICE_BYTES / PAGE_BYTES as u64;

/// Writes all pages twice: the second time to two donors alone.
fn written(donors: &Arc<Several>, local: Arc<dyn Device>) -> Mirror {
    let mirror = mirror_of_two(local, donors);
    (0..PAGES).for_each(|page| write(&mirror, page, page as u8));
    wait_until(&mirror, "all parts have two slabs", |mirror| mirror.placed().1 == mirror.placed().0);
    (0..PAGES).for_each(|page| write(&mirror, page, page as u8 ^ 0x55));
    mirror
}

fn is_whole(mirror: &Mirror) {
    (0..PAGES).for_each(|page| assert_eq!(read(mirror, page), page as u8 ^ 0x55, "page {page}"));
}

fn fail(donors: &Several, which: usize) {
    donors.0[which].lends.store(false, Ordering::Relaxed);
    donors.0[which].donor.behave(Behaviour::Failing(-libc::ENOTCONN));
}

#[test]
fn flash_is_not_written_where_two_donors_have_it() {
    let (donors, local) = (Several::new(2), Arc::new(Counted::new(flash())));
    let mirror = mirror_of_two(Arc::clone(&local) as Arc<dyn Device>, &donors);
    (0..PAGES).for_each(|page| write(&mirror, page, 1));
    wait_until(&mirror, "all parts have two slabs", |mirror| mirror.placed().1 == mirror.placed().0);
    mirror.sync().expect("sync");
    let before = local.counters();
    (0..PAGES).for_each(|page| write(&mirror, page, page as u8 ^ 0x55));
    mirror.sync().expect("sync");
    is_whole(&mirror);
    assert_eq!(local.counters().since(&before).writes, 0);
}

#[test]
fn one_of_two_donors_is_lost_and_the_other_copied() {
    for lost in [0, 1] {
        let donors = Several::new(3);
        let mirror = written(&donors, flash());
        fail(&donors, lost);
        is_whole(&mirror);
        // Reads need one of the two; a write of each part notices the other.
        (0..PAGES).step_by(32).for_each(|page| write(&mirror, page, page as u8 ^ 0x55));
        wait_until(&mirror, "copied to the third", |mirror| {
            is_whole(mirror);
            mirror.placed().1 == mirror.placed().0
        });
        // Once more, of the two that are left.
        std::thread::sleep(std::time::Duration::from_millis(300));
        fail(&donors, 1 - lost);
        is_whole(&mirror);
        (0..PAGES).for_each(|page| write(&mirror, page, page as u8 ^ 0x55));
        is_whole(&mirror);
        assert_eq!(mirror.counters().lost_pages, 0);
    }
}

#[test]
fn what_both_lose_at_once_is_an_error_and_no_wrong_byte() {
    let donors = Several::new(2);
    let mirror = written(&donors, flash());
    fail(&donors, 0);
    fail(&donors, 1);
    let mut page = filled(0, 1);
    for at in 0..PAGES {
        mirror.read_at(at * PAGE_BYTES as u64, &mut page).expect_err("nobody has it");
    }
    assert_eq!(mirror.counters().lost_pages, PAGES);
    // What is written from now on is on flash.
    (0..PAGES).for_each(|page| write(&mirror, page, page as u8 ^ 0x55));
    is_whole(&mirror);
}

#[test]
fn without_donors_it_is_flash() {
    let donors = Several::new(0);
    let mirror = mirror_of_two(flash(), &donors);
    (0..PAGES).for_each(|page| write(&mirror, page, page as u8 ^ 0x55));
    is_whole(&mirror);
    mirror.sync().expect("sync");
    assert_eq!(mirror.counters().remote_writes, 0);
}
