//! Small clusters, in milliseconds.

use std::time::Duration;

use super::*;
use crate::contender::{Eviction, Placer};
use crate::device::Device;
use crate::distribution::Distribution;
use crate::kept::Keeping;
use crate::scenario::{Activity, Borrowers, Failures, Limits};

const PLACERS: [Placer; 7] = [
    Placer::Nobody,
    Placer::OneChoice,
    Placer::TwoChoices,
    Placer::TwoMostFree,
    Placer::TwoNew,
    Placer::TwoNewMostFree,
    Placer::Greedy,
];

fn contender(placer: Placer) -> Contender {
    Contender { placer, eviction: Eviction::default() }
}

fn result(scenario: &Scenario, placer: Placer) -> Outcome {
    run(scenario, contender(placer), &|_| {}).expect("the books agree")
}

/// With the same share of local bytes in slabs for all containers.
fn keeping(share: f64, scenario: Scenario) -> Scenario {
    scenario.keeping(Keeping::Share(share)).expect("a share needs no measurement")
}

/// Few machines that fail often, so that much happens in a few hours.
fn small() -> Scenario {
    Scenario {
        rack_machines: 4,
        known: 6,
        counted_from: Duration::from_secs(1800),
        warm_up: Duration::from_secs(1800),
        measured: Duration::from_secs(4 * 3600),
        failures: Some(Failures {
            machine_s: Distribution::Exponential { mean: 20_000.0 },
            rack_s: Distribution::Exponential { mean: 40_000.0 },
            repair_s: Distribution::Exponential { mean: 600.0 },
        }),
        ..Scenario::cluster(5, 20)
    }
}

#[test]
fn one_seed_gives_one_result() {
    let scenario = small();
    for placer in PLACERS {
        assert_eq!(result(&scenario, placer), result(&scenario, placer));
    }
    let other = Scenario { seed: 6, ..scenario.clone() };
    assert_ne!(result(&scenario, Placer::TwoChoices), result(&other, Placer::TwoChoices));
}

#[test]
fn every_placer_sees_the_same_load() {
    let scenario = small();
    let outcomes = PLACERS.map(|placer| result(&scenario, placer));
    for outcome in &outcomes {
        assert_eq!(outcome.wanted_share, outcomes[0].wanted_share);
        assert_eq!(outcome.reserved_share, outcomes[0].reserved_share);
        assert_eq!(outcome.counters.starts, outcomes[0].counters.starts);
        assert_eq!(outcome.counters.failures, outcomes[0].counters.failures);
        assert!(outcome.used_share <= outcome.wanted_share);
        assert!(outcome.used_share >= outcomes[0].used_share);
    }
}

/// Runs until `events` events have happened, and compares the books after each.
fn checked(scenario: &Scenario, placer: Placer, events: usize) -> Cluster<'_> {
    let mut cluster = Cluster::new(scenario, contender(placer));
    for _ in 0..events {
        let (at, event) = cluster.queue.take_next().expect("machines are looked at for ever");
        cluster.now = at;
        cluster.happen(event.clone()).expect("no donor is surprised");
        if let Err(what) = cluster.check() {
            panic!("after {event:?}: {what}");
        }
    }
    cluster
}

#[test]
fn books_agree_after_every_event() {
    for borrowers in [Borrowers::Machines, Borrowers::Containers] {
        for (placer, kept) in PLACERS.into_iter().flat_map(|placer| [(placer, 0.0), (placer, 0.5)]) {
            let scenario = keeping(kept, Scenario { borrowers, ..small() });
            let cluster = checked(&scenario, placer, 2000);
            assert_eq!(placer == Placer::Nobody, cluster.borrowed == 0);
            let twice: u64 = cluster.devices.iter().map(Device::twice_bytes).sum();
            assert_eq!(placer == Placer::Nobody || kept == 0.0, twice == 0);
        }
    }
}

#[test]
fn the_papers_bytes_are_all_somewhere() {
    let scenario = keeping(0.0, Scenario::paper(1, &Limits::default()));
    // Everything has started, and 400 seconds are over.
    let cluster = checked(&scenario, Placer::TwoNew, 13_000);
    assert!(cluster.now > scenario.warm_up);
    let local: u64 = cluster.containers.iter().map(|container| container.local_bytes).sum();
    let stored: u64 = cluster.devices.iter().map(Device::stored_bytes).sum();
    assert_eq!(local + stored, 1008 << 30);
    assert_eq!(cluster.counters.refused, 0);
}

#[test]
fn much_happens_in_the_small_cluster() {
    // Few slabs are free: donors must take them back.
    let scenario = Scenario { headroom_bytes: 20 << 30, ..small() };
    let counters = result(&scenario, Placer::TwoChoices).counters;
    assert!(counters.failures > 10 && counters.lost > 0 && counters.returned > 0, "{counters:?}");
    assert!(counters.evictions > 0 && counters.moved > 0, "{counters:?}");
    assert_eq!(counters.evictions, counters.moved + counters.dropped);
    assert_eq!(counters.forced, 0);
}

