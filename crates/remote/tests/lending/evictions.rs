//! A donor that needs its RAM itself.

use std::time::Duration;

use aquifer_remote::donor::DonorOptions;
use aquifer_remote::donor::deed::What;
use aquifer_remote::events::Events;
use aquifer_remote::far::Slabs;

use crate::fixture::{
    borrower, donor, donor_options, is_there, mirror, read_all, wait_for_donors, wait_until, write_all,
};

#[test]
fn a_slab_moves_to_another_donor() {
    if !is_there() {
        return;
    }
    let (first, second) = (donor(donor_options(4)), donor(donor_options(8)));
    let borrower = borrower(&[&first, &second]);
    let mirror = mirror(&borrower, 4);
    write_all(&mirror, 1);
    wait_for_donors(&mirror, 1);
    wait_until("the first donor has lent something", || {
        write_all(&mirror, 1);
        first.now().lent > 0 || {
            second.evict(1);
            false
        }
    });
    let lent = first.now().lent;
    first.evict(4);
    wait_until("it has nothing lent", || first.now().lent == 0);
    let now = first.now();
    assert_eq!((now.evicted, now.forced), (lent, 0), "{now:?}");
    let done = deeds(first.deeds());
    assert_eq!(done.iter().filter(|what| **what == What::GivenBack).count() as u64, lent, "{done:?}");
    read_all(&mirror, 1);
    assert_eq!(mirror.counters().lost_slabs, 0);
}

#[test]
fn with_no_other_donor_flash_has_it() {
    if !is_there() {
        return;
    }
    let only = donor(donor_options(2));
    let mirror = mirror(&borrower(&[&only]), 2);
    write_all(&mirror, 3);
    wait_for_donors(&mirror, 3);
    only.evict(2);
    wait_until("slabs were freed", || only.now().evicted + only.now().forced >= 2);
    read_all(&mirror, 3);
    write_all(&mirror, 4);
    read_all(&mirror, 4);
}

#[test]
fn a_borrower_that_does_not_leave_is_cut_off() {
    if !is_there() {
        return;
    }
    let donor = donor(DonorOptions { leave_within: Duration::from_millis(200), ..donor_options(1) });
    let borrower = borrower(&[&donor]);
    // Nobody looks after this slab.
    let home = Slabs::find(&*borrower, crate::fixture::SLAB_BYTES, &[]).expect("a slab");
    donor.evict(1);
    wait_until("it was forced", || donor.now().forced == 1 && donor.now().lent == 0);
    // Over a network at once. Memory that is mapped shows zeros until the borrower knows.
    wait_until("the borrower reads nothing", || home.read(0, &mut [0; 4096]).is_err());
    let done = deeds(donor.deeds());
    // The borrower connects again meanwhile.
    assert!(
        done.starts_with(&[What::Came, What::Lent, What::AskedBack, What::Forced, What::TakenBack]),
        "{done:?}"
    );
}

fn deeds(deeds: &Events<aquifer_remote::donor::deed::Deed>) -> Vec<What> {
    deeds.since(0).iter().map(|entry| entry.event.what).collect()
}
