//! How devices find slabs and give them back. The donors' part is the engine's [`Lending`], the choice its [`pick_two`], [`new_first`] and
//! [`Offer::is_better_than`].
//!
//! [`Lending`]: aquifer_remote::donor::lending::Lending

use aquifer_remote::borrower::placement::{Candidate, new_first, pick_two};
use aquifer_remote::control::{Offer, SlabId};

use crate::cluster::Cluster;
use crate::contender::Placer;
use crate::device::Held;
use crate::distribution::Distribution;

/// How unevenly the pages of one device are used: a factor for each of its slabs.
const SKEW: Distribution = Distribution::LogNormal { median: 1.0, sigma: 1.0, max: 100.0 };

impl Cluster<'_> {
    /// Borrows and gives back until device `nth` has what it should have, and spreads its bytes.
    pub(crate) fn adjust(&mut self, nth: u32) {
        let device = &self.devices[nth as usize];
        let (least, most) = device.slabs_wanted(self.scenario.slab_bytes);
        if !self.lends() || most == 0 && device.held.is_empty() {
            return;
        }
        // Nobody borrows for a machine that has just failed.
        let is_up = self.machine_of(nth).is_some_and(|own| self.machines[own as usize].is_up);
        while is_up && self.devices[nth as usize].held.len() < least {
            self.counters.requests += 1;
            let Some((machine, slab)) = self.find(nth) else {
                self.counters.refused += 1;
                break;
            };
            let skew = SKEW.draw(&mut self.rng);
            self.hold(nth, machine, slab, skew);
        }
        while self.devices[nth as usize].held.len() > most {
            self.give_back_last(nth);
        }
        self.spread(nth);
    }

    /// Notes that device `nth` has a slab.
    pub(crate) fn hold(&mut self, nth: u32, machine: u32, slab: SlabId, skew: f64) {
        let epoch = self.machines[machine as usize].epoch;
        let held = Held { machine, epoch, slab, bytes: 0, skew, asked: self.now };
        self.borrowed += 1;
        self.devices[nth as usize].held.push(held);
        self.note(machine);
    }

    /// Fills slabs in their order, and counts what is written.
    pub(crate) fn spread(&mut self, nth: u32) {
        let device = &mut self.devices[nth as usize];
        let mut left = device.far_bytes();
        for held in &mut device.held {
            let bytes = left.min(self.scenario.slab_bytes);
            left -= bytes;
            let stored = &mut self.machines[held.machine as usize].stored_bytes;
            *stored = *stored - held.bytes + bytes;
            self.counters.filled_bytes += bytes.saturating_sub(held.bytes);
            held.bytes = bytes;
        }
    }

    fn give_back_last(&mut self, nth: u32) {
        let device = &mut self.devices[nth as usize];
        let Some(held) = device.held.pop() else { return };
        let borrower = device.borrower(nth);
        let lending = &mut self.machines[held.machine as usize].lending;
        // Only slabs that nobody asked back are in `held`: they are wiped and lent again.
        if lending.give_back(borrower, held.slab) == Ok(false) {
            lending.wiped(held.slab);
        }
        self.counters.returned += 1;
        self.forget(&held);
        self.note(held.machine);
    }

    /// Takes a slab that its device does not have any more out of the sums.
    pub(crate) fn forget(&mut self, held: &Held) {
        self.machines[held.machine as usize].stored_bytes -= held.bytes;
        self.borrowed -= 1;
    }

    /// Device `nth` ends: its donors see its sessions end.
    pub(crate) fn leave_all(&mut self, nth: u32) {
        let device = &mut self.devices[nth as usize];
        let borrower = device.borrower(nth);
        device.generation += 1;
        let held = std::mem::take(&mut device.held);
        let leaving = std::mem::take(&mut device.leaving);
        for slab in &held {
            self.forget(slab);
            self.counters.returned += 1;
        }
        for donor in held.iter().chain(&leaving).map(|slab| slab.machine) {
            let lending = &mut self.machines[donor as usize].lending;
            for (slab, was_asked_back) in lending.leave(borrower) {
                if !was_asked_back {
                    lending.wiped(slab);
                }
            }
            self.note(donor);
        }
    }

    /// A slab of some donor for device `nth`, as the placer chooses.
    pub(crate) fn find(&mut self, nth: u32) -> Option<(u32, SlabId)> {
        let own = self.machine_of(nth)?;
        if self.contender.placer == Placer::Greedy {
            let machine = self.index.least_used(own)?;
            return self.reserve_best(nth, &[machine]);
        }
        let is_up = |donor: &u32| self.machines[*donor as usize].is_up;
        let donors: Vec<u32> = self.machines[own as usize].known.iter().copied().filter(is_up).collect();
        if !self.contender.placer.prefers_new() {
            return self.find_among(nth, donors);
        }
        let held = &self.devices[nth as usize].held;
        let (new, old) = new_first(donors, |donor| held.iter().any(|slab| slab.machine == *donor));
        self.find_among(nth, new).or_else(|| self.find_among(nth, old))
    }

    fn find_among(&mut self, nth: u32, mut donors: Vec<u32>) -> Option<(u32, SlabId)> {
        let mut candidates: Vec<Candidate> =
            donors.iter().map(|donor| self.machines[*donor as usize].candidate.clone()).collect();
        while !candidates.is_empty() {
            let (first, second) = match self.contender.placer {
                Placer::OneChoice => (self.rng.below(candidates.len() as u64) as usize, None),
                _ => pick_two(&candidates, [self.rng.next(), self.rng.next()]),
            };
            let asked: Vec<u32> =
                [Some(first), second].into_iter().flatten().map(|picked| donors[picked]).collect();
            if let Some(found) = self.reserve_best(nth, &asked) {
                return Some(found);
            }
            // Drops the donors that refused from the candidates.
            let (high, low) = (first.max(second.unwrap_or(first)), second.map(|second| first.min(second)));
            for refused in [Some(high), low].into_iter().flatten() {
                donors.swap_remove(refused);
                candidates.swap_remove(refused);
            }
        }
        None
    }

    /// A slab of the donor that is better off; the other's reservation goes back.
    fn reserve_best(&mut self, nth: u32, asked: &[u32]) -> Option<(u32, SlabId)> {
        let borrower = self.devices[nth as usize].borrower(nth);
        let mut best: Option<(u32, u64, Offer)> = None;
        for donor in asked {
            let lending = &mut self.machines[*donor as usize].lending;
            let offer = lending.offer();
            let Ok(reservation) = lending.reserve(borrower, self.now) else { continue };
            let other = match &best {
                Some((_, _, other)) if !self.contender.placer.prefers(&offer, other) => {
                    Some((*donor, reservation))
                }
                _ => best
                    .replace((*donor, reservation, offer))
                    .map(|(donor, reservation, _)| (donor, reservation)),
            };
            if let Some((donor, reservation)) = other {
                // It was reserved a moment ago, so it is there.
                let _ = self.machines[donor as usize].lending.cancel(borrower, reservation);
            }
        }
        let (donor, reservation, _) = best?;
        let slab = self.machines[donor as usize].lending.take(borrower, reservation, self.now).ok()?;
        Some((donor, slab))
    }
}
