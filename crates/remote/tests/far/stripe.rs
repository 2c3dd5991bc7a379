//! Slabs of data and of parity: whatever donors do, no byte is wrong, and none is lost while no more of them are gone than there is parity.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use aquifer_device::{Device, ReadRequest};
use aquifer_remote::far::{Code, FarCounters, FarDevice, PAGE_BYTES, Slabs};
use aquifer_remote::transport::fake::Behaviour;

use crate::donors::{
    DEVICE_BYTES, Donors, SLAB_BYTES, Several, filled, flash, options, read, wait_until, write,
};
use crate::model::Dice;

const PAGES: u64 = DEVICE_BYTES / PAGE_BYTES as u64;

fn stripe(code: &str, local: Arc<dyn Device>, donors: &Arc<Several>) -> FarDevice {
    let code = Code::parse(code).expect("a code");
    FarDevice::new(local, Arc::clone(donors) as Arc<dyn Slabs>, &options(code, false)).expect("threads")
}

/// A stripe of which all groups are used and whole; each page says which it is.
fn whole(code: &str, donors: &Arc<Several>) -> FarDevice {
    let stripe = stripe(code, flash(), donors);
    (0..PAGES).for_each(|page| write(&stripe, page, page as u8));
    wait_until(&stripe, "all slabs are there", |stripe| stripe.placed().0 == stripe.placed().1);
    // What was written before there were slabs is on flash as well.
    (0..PAGES).for_each(|page| write(&stripe, page, byte(page)));
    stripe
}

fn byte(page: u64) -> u8 {
    page as u8 ^ 0x55
}

/// Reads all pages, and says what that took.
fn read_all(stripe: &FarDevice) -> FarCounters {
    let before = stripe.counters();
    (0..PAGES).for_each(|page| assert_eq!(read(stripe, page), byte(page), "page {page}"));
    let after = stripe.counters();
    FarCounters {
        remote_reads: after.remote_reads - before.remote_reads,
        decoded_reads: after.decoded_reads - before.decoded_reads,
        buffer_reads: after.buffer_reads - before.buffer_reads,
        flash_reads: after.flash_reads - before.flash_reads,
        ..after
    }
}

#[test]
fn codes_are_named_by_their_slabs() {
    assert_eq!(Code::parse("4+2").map(|code| (code.data, code.parity, code.slabs())), Some((4, 2, 6)));
    for text in ["", "4", "4+", "+2", "1+1", "4+0", "17+2", "4+5", "4 + 2", "a+b"] {
        assert_eq!(Code::parse(text), None, "{text}");
    }
}

#[test]
fn pages_come_from_donors_and_flash_is_not_written() {
    let donors = Several::new(3);
    let stripe = whole("2+1", &donors);
    let counters = read_all(&stripe);
    assert_eq!((counters.remote_reads, counters.decoded_reads), (PAGES, 0));
    assert_eq!(donors.0.iter().map(|donor| donor.lent().len()).sum::<usize>(), 3 * PAGES as usize / 64);
}

#[test]
fn neighbours_of_a_batch_are_one_transfer() {
    let donors = Several::new(3);
    let stripe = whole("2+1", &donors);
    let reads = |donor: &Arc<Donors>| donor.lent()[0].link().traffic().so_far().reads;
    let transfers = || donors.0.iter().map(reads).sum::<u64>();
    let (before, counters) = (transfers(), stripe.counters());
    let mut got = filled(0, PAGES as usize);
    // Those of different slabs in turn.
    let pages = (0..PAGES).zip(got.chunks_exact_mut(PAGE_BYTES));
    let mut requests: Vec<_> =
        pages.map(|(page, bytes)| ReadRequest::new(page * PAGE_BYTES as u64, bytes)).collect();
    for batch in requests.chunks_mut(64) {
        batch.sort_by_key(|request| request.offset / PAGE_BYTES as u64 % 7);
        stripe.read_batch(batch);
    }
    requests.iter().for_each(|request| request.result.expect("read"));
    for (page, bytes) in (0..PAGES).zip(got.chunks_exact(PAGE_BYTES)) {
        assert!(bytes.iter().all(|found| *found == byte(page)), "page {page}");
    }
    assert_eq!(stripe.counters().remote_reads - counters.remote_reads, PAGES);
    assert_eq!(transfers() - before, DEVICE_BYTES / SLAB_BYTES, "a slab each, of 128 KiB");
}

