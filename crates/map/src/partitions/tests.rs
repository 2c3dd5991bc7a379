use super::*;
use proptest::prelude::*;

const ID: PartitionId = PartitionId(7);

fn map() -> Partitions {
    Partitions::new(1 << 34).expect("address space")
}

/// To a log as long as any.
fn long_map() -> Partitions {
    Partitions::new(1 << 42).expect("address space")
}

/// Every grain's source, as the model has it.
fn expand(map: &Partitions) -> Vec<Source> {
    let (mut sources, mut hint) = (Vec::new(), Hint::default());
    while sources.len() < GRAINS {
        let at = sources.len();
        let run = map.find(ID, at, &mut hint);
        assert_eq!(run, map.find(ID, at, &mut hint), "with the hint that it left");
        assert!(run.end > at && run.end <= GRAINS, "{run:?} at {at}");
        sources.extend((0..run.end - at).map(|n| run.source.plus(n)));
    }
    sources
}

fn extents(map: &Partitions) -> usize {
    unpack(map.at(ID).handle.load(Ordering::Relaxed)).1
}

#[test]
fn an_empty_partition_is_a_hole() {
    let map = map();
    assert_eq!(map.find(ID, 0, &mut Hint::default()), Run { source: Source::Hole, end: GRAINS });
    assert_eq!(map.find(ID, 1023, &mut Hint::default()), Run { source: Source::Hole, end: GRAINS });
    assert_eq!(map.word(ID).version(), 0);
}

#[test]
fn a_locked_partition_is_not_locked_again() {
    let map = map();
    let before = map.try_lock(ID).expect("free");
    assert!(map.try_lock(ID).is_none() && map.try_lock_to_move(ID).is_none());
    assert!(map.word(ID).is_locked() && map.word(ID).is_committing() && !map.is_unchanged(ID, before));
    map.unlock(ID, 9);
    assert_eq!(map.word(ID).version(), 9);
}

#[test]
fn a_move_changes_the_word_and_not_the_version() {
    let map = map();
    map.try_lock(ID).expect("free");
    map.unlock(ID, VERSION_MAX);
    let first = map.word(ID);
    for _ in 0..100_000 {
        let before = map.try_lock_to_move(ID).expect("free");
        assert!(map.word(ID).is_locked() && !map.word(ID).is_committing() && map.try_lock(ID).is_none());
        assert_eq!(map.word(ID).version(), VERSION_MAX);
        map.unlock_moved(ID, before);
        assert!(!map.is_unchanged(ID, before) && !map.word(ID).is_locked());
        assert_eq!(map.word(ID).version(), VERSION_MAX);
    }
    let before = map.try_lock(ID).expect("free");
    map.unlock_unchanged(ID, before);
    assert!(map.is_unchanged(ID, before) && before != first);
}

fn change() -> impl Strategy<Value = (usize, usize, Source)> {
    let source = prop_oneof![
        1 => Just(Source::Hole),
        1 => Just(Source::Zeros),
        6 => (FIRST_GRAIN..4000).prop_map(Source::Log),
        // So that many meet.
        3 => Just(Source::Log(5000)),
    ];
    let range = prop_oneof![
        (0..GRAINS, 1usize..40),
        (0..GRAINS / 16, Just(1)).prop_map(|(n, _)| (n * 16, 16)),
        (0..GRAINS, 1..GRAINS),
    ];
    (range, source).prop_map(|((start, len), source)| {
        // A source that is as far from 5000 as its start meets its neighbours.
        let source = if source == Source::Log(5000) { source.plus(start) } else { source };
        (start, (start + len).min(GRAINS), source)
    })
}

proptest! {
    #[test]
    fn is_as_the_model(changes in prop::collection::vec(change(), 1..120), joins: bool, is_long: bool) {
        let map = if is_long { long_map() } else { map() }.joining(joins);
        let far = |source: Source| if is_long { source.plus(255 << 32) } else { source };
        let mut model = vec![Source::Hole; GRAINS];
        // Always left by a look at another place.
        let mut hint = Hint::default();
        for (version, (start, end, source)) in changes.into_iter().enumerate() {
            let source = far(source);
            map.try_lock(ID).expect("free");
            let mut released = Vec::new();
            let told = &mut |grain, grains| released.extend((0..grains).map(|n| Source::Log(grain).plus(n)));
            map.replace(ID, (start, end), source, &mut hint, told);
            map.unlock(ID, version as u64 + 1);
            let gone = model[start..end].iter().copied().filter(|s| matches!(s, Source::Log(_)));
            prop_assert_eq!(released, gone.collect::<Vec<_>>());
            for (n, place) in model[start..end].iter_mut().enumerate() {
                *place = source.plus(n);
            }
            prop_assert_eq!(expand(&map), &model[..]);
            let fewest = 1 + model.windows(2).filter(|pair| pair[0].plus(1) != pair[1]).count();
            prop_assert!(extents(&map) <= fewest || !joins, "{} extents, {fewest} would do", extents(&map));
        }
    }
}

