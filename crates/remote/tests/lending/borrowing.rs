//! Slabs come and go, also where there are too few for all who want some.

use std::sync::Arc;

use aquifer_device::Device;
use aquifer_remote::borrower::{Borrower, BorrowerError, BorrowerOptions};
use aquifer_remote::control::Security;
use aquifer_remote::donor::{Donor, DonorError, DonorOptions};
use aquifer_remote::far::{DonorId, FarDevice, PAGE_BYTES, Slabs, What};
use aquifer_remote::transport::TrafficSeen;

use crate::fixture::{
    SLAB_BYTES, SLAB_PAGES, borrower, borrower_options, donor, donor_options, is_built, is_there, mirror,
    read_all, security, wait_for_donors, wait_until, write_all,
};
use crate::network::provider;

#[test]
fn a_device_lies_in_the_ram_of_donors() {
    if !is_there() {
        return;
    }
    let donors = [donor(donor_options(8)), donor(donor_options(8))];
    let borrower = borrower(&[&donors[0], &donors[1]]);
    assert_eq!(borrower.slab_bytes(), SLAB_BYTES);
    let mirror = mirror(&borrower, 8);
    write_all(&mirror, 1);
    wait_for_donors(&mirror, 1);
    write_all(&mirror, 2);
    wait_for_donors(&mirror, 2);
    let lent = donors.each_ref().map(|donor| donor.now().lent);
    assert_eq!(lent.iter().sum::<u64>(), 8);
    assert!(lent.iter().all(|lent| *lent >= 2), "two choices keep donors even: {lent:?}");
    let seen = borrower.donors();
    assert!(seen.iter().all(|donor| donor.provider == Some(provider()) && donor.slabs >= 2), "{seen:?}");
    drop(mirror);
    wait_until("slabs are back", || donors.iter().all(|donor| donor.now().lent == 0));
    wait_until("and can be lent again", || borrower.find(SLAB_BYTES, &[]).is_some());
}

#[test]
fn traffic_is_counted_for_each_donor() {
    if !is_there() {
        return;
    }
    let donors = [donor(donor_options(4)), donor(donor_options(4))];
    let borrower = borrower(&[&donors[0], &donors[1]]);
    let mirror = mirror(&borrower, 4);
    write_all(&mirror, 1);
    wait_for_donors(&mirror, 1);
    let seen = borrower.donors();
    let sum = |of: fn(&TrafficSeen) -> u64| seen.iter().map(|donor| of(&donor.traffic)).sum::<u64>();
    let pages = mirror.counters();
    assert!(sum(|traffic| traffic.read_bytes) >= pages.remote_reads * PAGE_BYTES as u64, "{seen:?}");
    assert!(sum(|traffic| traffic.written_bytes) >= pages.remote_writes * PAGE_BYTES as u64, "{seen:?}");
    for donor in &seen {
        let traffic = &donor.traffic;
        assert!(traffic.reads > 0 && traffic.writes > 0, "{donor:?}");
        assert_eq!(traffic.read_latency.total(), traffic.reads);
        assert_eq!(traffic.write_latency.total(), traffic.writes);
    }
    drop(donors);
    read_all(&mirror, 1);
    wait_until("both are gone", || borrower.donors().iter().all(|donor| donor.trouble.is_some()));
    for (before, after) in seen.iter().zip(borrower.donors()) {
        assert!(after.traffic.reads >= before.traffic.reads, "an end of a connection is no new beginning");
    }
    let told: Vec<_> = mirror.events().since(0).iter().map(|entry| entry.event.what).collect();
    let count = |what| told.iter().filter(|told| **told == what).count();
    assert_eq!((count(What::DonorConnected), count(What::DonorGone)), (2, 2), "{told:?}");
    wait_until("all slabs are lost", || {
        let told = mirror.events().since(0);
        told.iter().filter(|entry| entry.event.what == What::SlabLost).count() == 4
    });
}

#[test]
fn a_donor_that_ends_loses_nothing() {
    if !is_there() {
        return;
    }
    let (first, second) = (donor(donor_options(8)), donor(donor_options(8)));
    let borrower = borrower(&[&first, &second]);
    let mirror = mirror(&borrower, 8);
    write_all(&mirror, 1);
    wait_for_donors(&mirror, 1);
    drop(first);
    read_all(&mirror, 1);
    write_all(&mirror, 2);
    read_all(&mirror, 2);
    // All of it fits into the other.
    wait_for_donors(&mirror, 2);
    assert_eq!(second.now().lent, 8);
    assert!(mirror.counters().lost_slabs > 0);
    mirror.sync().expect("sync");
}

