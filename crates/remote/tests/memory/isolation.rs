//! What a borrower keeps of memory that is not its any more.

use std::sync::Arc;

use aquifer_remote::control::{Refusal, Role};
use aquifer_remote::donor::DonorOptions;
use aquifer_remote::far::Slabs;

use crate::fixture::{SLAB_BYTES, borrower, donor, donor_options, wait_until};
use crate::security::greet_as;

#[test]
fn a_slab_that_is_lent_again_is_other_memory() {
    let donor = donor(donor_options(1));
    let (first, second) = (borrower(&[&donor]), borrower(&[&donor]));
    let home = first.find(SLAB_BYTES, &[]).expect("a slab");
    let (place, link) = (home.place(), Arc::clone(home.link()));
    home.write(&[0x5e; 4096], 0).expect("write");
    drop(home);
    wait_until("the slab has come back", || donor.now().lent == 0);
    // The donor makes new memory for it first.
    let mut again = None;
    wait_until("it is lent again", || {
        again = again.take().or_else(|| second.find(SLAB_BYTES, &[]));
        again.is_some()
    });
    let again = again.expect("a slab");
    let mut page = [9; 4096];
    again.read(0, &mut page).expect("read");
    assert_eq!(page, [0; 4096], "it is zeros");
    again.write(&[0x7a; 4096], 0).expect("write");
    // The first borrower may have kept what it was given, and sees nothing of the second.
    if link.read(place, &mut page).is_ok() {
        assert_eq!(page, [0; 4096]);
    }
}

#[test]
fn other_machines_are_refused_before_they_try() {
    let donor = donor(DonorOptions { lends_to_own_machine: true, ..donor_options(1) });
    let answer = greet_as(&donor, "another machine".into(), Role::Calls);
    assert_eq!(answer, Err(Refusal::OtherMachine));
}
