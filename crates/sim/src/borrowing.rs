//! How containers find slabs and give them back. The donors' part is the engine's [`Lending`], the choice its [`pick_two`] and [`Offer::is_better_than`].
//!
//! [`Lending`]: aquifer_remote::donor::lending::Lending

use aquifer_remote::borrower::placement::{Candidate, pick_two};
use aquifer_remote::control::{Offer, SlabId};

use crate::cluster::Cluster;
use crate::container::Held;
use crate::contender::Placer;
use crate::distribution::Distribution;
use crate::load::GIB;

/// How unevenly the pages of one container are used: a factor for each of its slabs.
const SKEW: Distribution = Distribution::LogNormal { median: 1.0, sigma: 1.0, max: 100.0 };

impl Cluster<'_> {
    /// Borrows and gives back until a container has what it should have, and spreads its bytes.
    pub(crate) fn adjust(&mut self, place: u32) {
        let container = &self.containers[place as usize];
        let (least, most) = container.slabs_wanted(self.scenario.slab_bytes);
        if !self.lends() || most == 0 && container.held.is_empty() {
            return;
        }
        while self.containers[place as usize].held.len() < least {
            self.counters.requests += 1;
            let Some((machine, slab)) = self.find(place) else {
                self.counters.refused += 1;
                break;
            };
            let uses_per_gib_s = self.containers[place as usize].spec.uses_per_gib_s;
            let size_gib = self.scenario.slab_bytes as f64 / GIB;
            let heat = uses_per_gib_s * size_gib * SKEW.draw(&mut self.rng);
            self.hold(place, machine, slab, heat);
        }
        while self.containers[place as usize].held.len() > most {
            self.give_back_last(place);
        }
        self.spread(place);
    }

    /// Notes that a container has a slab.
    pub(crate) fn hold(&mut self, place: u32, machine: u32, slab: SlabId, heat: f64) {
        let epoch = self.machines[machine as usize].epoch;
        let held = Held { machine, epoch, slab, bytes: 0, heat, asked: self.now };
        self.heat += heat;
        self.borrowed += 1;
        self.containers[place as usize].held.push(held);
        self.note(machine);
    }

    /// Fills slabs in their order, and counts what is written.
    pub(crate) fn spread(&mut self, place: u32) {
        let container = &mut self.containers[place as usize];
        let mut left = container.far_bytes();
        for held in &mut container.held {
            let bytes = left.min(self.scenario.slab_bytes);
            left -= bytes;
            let stored = &mut self.machines[held.machine as usize].stored_bytes;
            *stored = *stored - held.bytes + bytes;
            self.counters.filled_bytes += bytes.saturating_sub(held.bytes);
            held.bytes = bytes;
        }
    }

    fn give_back_last(&mut self, place: u32) {
        let container = &mut self.containers[place as usize];
        let Some(held) = container.held.pop() else { return };
        let borrower = container.borrower(place);
        let lending = &mut self.machines[held.machine as usize].lending;
        // Only slabs that nobody asked back are in `held`: they are wiped and lent again.
        if lending.give_back(borrower, held.slab) == Ok(false) {
            lending.wiped(held.slab);
        }
        self.counters.returned += 1;
        self.forget(&held);
        self.note(held.machine);
    }

    /// Takes a slab that its container does not have any more out of the sums.
    pub(crate) fn forget(&mut self, held: &Held) {
        self.machines[held.machine as usize].stored_bytes -= held.bytes;
        self.heat -= held.heat;
        self.borrowed -= 1;
    }

    /// A container ends: its donors see its sessions end.
    pub(crate) fn leave_all(&mut self, place: u32) {
        let container = &mut self.containers[place as usize];
        let borrower = container.borrower(place);
        let held = std::mem::take(&mut container.held);
        let leaving = std::mem::take(&mut container.leaving);
        for slab in &held {
            self.forget(slab);
            self.counters.returned += 1;
        }
        for nth in held.iter().chain(&leaving).map(|slab| slab.machine) {
            let lending = &mut self.machines[nth as usize].lending;
            for (slab, was_asked_back) in lending.leave(borrower) {
                if !was_asked_back {
                    lending.wiped(slab);
                }
            }
            self.note(nth);
        }
    }

    /// A slab of some donor, as the placer chooses.
    pub(crate) fn find(&mut self, place: u32) -> Option<(u32, SlabId)> {
        let own = self.containers[place as usize].machine?;
        if self.contender.placer == Placer::Greedy {
            let machine = self.index.least_used(own)?;
            return self.reserve_best(place, &[machine]);
        }
        let is_up = |nth: &u32| self.machines[*nth as usize].is_up;
        let mut donors: Vec<u32> = self.machines[own as usize].known.iter().copied().filter(is_up).collect();
        let mut candidates: Vec<Candidate> =
            donors.iter().map(|nth| self.machines[*nth as usize].candidate.clone()).collect();
        while !candidates.is_empty() {
            let (first, second) = match self.contender.placer {
                Placer::TwoChoices => pick_two(&candidates, [self.rng.next(), self.rng.next()]),
                _ => (self.rng.below(candidates.len() as u64) as usize, None),
            };
            let asked: Vec<u32> =
                [Some(first), second].into_iter().flatten().map(|nth| donors[nth]).collect();
            if let Some(found) = self.reserve_best(place, &asked) {
                return Some(found);
            }
            // Drops the donors that refused from the candidates.
            let (high, low) = (first.max(second.unwrap_or(first)), second.map(|second| first.min(second)));
            for nth in [Some(high), low].into_iter().flatten() {
                donors.swap_remove(nth);
                candidates.swap_remove(nth);
            }
        }
        None
    }

    /// A slab of the donor that is better off; the other's reservation goes back.
    fn reserve_best(&mut self, place: u32, asked: &[u32]) -> Option<(u32, SlabId)> {
        let borrower = self.containers[place as usize].borrower(place);
        let mut best: Option<(u32, u64, Offer)> = None;
        for nth in asked {
            let lending = &mut self.machines[*nth as usize].lending;
            let offer = lending.offer();
            let Ok(reservation) = lending.reserve(borrower, self.now) else { continue };
            let other = match &best {
                Some((_, _, other)) if !offer.is_better_than(other) => Some((*nth, reservation)),
                _ => best.replace((*nth, reservation, offer)).map(|(nth, reservation, _)| (nth, reservation)),
            };
            if let Some((nth, reservation)) = other {
                // It was reserved a moment ago, so it is there.
                let _ = self.machines[nth as usize].lending.cancel(borrower, reservation);
            }
        }
        let (nth, reservation, _) = best?;
        let slab = self.machines[nth as usize].lending.take(borrower, reservation, self.now).ok()?;
        Some((nth, slab))
    }
}