#[test]
fn a_donor_that_comes_back_is_used_again() {
    if !is_there() {
        return;
    }
    let first = donor(donor_options(4));
    let address = first.address();
    let borrower = borrower(&[&first]);
    let mirror = mirror(&borrower, 4);
    write_all(&mirror, 1);
    wait_for_donors(&mirror, 1);
    drop(first);
    read_all(&mirror, 1);
    let _again = donor(DonorOptions { address, ..donor_options(4) });
    wait_for_donors(&mirror, 1);
}

#[test]
fn what_is_lent_is_zeros() {
    if !is_there() {
        return;
    }
    let donor = donor(donor_options(1));
    {
        let mirror = mirror(&borrower(&[&donor]), 1);
        write_all(&mirror, 7);
        wait_for_donors(&mirror, 7);
    }
    wait_until("the slab is back", || donor.now().lent == 0 && donor.now().borrowers == 0);
    let borrower = borrower(&[&donor]);
    let mut home = None;
    wait_until("it is lent again", || borrower.find(SLAB_BYTES, &[]).is_some());
    wait_until("it is back", || donor.now().lent == 0);
    wait_until("it is lent again", || donor.now().slabs == 1);
    while home.is_none() {
        home = borrower.find(SLAB_BYTES, &[]);
    }
    let home = home.expect("a slab");
    for page in 0..SLAB_PAGES {
        let mut bytes = [1; 4096];
        home.read(page * 4096, &mut bytes).expect("read");
        assert_eq!(bytes, [0; 4096]);
    }
}

#[test]
fn one_borrower_cannot_have_all() {
    if !is_there() {
        return;
    }
    let donor = donor(DonorOptions { quota_bytes: 2 * SLAB_BYTES, ..donor_options(4) });
    let (greedy, modest) = (borrower(&[&donor]), borrower(&[&donor]));
    let homes: Vec<_> = (0..4).filter_map(|_| greedy.find(SLAB_BYTES, &[])).collect();
    assert_eq!(homes.len(), 2);
    let name = format!("process {}", std::process::id());
    let borrowers: Vec<_> = donor.borrowers().into_iter().map(|one| (one.name, one.slabs)).collect();
    assert_eq!(borrowers, [(name.clone(), 2), (name, 0)]);
    assert!(modest.find(SLAB_BYTES, &[]).is_some());
}

#[test]
fn mistakes_are_told() {
    // One of the mistakes is to have the wrong network, for which there must be one.
    if !is_there() || !is_built() {
        return;
    }
    let nobody = |address: &str| {
        let options = aquifer_remote::borrower::BorrowerOptions {
            donors: vec![address.to_string()],
            security: security(),
            ..Default::default()
        };
        match Borrower::start(options) {
            Err(BorrowerError::Nobody(said)) => said,
            other => panic!("{:?}", other.err()),
        }
    };
    assert!(nobody("127.0.0.1:1").contains("aquifer donate"), "{}", nobody("127.0.0.1:1"));
    assert!(nobody("no.such.host.invalid:7447").contains("resolve"));
    assert!(nobody("no port").contains("HOST:PORT"));
    assert!(!nobody("127.0.0.1:1").contains('\n'), "what is shown in one line is one");
    let donor = donor(donor_options(1));
    let same = Donor::start(DonorOptions { address: donor.address(), ..donor_options(1) });
    let error = same.err().expect("the port is in use").to_string();
    assert!(error.contains("--listen"), "{error}");
    let address = "0.0.0.0:0".parse().expect("an address");
    let open = Donor::start(DonorOptions { address, security: Security::Loopback, ..donor_options(1) });
    assert!(matches!(open.err(), Some(DonorError::Open(_))));
    // What has no other way than this machine's memory needs not be told.
    let others = if provider() == "memory" { "tcp".into() } else { provider() };
    let own = DonorOptions { lends_to_own_machine: false, provider: others, ..donor_options(1) };
    let own = crate::fixture::donor(own);
    assert!(nobody(&own.address().to_string()).contains("this machine"));
    let larger =
        Donor::start(DonorOptions { slab_bytes: 2 * SLAB_BYTES, ..donor_options(2) }).expect("start");
    let error = Borrower::start(borrower_options(&[&donor, &larger])).err().expect("two sizes").to_string();
    assert!(error.contains("--slab"), "{error}");
}

#[test]
fn a_second_copy_is_of_another_domain_while_there_is_one() {
    if !is_there() {
        return;
    }
    let donors =
        ["a", "a", "b"].map(|domain| donor(DonorOptions { domain: domain.into(), ..donor_options(2) }));
    let borrower = borrower(&[&donors[0], &donors[1], &donors[2]]);
    let homes: Vec<_> = (0..3).map(|_| borrower.find(SLAB_BYTES, &[DonorId(0)]).expect("a slab")).collect();
    assert_eq!(donors.each_ref().map(|donor| donor.now().lent), [0, 1, 2], "{homes:?}");
}

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