#[test]
fn lost_donors_are_made_up_for_by_the_others() {
    for (code, lost) in [("2+1", vec![0]), ("2+2", vec![0, 3]), ("3+2", vec![1, 2]), ("3+1", vec![3])] {
        let count = Code::parse(code).expect("a code").slabs();
        let donors = Several::new(count as u64);
        let stripe = whole(code, &donors);
        for donor in lost {
            donors.0[donor].lends.store(false, Ordering::Relaxed);
            donors.0[donor].donor.behave(Behaviour::Failing(-libc::ENOTCONN));
        }
        read_all(&stripe);
        assert_eq!(stripe.counters().lost_pages, 0, "{code}");
        // What is written now goes to flash as well, and comes back.
        (0..PAGES).for_each(|page| write(&stripe, page, byte(page)));
        read_all(&stripe);
        assert!(stripe.counters().lost_slabs > 0, "{code}: {:?}", stripe.counters());
    }
}

#[test]
fn new_donors_get_what_the_lost_ones_had() {
    let donors = Several::new(5);
    donors.0[3].lends.store(false, Ordering::Relaxed);
    donors.0[4].lends.store(false, Ordering::Relaxed);
    let stripe = whole("2+1", &donors);
    donors.0[0].lends.store(false, Ordering::Relaxed);
    donors.0[0].donor.behave(Behaviour::Failing(-libc::ENOTCONN));
    donors.0[3].lends.store(true, Ordering::Relaxed);
    read_all(&stripe);
    wait_until(&stripe, "the fourth donor has taken over", |stripe| {
        stripe.placed().0 == stripe.placed().1 && !donors.0[3].lent().is_empty()
    });
    assert_eq!(read_all(&stripe).remote_reads, PAGES);
    // And once more, so that what was rebuilt is what others are rebuilt from.
    donors.0[1].lends.store(false, Ordering::Relaxed);
    donors.0[1].donor.behave(Behaviour::Failing(-libc::ENOTCONN));
    donors.0[4].lends.store(true, Ordering::Relaxed);
    read_all(&stripe);
    wait_until(&stripe, "the fifth donor has taken over", |stripe| {
        stripe.placed().0 == stripe.placed().1 && !donors.0[4].lent().is_empty()
    });
    assert_eq!(read_all(&stripe).remote_reads, PAGES);
    assert_eq!(stripe.counters().lost_pages, 0);
}

#[test]
fn slabs_that_are_asked_back_are_moved_or_saved() {
    let donors = Several::new(4);
    donors.0[3].lends.store(false, Ordering::Relaxed);
    let stripe = whole("2+1", &donors);
    donors.0[3].lends.store(true, Ordering::Relaxed);
    donors.0[0].ask_back();
    wait_until(&stripe, "the slabs are given back", |_| donors.0[0].lent().is_empty());
    wait_until(&stripe, "all slabs are there", |stripe| stripe.placed().0 == stripe.placed().1);
    assert_eq!(read_all(&stripe).remote_reads, PAGES);
    // Nobody is left who could take what these have: it goes to flash.
    donors.0[1].ask_back();
    donors.0[2].ask_back();
    donors.0[3].ask_back();
    wait_until(&stripe, "all slabs are given back", |_| donors.0.iter().all(|donor| donor.lent().is_empty()));
    let counters = read_all(&stripe);
    assert_eq!(counters.remote_reads + counters.decoded_reads, 0);
    assert_eq!(stripe.counters().lost_slabs, 0);
}

#[test]
fn wrong_bytes_are_noticed_and_made_up_for() {
    let donors = Several::new(3);
    let stripe = whole("2+1", &donors);
    donors.0[1].lends.store(false, Ordering::Relaxed);
    donors.0[1].donor.behave(Behaviour::Flipping);
    read_all(&stripe);
    let counters = stripe.counters();
    assert!(counters.wrong_pages > 0, "{counters:?}");
    assert_eq!(counters.lost_pages, 0);
}