#[test]
fn slabs_that_move_too_slowly_are_lost() {
    let scenario = Scenario { headroom_bytes: 20 << 30, network_bytes_per_s: 1 << 20, ..small() };
    let counters = result(&scenario, Placer::TwoChoices).counters;
    assert!(counters.forced > 0, "{counters:?}");
}

#[test]
fn without_room_everything_is_refused() {
    let scenario = Scenario { headroom_bytes: 1 << 40, ..small() };
    for placer in PLACERS {
        let outcome = result(&scenario, placer);
        assert_eq!(outcome.counters.refused, outcome.counters.requests);
        assert_eq!(outcome.used_share, result(&scenario, Placer::Nobody).used_share);
    }
}

#[test]
fn idle_memory_is_used() {
    let scenario = Scenario {
        machines: 8,
        load: crate::load::Load {
            population: crate::load::Population::Places(22),
            ..Scenario::paper(1, &Limits::default()).load
        },
        ..Scenario::paper(1, &Limits::default())
    };
    let (without, with) = (result(&scenario, Placer::Nobody), result(&scenario, Placer::TwoChoices));
    assert!(with.used_share > 1.1 * without.used_share);
    assert!((with.used_share - with.wanted_share).abs() < 0.01, "there is room for all");
    assert!(with.occupied_share >= with.used_share);
}

#[test]
fn keeping_nothing_counts_every_byte_once() {
    let outcome = result(&keeping(0.0, Scenario::paper(1, &Limits::default())), Placer::TwoChoices);
    assert_eq!(outcome.taken_share, outcome.used_share);
    assert!(
        (outcome.used_share - 1008.0 / 2048.0).abs() < 1e-6,
        "all that is wanted: {}",
        outcome.used_share
    );
}

#[test]
fn new_donors_first_spread_a_device() {
    let scenario = Scenario::paper(1, &Limits::default());
    let (two, new) = (result(&scenario, Placer::TwoChoices), result(&scenario, Placer::TwoNew));
    assert!(new.on_one_donor < two.on_one_donor, "{} {}", new.on_one_donor, two.on_one_donor);
    assert!(new.hit > two.hit, "more donors have pages of each container: {} {}", new.hit, two.hit);
    assert_eq!(new.used_share, two.used_share);
}

#[test]
fn what_is_paged_follows_from_the_bytes_elsewhere() {
    let scenario = keeping(0.0, Scenario::paper(1, &Limits::default()));
    let outcome = result(&scenario, Placer::TwoNew);
    let far_gib = (outcome.wanted_share - result(&scenario, Placer::Nobody).used_share) * 2048.0;
    let grown = far_gib * 2000.0 * 4096.0 * 1300.0;
    let paged = outcome.counters.paged_bytes as f64;
    assert!((0.85 * grown..grown).contains(&paged), "{paged} of {grown} if all had grown from the start");
}

#[test]
fn kept_places_take_memory_and_hold_nothing_new() {
    let scenario = Scenario::paper(1, &Limits::default());
    let nothing = result(&keeping(0.0, scenario.clone()), Placer::TwoChoices);
    let some = result(&keeping(0.3, scenario.clone()), Placer::TwoChoices);
    assert!((some.used_share - nothing.used_share).abs() < 1e-3, "there is room for all");
    assert!(some.taken_share > 1.05 * some.used_share && some.occupied_share >= some.taken_share);
    let without = result(&keeping(0.3, scenario), Placer::Nobody);
    assert_eq!((without.taken_share, without.occupied_share), (without.used_share, without.used_share));
}

#[test]
fn asking_about_more_slabs_takes_less_active_ones() {
    let scenario = Scenario { headroom_bytes: 12 << 30, ..small() };
    let evicted_activity = |asked_more, activity| {
        let eviction = Eviction { evicted: 1, asked_more };
        let scenario = Scenario { activity, ..scenario.clone() };
        let outcome = run(&scenario, Contender { placer: Placer::TwoChoices, eviction }, &|_| {});
        outcome.expect("the books agree").counters.evicted_rank_mean().expect("evictions")
    };
    let any = evicted_activity(0, Activity::Counts);
    let counts = evicted_activity(8, Activity::Counts);
    let rates = evicted_activity(8, Activity::Rates);
    // A slab that was borrowed just now has a low count, however active it is.
    assert!(rates < counts && counts < any, "{rates} {counts} {any}");
}

#[test]
fn nonsense_is_refused() {
    let scenario = Scenario::cluster(1, 1);
    let error = run(&scenario, contender(Placer::TwoChoices), &|_| {}).expect_err("one machine");
    assert!(error.to_string().contains("--machines"));
}
