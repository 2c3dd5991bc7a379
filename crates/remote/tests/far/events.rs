//! What is told of slabs.

use std::sync::atomic::Ordering;

use aquifer_remote::far::{DonorId, FarDevice, What};
use aquifer_remote::transport::fake::Behaviour;

use crate::donors::{Donors, Several, flash, mirror, mirror_of_two, read, wait_until, write};

/// What happened to the slabs of a part, in order, with their donors.
fn of_part(mirror: &FarDevice, part: usize) -> Vec<(What, u64)> {
    let events = mirror.events().since(0).into_iter().map(|entry| entry.event);
    events.filter(|event| event.part == Some(part)).map(|event| (event.what, event.donor.0)).collect()
}

fn is_placed(mirror: &FarDevice) -> bool {
    mirror.placed().0 > 0 && mirror.placed().1 == mirror.placed().0
}

#[test]
fn a_slab_is_lent_filled_asked_back_and_left() {
    let donors = Donors::new();
    let mirror = mirror(flash(), &donors);
    write(&mirror, 0, 1);
    wait_until(&mirror, "the part has its slab", is_placed);
    assert_eq!(of_part(&mirror, 0), [(What::SlabLent, 0), (What::SlabFilled, 0)]);
    donors.ask_back();
    wait_until(&mirror, "the slab is left", |mirror| {
        of_part(mirror, 0).ends_with(&[(What::SlabAskedBack, 0), (What::SlabLeft, 0)])
    });
    assert_eq!(of_part(&mirror, 0).len(), 4, "each is told once");
    assert_eq!(of_part(&mirror, 1), [], "other parts were not used");
    assert_eq!(read(&mirror, 0), 1);
}

#[test]
fn a_loss_says_why_and_another_slab_follows() {
    for (behaviour, why) in [
        (Behaviour::Failing(-libc::EIO), "the connection to the donor failed"),
        (Behaviour::Silent, "did not answer within 100 ms"),
        (Behaviour::Flipping, "other bytes"),
    ] {
        let donors = Donors::new();
        let mirror = mirror(flash(), &donors);
        write(&mirror, 32, 1);
        wait_until(&mirror, "the part has its slab", is_placed);
        donors.lends.store(false, Ordering::Relaxed);
        donors.donor.behave(behaviour);
        assert_eq!(read(&mirror, 32), 1);
        wait_until(&mirror, "the slab is lost", |mirror| {
            of_part(mirror, 1).ends_with(&[(What::SlabLost, 0)])
        });
        let lost = mirror.events().since(0).pop().expect("an event").event;
        let said = lost.why.expect("a reason");
        assert!(said.as_str().contains(why), "{said:?}");
        donors.donor.resume();
        donors.lends.store(true, Ordering::Relaxed);
        wait_until(&mirror, "there is another one", is_placed);
        let expected = [What::SlabLent, What::SlabFilled, What::SlabLost, What::SlabLent, What::SlabFilled]
            .map(|what| (what, 0));
        assert_eq!(of_part(&mirror, 1), expected);
    }
}

#[test]
fn each_of_two_donors_has_events_of_its_own() {
    let donors = Several::new(3);
    let mirror = mirror_of_two(flash(), &donors);
    write(&mirror, 0, 1);
    wait_until(&mirror, "the part has its slabs", is_placed);
    donors.0[0].ask_back();
    wait_until(&mirror, "the slab is left", |mirror| of_part(mirror, 0).contains(&(What::SlabLeft, 0)));
    let told = of_part(&mirror, 0);
    let at = |what, donor| told.iter().position(|event| *event == (what, donor)).expect("it was told");
    assert!(at(What::SlabLent, 0) < at(What::SlabAskedBack, 0));
    assert!(at(What::SlabLent, 2) < at(What::SlabLeft, 0), "the third has it before the first one is left");
    assert!(!told.contains(&(What::SlabAskedBack, 1)), "{told:?}");
    let entries = mirror.events().since(0);
    assert!(entries.iter().zip(0..).all(|(entry, number)| entry.number == number));
    assert!(entries.is_sorted_by_key(|entry| entry.after) && entries[0].event.donor == DonorId(0));
}