#[test]
fn more_losses_than_parity_are_told() {
    let donors = Several::new(3);
    let stripe = whole("2+1", &donors);
    for donor in &donors.0 {
        donor.lends.store(false, Ordering::Relaxed);
        donor.donor.behave(Behaviour::Failing(-libc::ENOTCONN));
    }
    let mut buffer = filled(0, 1);
    let outcomes: Vec<_> =
        (0..PAGES).map(|page| stripe.read_at(page * PAGE_BYTES as u64, &mut buffer)).collect();
    assert!(outcomes.iter().any(Result::is_err));
    assert!(stripe.counters().lost_pages > 0);
    // What is written again is there again.
    (0..PAGES).for_each(|page| write(&stripe, page, byte(page)));
    read_all(&stripe);
    for donor in &donors.0 {
        donor.donor.resume();
        donor.lends.store(true, Ordering::Relaxed);
    }
    wait_until(&stripe, "all slabs are there", |stripe| stripe.placed().0 == stripe.placed().1);
    assert_eq!(read_all(&stripe).remote_reads, PAGES);
}

#[test]
fn what_flash_had_is_read_and_discarded_pages_are_flash() {
    let (local, donors) = (flash(), Several::new(3));
    local.write_at(0, &filled(9, 4)).expect("write");
    let stripe = stripe("2+1", local, &donors);
    assert_eq!(read(&stripe, 3), 9);
    write(&stripe, 0, 1);
    wait_until(&stripe, "the first group is there", |stripe| stripe.placed() == (1, 1));
    assert_eq!((read(&stripe, 0), read(&stripe, 3)), (1, 9));
    write(&stripe, 3, 2);
    stripe.discard(3 * PAGE_BYTES as u64, PAGE_BYTES as u64).expect("discard");
    assert_ne!(read(&stripe, 3), 2, "the old bytes do not come back");
    write(&stripe, 3, 7);
    assert_eq!((read(&stripe, 0), read(&stripe, 3)), (1, 7));
}

#[test]
fn threads_share_rows() {
    let donors = Several::new(5);
    let stripe = stripe("2+2", flash(), &donors);
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let stripe = &stripe;
            scope.spawn(move || {
                // Every fourth page is this thread's: all rows are shared.
                let (mut dice, mut model) = (Dice(thread), vec![0u8; PAGES as usize / 4]);
                for round in 0..2000u64 {
                    let nth = dice.below(PAGES / 4);
                    let page = 4 * nth + thread;
                    if dice.below(2) == 0 {
                        write(stripe, page, round as u8);
                        model[nth as usize] = round as u8;
                    } else {
                        assert_eq!(read(stripe, page), model[nth as usize], "thread {thread} round {round}");
                    }
                }
            });
        }
        scope.spawn(|| {
            for round in 0..20 {
                let donor = &donors.0[round % 5];
                donor.donor.behave(Behaviour::Failing(-libc::ENOTCONN));
                std::thread::sleep(std::time::Duration::from_millis(30));
                donor.donor.resume();
                std::thread::sleep(std::time::Duration::from_millis(150));
            }
        });
    });
}

#[test]
fn writers_of_one_row_leave_parity_that_is_right() {
    let donors = Several::new(3);
    let stripe = whole("2+1", &donors);
    // Whose a page is follows no pattern, so that the pages of each parity page have several writers.
    let writer = |page: u64| page.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 62;
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let stripe = &stripe;
            scope.spawn(move || {
                for round in 0..20 {
                    let own = (0..PAGES).filter(|page| writer(*page) == thread);
                    own.for_each(|page| write(stripe, page, byte(page).wrapping_add(19 - round)));
                }
            });
        }
    });
    read_all(&stripe);
    donors.0[0].lends.store(false, Ordering::Relaxed);
    donors.0[0].donor.behave(Behaviour::Failing(-libc::ENOTCONN));
    assert!(read_all(&stripe).decoded_reads > 0);
    let counters = stripe.counters();
    assert_eq!((counters.wrong_pages, counters.lost_pages), (0, 0));
}
