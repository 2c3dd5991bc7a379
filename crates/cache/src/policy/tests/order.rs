//! Victims of small traces, worked out by hand from the papers.

use super::{Bench, Clock, Lru, S3Fifo, Sieve};

#[test]
fn clock_sweeps_in_position_order_and_spares_used_slots_once() {
    let bench = Bench::filled(Box::new(Clock::with_limit(1)), 5);
    bench.touch(0);
    bench.touch(2);
    bench.touch(2);
    assert_eq!(bench.upcoming(5), [1, 3, 4, 0, 2]);
    assert_eq!(bench.evict_any(), Some(1));
    // A slot filled anew lies behind the hand: it has a whole round.
    bench.insert(1, 50);
    assert_eq!(bench.drain(), [3, 4, 0, 1, 2]);
}

#[test]
fn clock_with_a_counter_spares_a_slot_once_per_use() {
    let bench = Bench::filled(Box::new(Clock::with_limit(3)), 3);
    (0..9).for_each(|_| bench.touch(0));
    bench.touch(1);
    assert_eq!(bench.slots.mark_of(0), 3);
    assert_eq!(bench.drain(), [2, 1, 0]);
}

#[test]
fn a_patient_clock_passes_some_used_slots_before_it_lowers_marks() {
    let bench = Bench::filled(Box::new(Clock::new()), 8);
    (0..7).for_each(|at| bench.touch(at));
    // Slots 0 to 3 are passed, 4 to 6 lose their mark on the way to the unused one.
    assert_eq!(bench.evict_any(), Some(7));
    assert_eq!([0, 3, 4, 6].map(|at| bench.slots.mark_of(at)), [1, 1, 0, 0]);
    assert_eq!(bench.drain(), [4, 5, 6, 0, 1, 2, 3]);
}

#[test]
fn clock_goes_on_behind_a_refused_slot() {
    let bench = Bench::filled(Box::new(Clock::new()), 4);
    assert_eq!(bench.evict(2, |at| at < 2), (vec![0, 1], None));
    assert_eq!(bench.evict(1, |_| false), (vec![2], Some(2)));
    assert_eq!(bench.drain(), [3, 0, 1]);
}

#[test]
fn clock_skips_holes_and_sees_new_slabs() {
    let bench = Bench::new(Clock::new(), 6);
    bench.insert(1, 1);
    bench.insert(4, 4);
    assert_eq!(bench.evict_any(), Some(1));
    bench.insert(5, 5);
    bench.insert(0, 0);
    assert_eq!(bench.drain(), [4, 5, 0]);
}

#[test]
fn lru_evicts_by_last_use() {
    let bench = Bench::filled(Box::new(Lru::new()), 5);
    bench.touch(1);
    bench.touch(0);
    bench.touch(1);
    assert_eq!(bench.upcoming(9), [2, 3, 4, 0, 1]);
    bench.remove(3);
    assert_eq!(bench.drain(), [2, 4, 0, 1]);
}

#[test]
fn lru_begins_at_the_oldest_after_success_and_goes_on_after_failure() {
    let bench = Bench::filled(Box::new(Lru::new()), 6);
    assert_eq!(bench.evict(8, |at| at < 2), (vec![0, 1, 2], Some(2)));
    assert_eq!(bench.evict(2, |at| at < 3), (vec![0, 1], None));
    assert_eq!(bench.upcoming(2), [0, 1]);
    assert_eq!(bench.evict(2, |at| at < 4), (vec![3, 4], Some(4)));
    assert_eq!(bench.drain(), [0, 1, 3, 5]);
}

#[test]
fn lru_resumes_behind_a_slot_that_was_used_or_removed_meanwhile() {
    let bench = Bench::filled(Box::new(Lru::new()), 6);
    assert_eq!(bench.evict(2, |_| true).0, [0, 1]);
    bench.touch(2);
    bench.remove(3);
    assert_eq!(bench.evict(1, |_| true).0, [4]);
    assert_eq!(bench.drain(), [5, 0, 1, 4, 2]);
}