#[test]
fn a_copy_of_a_partition_is_as_it_was() {
    let map = map();
    map.try_lock(ID).expect("free");
    for (start, end, source) in
        [(0, 900, Source::Zeros), (7, 30, Source::Log(4096)), (600, 601, Source::Hole)]
    {
        map.replace(ID, (start, end), source, &mut Hint::default(), |_, _| ());
    }
    map.unlock(ID, 5);
    let mut extents = Vec::new();
    map.for_each_extent(ID, |start, source| extents.push((start, source)));
    let copy = self::map();
    let ends = extents.iter().skip(1).map(|&(start, _)| start.into()).chain([GRAINS]);
    let told: Vec<_> = extents
        .iter()
        .zip(ends)
        .map(|(&(start, source), end)| Told::new(ID, (start.into(), end), source))
        .collect();
    let mut filler = Filler::new(&copy);
    filler.fill(&told, |_, _| ());
    filler.finish(ID, 5);
    assert_eq!(expand(&copy), expand(&map));
    // It can be changed like the other one.
    for map in [&map, &copy] {
        map.try_lock(ID).expect("free");
        map.replace(ID, (8, 700), Source::Log(9000), &mut Hint::default(), |_, _| ());
        map.unlock(ID, 6);
    }
    assert_eq!(expand(&copy), expand(&map));
}

#[test]
fn neighbours_are_one_unless_they_are_not_joined() {
    for (joins, expected) in [(true, 2), (false, 4)] {
        let map = map().joining(joins);
        map.try_lock(ID).expect("free");
        for start in [8, 0, 4] {
            let source = Source::Log(100).plus(start);
            map.replace(ID, (start, start + 4), source, &mut Hint::default(), |_, _| ());
        }
        assert_eq!(extents(&map), expected, "three runs and the hole behind them");
    }
}

#[test]
fn a_hint_that_learns_nothing_stays_as_it_is() {
    let (map, mut hint) = (map(), Hint::NONE);
    map.try_lock(ID).expect("free");
    map.replace(ID, (0, 4), Source::Log(100), &mut hint, |_, _| ());
    assert_eq!(map.find(ID, 3, &mut hint), Run { source: Source::Log(103), end: 4 });
    assert_eq!(hint, Hint::NONE);
}

/// Readers that take no lock never accept what was never there.
#[test]
fn readers_see_one_version() {
    let map = map();
    let (stop, seen) = (std::sync::atomic::AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let (mut low_hint, mut high_hint) = (Hint::default(), Hint::default());
                while !stop.load(Ordering::Relaxed) {
                    let before = map.word(ID);
                    if before.is_locked() {
                        continue;
                    }
                    let low = map.find(ID, 10, &mut low_hint).source;
                    let high = map.find(ID, 900, &mut high_hint).source;
                    if map.is_unchanged(ID, before) {
                        assert_eq!(low.plus(0), high.plus(0), "of version {}", before.version());
                        seen.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        for version in 1..200_000u64 {
            while map.try_lock(ID).is_none() {}
            let source = Source::Log(version * 2048 + 4096);
            // One piece more or less each time, so that blocks change.
            let step = 1 + version as usize % 7;
            let hint = &mut Hint::default();
            map.replace(ID, (100, 100 + step), Source::Zeros, hint, |_, _| ());
            map.replace(ID, (10, 11), source, hint, |_, _| ());
            map.replace(ID, (900, 901), source, hint, |_, _| ());
            map.unlock(ID, version);
        }
        // They may not have had a processor until now.
        while seen.load(Ordering::Relaxed) == 0 {
            std::thread::yield_now();
        }
        stop.store(true, Ordering::Relaxed);
    });
}
