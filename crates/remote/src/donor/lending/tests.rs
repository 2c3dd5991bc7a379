//! Which borrowers get slabs, and when slabs are free again.

use super::*;

const A: BorrowerId = BorrowerId(1);
const B: BorrowerId = BorrowerId(2);
const NOW: Moment = Moment::from_secs(100);

fn lending(slabs: usize, quota: u64) -> Lending {
    let mut lending = Lending::new(quota);
    (0..slabs).for_each(|_| {
        lending.add();
    });
    lending
}

#[test]
fn the_last_slab_goes_to_one_borrower() {
    let mut lending = lending(1, 10);
    let reservation = lending.reserve(A, NOW).expect("free");
    assert_eq!(lending.reserve(B, NOW), Err(Refusal::NothingFree));
    assert_eq!(lending.take(B, reservation, NOW), Err(Refusal::NoReservation));
    lending.take(A, reservation, NOW).expect("reserved");
    assert_eq!(lending.take(A, reservation, NOW), Err(Refusal::NoReservation));
    assert_eq!(lending.offer(), Offer { free_slabs: 0, slabs: 1 });
}

#[test]
fn reservations_expire() {
    let mut lending = lending(1, 10);
    let reservation = lending.reserve(A, NOW).expect("free");
    let other = lending.reserve(B, NOW + RESERVATION).expect("expired");
    assert_eq!(lending.take(A, reservation, NOW + RESERVATION), Err(Refusal::NoReservation));
    lending.cancel(B, other).expect("reserved");
    assert_eq!(lending.offer().free_slabs, 1);
}

#[test]
fn nobody_gets_more_than_the_quota() {
    let mut lending = lending(3, 2);
    let first = lending.reserve(A, NOW).expect("free");
    lending.take(A, first, NOW).expect("reserved");
    lending.reserve(A, NOW).expect("free");
    assert_eq!(lending.reserve(A, NOW), Err(Refusal::Quota(2)));
    lending.reserve(B, NOW).expect("for others there is one");
}

#[test]
fn what_comes_back_is_wiped_before_it_is_lent_again() {
    let mut lending = lending(1, 10);
    let reservation = lending.reserve(A, NOW).expect("free");
    let slab = lending.take(A, reservation, NOW).expect("reserved");
    assert_eq!(lending.give_back(B, slab), Err(Refusal::NotLent));
    assert_eq!(lending.give_back(A, slab), Ok(false));
    assert_eq!(lending.reserve(B, NOW), Err(Refusal::NothingFree));
    lending.wiped(slab);
    lending.reserve(B, NOW).expect("wiped");
}

#[test]
fn what_is_being_wiped_leaves_no_room_for_another() {
    let mut lending = lending(2, 10);
    let slabs = [0, 1].map(|_| {
        let reservation = lending.reserve(A, NOW).expect("free");
        lending.take(A, reservation, NOW).expect("reserved")
    });
    assert_eq!(lending.give_back(A, slabs[0]), Ok(false));
    assert_eq!(lending.offer(), Offer { free_slabs: 0, slabs: 2 });
    assert_eq!(lending.leave(A), [(slabs[1], false)]);
    assert_eq!(lending.offer(), Offer { free_slabs: 0, slabs: 2 });
    lending.wiped(slabs[0]);
    lending.lost(slabs[1]);
    lending.wiped(slabs[1]);
    assert_eq!(lending.offer(), Offer { free_slabs: 1, slabs: 1 });
}

#[test]
fn a_slab_that_is_asked_back_is_freed() {
    let mut lending = lending(2, 10);
    let slabs: Vec<_> = (0..2)
        .map(|_| {
            let reservation = lending.reserve(A, NOW).expect("free");
            lending.take(A, reservation, NOW).expect("reserved")
        })
        .collect();
    assert_eq!(lending.candidates(), [(slabs[0], A), (slabs[1], A)]);
    lending.ask_back(slabs[0], NOW + RESERVATION);
    assert_eq!(lending.candidates(), [(slabs[1], A)]);
    assert_eq!(lending.overdue(NOW), []);
    assert_eq!(lending.overdue(NOW + RESERVATION), [(slabs[0], A)]);
    assert_eq!(lending.give_back(A, slabs[0]), Ok(true));
    assert_eq!(lending.len(), 1);
}

#[test]
fn free_slabs_go_first_and_those_on_their_way_count() {
    let mut lending = lending(5, 10);
    for _ in 0..3 {
        let reservation = lending.reserve(A, NOW).expect("free");
        lending.take(A, reservation, NOW).expect("reserved");
    }
    lending.ask_back(SlabId(1), NOW + RESERVATION);
    assert_eq!(lending.shrink(1), (vec![], 0));
    assert_eq!(lending.shrink(2), (vec![SlabId(4)], 0));
    assert_eq!(lending.shrink(4), (vec![SlabId(5)], 2));
}

#[test]
fn who_starves_gets_what_is_its_by_right() {
    let mut lending = lending(4, 10);
    lending.come(A, Claim::own(A, 100));
    lending.come(B, Claim::own(B, 100));
    for _ in 0..4 {
        let reservation = lending.reserve(A, NOW).expect("nobody else wants it");
        lending.take(A, reservation, NOW).expect("reserved");
    }
    assert_eq!(lending.unfair(NOW), []);
    for nth in 0..2 {
        assert_eq!(lending.reserve(B, NOW), Err(Refusal::NothingFree));
        let asked = lending.unfair(NOW)[0];
        assert_eq!(asked.1, A);
        lending.ask_back_for_others(asked.0, NOW + RESERVATION);
        assert_eq!(lending.unfair(NOW), [], "one at a time");
        assert_eq!(lending.give_back(A, asked.0), Ok(false), "it is lent again");
        lending.wiped(asked.0);
        assert_eq!(lending.reserve(A, NOW), Err(Refusal::Share(2)), "{nth}");
        let reservation = lending.reserve(B, NOW).expect("it is B's");
        lending.take(B, reservation, NOW).expect("reserved");
    }
    assert_eq!(lending.reserve(B, NOW), Err(Refusal::NothingFree));
    assert_eq!(lending.unfair(NOW), [], "both have their share");
}

#[test]
fn each_is_asked_at_most_once() {
    let slabs: Vec<_> = (0..9).map(|slab| (SlabId(slab), A)).collect();
    let mut random = 0;
    let mut asked = any_of(slabs.clone(), 5, || {
        random += 7;
        random
    });
    asked.sort_unstable();
    asked.dedup();
    assert_eq!(asked.len(), 5);
    assert_eq!(any_of(slabs.clone(), 20, || 0).len(), slabs.len());
    assert_eq!(any_of(Vec::new(), 5, || 0), []);
}

#[test]
fn the_least_active_go() {
    let asked = [(SlabId(1), 9), (SlabId(2), 0), (SlabId(3), 4), (SlabId(4), 0)];
    assert_eq!(least_active(asked.to_vec(), 3), [SlabId(2), SlabId(4), SlabId(3)]);
    assert_eq!(least_active(Vec::new(), 3), []);
}
