//! Cleaning keeps what is needed and gives back the rest.

use aquifer_log::Kind;
use aquifer_log::geometry::SegmentId;
use aquifer_log::log::reserve_segments;
use aquifer_log::segment::State;
use aquifer_log::victim::{CostBenefit, Greedy, VictimPolicy, choose};

use crate::bench::{Bench, SEGMENTS, payload};

#[test]
fn relocation_keeps_what_is_needed_and_frees_the_rest() {
    let mut bench = Bench::new();
    let keys = bench.fill_segments(10, 0);
    for key in keys.iter().filter(|key| *key % 3 != 0) {
        bench.free(*key);
    }
    let free = bench.log.free_segments();
    bench.clean_all();
    assert!(bench.log.free_segments() >= free + 6, "{} of {free} before", bench.log.free_segments());
    bench.check_all();
    assert_eq!(bench.places.keys().len(), keys.len().div_ceil(3));
}

#[test]
fn what_is_all_garbage_is_freed_without_being_read() {
    let mut bench = Bench::new();
    for key in bench.fill_segments(4, 0) {
        bench.free(key);
    }
    let reads = bench.device.counters().reads;
    bench.clean_all();
    assert_eq!(bench.device.counters().reads, reads);
    assert_eq!(bench.log.segments().live_bytes_total(), 0);
}

#[test]
fn what_is_all_live_is_no_victim_of_greed() {
    let mut bench = Bench::new();
    let keys = bench.fill_segments(6, 0);
    // The third segment has the most garbage.
    let third = bench.log.geometry().segment_of(bench.places.get(keys[35]).unwrap().0).unwrap();
    for &key in &keys {
        let segment = bench.log.geometry().segment_of(bench.places.get(key).unwrap().0);
        if segment == Some(third) || key == keys[0] {
            bench.free(key);
        }
    }
    assert_eq!(bench.greedy().unwrap().unwrap(), third);
    bench.check_all();
}

/// Of two segments with the same garbage, greed does not care and cost-benefit takes the older.
#[test]
fn age_counts_for_cost_benefit() {
    let mut bench = Bench::new();
    let keys = bench.fill_segments(6, 0);
    let segment_of =
        |bench: &Bench, key: u64| bench.log.geometry().segment_of(bench.places.get(key).unwrap().0).unwrap();
    let (old, new) = (segment_of(&bench, keys[20]), segment_of(&bench, keys[70]));
    assert!(bench.log.segments().sealed_at(old) < bench.log.segments().sealed_at(new));
    let garbage = |bench: &mut Bench, segment: SegmentId, count: usize| {
        let there: Vec<u64> =
            keys.iter().copied().filter(|&key| segment_of_opt(bench, key) == Some(segment)).collect();
        there.iter().take(count).for_each(|&key| bench.free(key));
    };
    garbage(&mut bench, old, 6);
    garbage(&mut bench, new, 7);
    let chosen = |policy: &dyn VictimPolicy| {
        choose(policy, bench.log.segments(), |kind| bench.log.geometry().segment_room(kind), bench.log.now())
    };
    assert_eq!(chosen(&Greedy), Some(new));
    assert_eq!(chosen(&CostBenefit), Some(old));
}

fn segment_of_opt(bench: &Bench, key: u64) -> Option<SegmentId> {
    bench.log.geometry().segment_of(bench.places.get(key)?.0)
}

#[test]
fn the_survivors_may_use_the_reserve_and_the_fresh_may_not() {
    let mut bench = Bench::new();
    while bench.log.free_segments() > reserve_segments(SEGMENTS) {
        bench.fill_segments(1, 1000 * u64::from(bench.log.now()));
    }
    // The fresh head would wait now if it needed another segment.
    for expected in (0..reserve_segments(SEGMENTS)).rev() {
        bench.survivor.make_room(Kind::Page, 4000).unwrap();
        bench.survivor.append(crate::bench::id(1 << 30), &payload(0, 3900));
        bench.survivor.make_room(Kind::Page, 4000).unwrap();
        bench.survivor.append(crate::bench::id(1 << 30), &payload(0, 3900));
        assert_eq!(bench.log.free_segments(), expected);
    }
    assert_eq!(bench.survivor.make_room(Kind::Page, 4000), Err(aquifer_log::AppendError::Full));
    assert_eq!(bench.log.segments().in_state(State::Free).count(), 0);
}

#[test]
fn a_full_log_can_be_cleaned_after_something_is_freed() {
    let mut bench = Bench::new();
    let mut keys = Vec::new();
    while bench.log.free_segments() > reserve_segments(SEGMENTS) {
        keys.extend(bench.fill_segments(1, 1000 * u64::from(bench.log.now() + 1)));
    }
    for key in keys.iter().filter(|key| *key % 4 == 0) {
        bench.free(*key);
    }
    // More is cleaned than the reserve could take if it were not given back on the way.
    bench.make_segments_free(&Greedy).unwrap();
    assert!(bench.log.free_segments() > reserve_segments(SEGMENTS));
    bench.check_all();
    bench.write(1, &payload(1, 100)).unwrap();
}
