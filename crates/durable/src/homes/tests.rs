use super::*;

/// Not even behind the last slot of a partition or of an area.
#[test]
fn no_byte_is_of_two_slots() {
    for code in [1, 25, 26, 700, 1024, 1025, 1030, CLASSES as u16 - 1] {
        let (homes, class) = (Homes::new(256 << 30), SizeClass(code));
        homes.restore_area(3, code, std::iter::empty());
        let mut end = 0;
        for slot in 0..class.slots() {
            let first = area_start(3).plus_bytes(class.slot_offset(slot));
            if first.0 > end && slot > 0 {
                assert!(homes.check(HomeAddress(end), 1).is_err(), "class {code}, slot {slot}");
            }
            end = first.0 + class.slot_bytes();
            assert!(homes.check(first, class.slot_bytes() as usize).is_ok());
            assert!(homes.check(HomeAddress(end - 1), 2).is_err(), "class {code}, slot {slot}");
            assert_eq!(homes.slot_from(HomeAddress(first.0 + 1)).is_some(), slot + 1 < class.slots());
            assert_eq!(homes.slot_from(first), Some((first, class)));
        }
        assert!(homes.check(area_start(4), 1).is_err() && homes.check(area_start(2), 1).is_err());
    }
    assert!(Homes::new(256 << 30).check(ROOT, 8).is_ok());
}

/// What was free is free again, and nothing else.
#[test]
fn an_area_is_restored_from_its_holes() {
    let class = SizeClass::for_bytes(100);
    let begun = |slot| area_start(1).plus_bytes(class.slot_offset(slot));
    let homes = Homes::new(256 << 30);
    // Slots 0, 1 and 45 are taken; there are 40 in a partition.
    let holes = [(begun(1).plus_bytes(100), begun(45)), (begun(45).plus_bytes(100), area_start(2))];
    homes.restore_area(1, class.0, holes.into_iter());
    let mut others = Vec::new();
    let mut found: Vec<_> = (0..50)
        .map(|_| match others.pop().map_or_else(|| homes.take(class, &mut others), Taken::Slot) {
            Taken::Slot(home) => home,
            other => panic!("{other:?}"),
        })
        .collect();
    found.sort();
    let expected: Vec<_> = (2..45).chain(46..53).map(begun).collect();
    assert_eq!(found, expected);
}

#[test]
fn an_area_that_was_given_up_is_asked_for_again() {
    let (homes, mut others) = (Homes::new(256 << 30), Vec::new());
    for class in [SizeClass::for_bytes(100), SizeClass::for_bytes(5000)] {
        for _ in 0..16_384 + 9 {
            let Taken::NeedsArea(area) = homes.take(class, &mut others) else { panic!("no area is left") };
            homes.give_up_area(area);
        }
    }
}

#[test]
fn slots_are_given_out_once() {
    let homes = Homes::new(256 << 30);
    let class = SizeClass::for_bytes(100);
    let mut others = Vec::new();
    let Taken::NeedsArea(area) = homes.take(class, &mut others) else { panic!("there is no area yet") };
    assert_eq!(area, 1);
    homes.add_area(area, class);
    let mut seen = std::collections::HashSet::new();
    for _ in 0..1000 {
        let Taken::Slot(home) = homes.take(class, &mut others) else { panic!("an area has more") };
        for home in others.drain(..).chain([home]) {
            assert!(seen.insert(home) && homes.slot_at(home) == Some(class));
        }
    }
    let home = *seen.iter().next().expect("a thousand");
    homes.give_back(class, std::iter::once(home));
    assert_eq!(homes.take(class, &mut others), Taken::Slot(home));
}

/// Slots go out of the list and back, and are of an area that is given out for the first time.
#[test]
fn an_area_loses_its_class_when_all_of_its_slots_are_free() {
    let (homes, mut others) = (Homes::new(256 << 30), Vec::new());
    let classes = [100, 5000, 6 << 20].map(SizeClass::for_bytes);
    let full = |class| {
        let (mut taken, mut others) = (Vec::new(), Vec::new());
        while let Taken::Slot(home) = homes.take(class, &mut others) {
            taken.extend(others.drain(..).chain([home]));
        }
        taken
    };
    homes.end_with(1);
    assert!(homes.vacate(), "it is spare");
    for (n, &class) in classes.iter().enumerate() {
        for _ in 0..3 {
            let Taken::NeedsArea(1) = homes.take(class, &mut others) else { panic!("there is one area") };
            homes.add_area(1, class);
            let first = full(class);
            assert!(!first.is_empty() && !homes.vacate());
            homes.give_back(class, first[1..].iter().copied());
            assert!(!homes.vacate() && homes.class_of(1) == Some(class));
            let again = full(class);
            homes.give_back(class, again.into_iter().chain([first[0]]));
            assert_eq!(homes.take(classes[(n + 1) % 3], &mut others), Taken::Exhausted);
            assert!(homes.vacate() && homes.class_of(1).is_none());
        }
    }
    assert!(others.is_empty());
}
