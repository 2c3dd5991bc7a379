//! Slots that a session has to itself, so that threads allocate in partitions of their own: two that write to the same one wait for each
//! other.

use aquifer_base::HomeAddress;

use crate::homes::{Homes, SizeClass, Taken};

/// Slots of a class that a session keeps of those that were given back.
const KEPT: usize = 64;

/// The slots of a session, by their class. They are free to everybody again when the heap is opened the next time.
#[derive(Default)]
pub(crate) struct Supply(Vec<Vec<HomeAddress>>);

impl Supply {
    fn of(&mut self, class: SizeClass) -> &mut Vec<HomeAddress> {
        let place = usize::from(class.0);
        if self.0.len() <= place {
            self.0.resize_with(place + 1, Vec::new);
        }
        &mut self.0[place]
    }

    /// Takes a slot, from those of the heap if there is none.
    pub(crate) fn take(&mut self, homes: &Homes, class: SizeClass) -> Taken {
        let slots = self.of(class);
        match slots.pop() {
            Some(home) => Taken::Slot(home),
            None => homes.take(class, slots),
        }
    }

    /// Takes a slot back that nothing is allocated in.
    pub(crate) fn give_back(&mut self, homes: &Homes, home: HomeAddress) {
        let Some(class) = homes.slot_at(home) else { return };
        let slots = self.of(class);
        slots.push(home);
        if slots.len() > KEPT {
            homes.give_back(class, slots.drain(..KEPT / 2));
        }
    }

    /// Gives all slots to everybody.
    pub(crate) fn give_all_back(&mut self, homes: &Homes) {
        for (code, slots) in (0..).zip(&mut self.0) {
            if let Some(class) = SizeClass::from_code(code).filter(|_| !slots.is_empty()) {
                homes.give_back(class, slots.drain(..));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(supply: &mut Supply, homes: &Homes, class: SizeClass) -> HomeAddress {
        match supply.take(homes, class) {
            Taken::Slot(home) => home,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn each_session_has_partitions_of_its_own() {
        let (homes, class) = (Homes::new(256 << 30), SizeClass::for_bytes(100));
        let mut supplies = [Supply::default(), Supply::default()];
        let Taken::NeedsArea(area) = supplies[0].take(&homes, class) else { panic!("there is no area yet") };
        homes.add_area(area, class);
        for _ in 0..200 {
            let [first, second] = supplies.each_mut().map(|supply| slot(supply, &homes, class).partition());
            assert_ne!(first, second);
        }
    }

    #[test]
    fn what_one_gives_back_another_gets() {
        let (homes, class) = (Homes::new(256 << 30), SizeClass::for_bytes(5000));
        let [mut first, mut second] = [Supply::default(), Supply::default()];
        let Taken::NeedsArea(area) = first.take(&homes, class) else { panic!("there is no area yet") };
        homes.add_area(area, class);
        let taken: Vec<_> = (0..300).map(|_| slot(&mut first, &homes, class)).collect();
        taken.iter().for_each(|&home| first.give_back(&homes, home));
        let again: Vec<_> = (0..300 - KEPT).map(|_| slot(&mut second, &homes, class)).collect();
        assert!(again.iter().all(|home| taken.contains(home)), "there were others to give");
    }
}