/// Figure 1 of the paper in short: visited slots stay where they are, new ones go to the front.
#[test]
fn sieve_keeps_visited_slots_in_place() {
    let bench = Bench::filled(Box::new(Sieve::new()), 5);
    bench.slots.empty(4);
    bench.remove(4);
    [0, 2].into_iter().for_each(|at| bench.touch(at));
    assert_eq!(bench.upcoming(9), [1, 3, 0, 2]);
    assert_eq!(bench.evict_any(), Some(1));
    bench.insert(4, 40);
    bench.insert(1, 10);
    bench.touch(4);
    // The hand stands on 2: spared. Then 3, then 4 is spared and the new 1 falls.
    assert_eq!(bench.evict_any(), Some(3));
    assert_eq!(bench.evict_any(), Some(1));
    // Around again to the oldest.
    assert_eq!(bench.drain(), [0, 2, 4]);
}

#[test]
fn sieve_passes_a_refused_slot_until_the_next_round() {
    let bench = Bench::filled(Box::new(Sieve::new()), 4);
    assert_eq!(bench.evict(3, |at| at != 1), (vec![0, 1], Some(1)));
    assert_eq!(bench.drain(), [2, 3, 0]);
}

#[test]
fn s3fifo_takes_objects_used_once_from_the_small_queue() {
    let bench = Bench::filled(Box::new(S3Fifo::new(20)), 20);
    // One use is not enough to stay, two are.
    bench.touch(0);
    (0..2).for_each(|_| bench.touch(1));
    assert_eq!(bench.evict_any(), Some(0));
    assert_eq!(bench.evict_any(), Some(2));
    assert_eq!(bench.slots.mark_of(1), 0, "uses are forgotten on the way to the main queue");
    assert_eq!(bench.drain(), (3..20).chain([1]).collect::<Vec<_>>());
}

#[test]
fn s3fifo_gives_main_its_turn_when_small_is_below_its_share() {
    let bench = Bench::filled(Box::new(S3Fifo::new(20)), 20);
    // 19 slots move to the main queue, slot 19 leaves: only then has the small queue nothing to give.
    (0..19).for_each(|at| (0..2).for_each(|_| bench.touch(at)));
    assert_eq!(bench.evict_any(), Some(0), "with one of 20 left in small, main has its turn");
    bench.touch(1);
    assert_eq!(bench.evict_any(), Some(2), "a used slot of the main queue goes to its front");
    // Now one of 18 is in small: below the share. At one of ten it is due, between 9 and 10 of main.
    let rest = bench.drain();
    assert_eq!(rest[..8], [3, 4, 5, 6, 7, 8, 9, 10]);
    assert_eq!(rest[8], 19);
    assert_eq!(rest[9..], [11, 12, 13, 14, 15, 16, 17, 18, 1]);
}

#[test]
fn s3fifo_lets_a_ghost_go_straight_to_main() {
    let bench = Bench::filled(Box::new(S3Fifo::new(4)), 10);
    assert_eq!(bench.evict_any(), Some(0));
    // The object of slot 0 comes back. It is evicted after everything in the small queue.
    bench.insert(0, 0);
    assert_eq!(bench.drain(), [1, 2, 3, 4, 5, 6, 7, 8, 9, 0]);
}

#[test]
fn s3fifo_without_ghosts_forgets() {
    let bench = Bench::filled(Box::new(S3Fifo::new(0)), 4);
    assert_eq!(bench.evict_any(), Some(0));
    bench.insert(0, 0);
    (1..4).for_each(|at| (0..2).for_each(|_| bench.touch(at)));
    assert_eq!(bench.evict_any(), Some(0), "the others have moved to main, and it is small again");
}

#[test]
fn s3fifo_turns_to_main_when_all_of_small_is_refused() {
    let bench = Bench::filled(Box::new(S3Fifo::new(8)), 8);
    (0..4).for_each(|at| (0..2).for_each(|_| bench.touch(at)));
    let (offered, taken) = bench.evict(99, |at| at > 3);
    assert_eq!((offered, taken), (vec![4, 5, 6, 7, 0], Some(0)));
    // After the success the small queue comes first again.
    assert_eq!(bench.evict(3, |at| at > 3), (vec![4, 5, 6], None));
    assert_eq!(bench.evict(3, |at| at > 3), (vec![7, 1], Some(1)));
}
