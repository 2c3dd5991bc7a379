//! What a donor does wrong.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use aquifer_remote::transport::fake::{Behaviour, FakeDonor};
use aquifer_remote::transport::{Link, LinkError, LinkOptions, Part, Staging};

use crate::contract;

const SLAB_BYTES: usize = 4 << 20;

fn options(deadline_ms: u64) -> LinkOptions {
    LinkOptions {
        small_slots: 8,
        large_slots: 2,
        deadline: Duration::from_millis(deadline_ms),
        ..LinkOptions::default()
    }
}

/// A link, and the memory that its transfers go through.
fn connect(donor: &FakeDonor, deadline_ms: u64) -> (Link, Arc<Staging>) {
    let memory = OnceLock::new();
    let link = Link::new(&options(deadline_ms), |staging| {
        let _ = memory.set(Arc::clone(staging));
        Ok(donor.connect(staging))
    });
    (link.expect("connect"), Arc::clone(memory.get().expect("connected")))
}

#[test]
fn a_good_donor() {
    let donor = FakeDonor::new(SLAB_BYTES).expect("donor");
    contract::keeps_its_word(&connect(&donor, 10_000).0, donor.place());
}

#[test]
fn a_slow_donor() {
    let donor = FakeDonor::new(SLAB_BYTES).expect("donor");
    donor.behave(Behaviour::Late(Duration::from_micros(300)));
    contract::keeps_its_word(&connect(&donor, 10_000).0, donor.place());
}

#[test]
fn a_donor_that_does_not_answer_costs_a_deadline_and_the_link() {
    for behaviour in [Behaviour::Stopped, Behaviour::Silent] {
        let donor = FakeDonor::new(SLAB_BYTES).expect("donor");
        let (link, _) = connect(&donor, 50);
        link.write(&[1; 4096], donor.place()).expect("write");
        donor.behave(behaviour);
        let began = Instant::now();
        let outcome = link.read(donor.place(), &mut [0; 4096]);
        assert_eq!(outcome, Err(LinkError::Timeout(Duration::from_millis(50))));
        assert!(began.elapsed() >= Duration::from_millis(50));
        donor.behave(Behaviour::Prompt);
        assert_eq!(link.read(donor.place(), &mut [0; 4096]), outcome, "a link stays ended");
        assert_eq!(link.end().map(Err), Some(outcome));
        contract::keeps_its_word(&connect(&donor, 10_000).0, donor.place());
    }
}

#[test]
fn all_who_wait_for_a_dead_donor_hear_of_it() {
    let donor = FakeDonor::new(SLAB_BYTES).expect("donor");
    let (link, _) = connect(&donor, 100);
    donor.behave(Behaviour::Stopped);
    std::thread::scope(|scope| {
        for thread in 0..16u64 {
            let (link, place) = (&link, donor.place().at(thread * 4096));
            scope.spawn(move || {
                let outcome = link.read(place, &mut [0; 4096]);
                assert_eq!(outcome, Err(LinkError::Timeout(Duration::from_millis(100))));
            });
        }
    });
}

#[test]
fn a_link_that_is_closed_lets_waiters_go() {
    let donor = FakeDonor::new(SLAB_BYTES).expect("donor");
    let (link, _) = connect(&donor, 600_000);
    donor.behave(Behaviour::Stopped);
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| link.read(donor.place(), &mut [0; 4096]));
        std::thread::sleep(Duration::from_millis(20));
        link.close();
        assert_eq!(waiter.join().expect("no panic"), Err(LinkError::Closed));
    });
}

#[test]
fn an_error_of_one_transfer_ends_the_link() {
    let donor = FakeDonor::new(SLAB_BYTES).expect("donor");
    let (link, _) = connect(&donor, 10_000);
    donor.behave(Behaviour::Failing(-libc::EIO));
    let outcome =
        link.write_many(&[aquifer_remote::transport::Write { from: &[1; 300_000], to: donor.place() }]);
    assert!(
        matches!(&outcome, Err(LinkError::Failed(said)) if said.as_str().contains("Input/output")),
        "{outcome:?}"
    );
}

#[test]
fn what_was_not_lent_cannot_be_reached() {
    let donor = FakeDonor::new(SLAB_BYTES).expect("donor");
    let beyond = donor.place().at(SLAB_BYTES as u64 - 1);
    assert!(matches!(connect(&donor, 1000).0.read(beyond, &mut [0; 2]), Err(LinkError::Failed(_))));
}

/// Whether an answer that comes after its deadline changes memory of this process.
fn a_late_answer_lands(is_fenced: bool) -> bool {
    let donor = FakeDonor::new(SLAB_BYTES).expect("donor");
    donor.respect_fences(is_fenced);
    let (link, memory) = connect(&donor, 20);
    link.write(&[7; 4096], donor.place()).expect("write");
    link.write(&[0; 4096], donor.place().at(4096)).expect("write");
    donor.behave(Behaviour::Stopped);
    link.read(donor.place(), &mut [0; 4096]).expect_err("too late");
    donor.resume();
    let mut bytes = vec![0; 4096];
    // SAFETY: the link has ended; without a fence the donor writes in `resume` alone, which has returned.
    unsafe { memory.take(Part { offset: 0, len: 4096 }, &mut bytes) };
    bytes.contains(&7)
}

#[test]
fn late_answers_land_nowhere() {
    assert!(!a_late_answer_lands(true));
    assert!(a_late_answer_lands(false), "the test would not notice");
}
