//! Too few slabs for all who want some.

use std::sync::Arc;

use aquifer_remote::borrower::{Borrower, BorrowerOptions};
use aquifer_remote::donor::Donor;
use aquifer_remote::far::FarDevice;

use crate::fixture::{
    borrower_options, donor, donor_options, is_there, mirror, read_all, wait_until, write_all,
};

const SLABS: u64 = 8;

/// A borrower that wants all slabs of a donor.
fn greedy(donor: &Donor, name: &str, weight: u32) -> FarDevice {
    let options = BorrowerOptions { name: name.into(), weight, ..borrower_options(&[donor]) };
    let mirror = mirror(&Arc::new(Borrower::start(options).expect("a donor")), SLABS);
    write_all(&mirror, 1);
    mirror
}

fn slabs_of(donor: &Donor, name: &str) -> u64 {
    donor.borrowers().iter().find(|one| one.name == name).map_or(0, |one| one.slabs)
}

#[test]
fn each_has_its_share_and_nobody_loses_a_byte() {
    if !is_there() {
        return;
    }
    for (weight, first_has) in [(100, 4), (300, 2)] {
        let donor = donor(donor_options(SLABS));
        let first = greedy(&donor, "first", 100);
        wait_until("the first has all", || slabs_of(&donor, "first") == SLABS);
        let second = greedy(&donor, "second", weight);
        wait_until("both have their share", || {
            read_all(&first, 1);
            read_all(&second, 1);
            (slabs_of(&donor, "first"), slabs_of(&donor, "second")) == (first_has, SLABS - first_has)
        });
        drop(second);
        wait_until("what is free again is the first's", || slabs_of(&donor, "first") == SLABS);
        read_all(&first, 1);
    }
}
