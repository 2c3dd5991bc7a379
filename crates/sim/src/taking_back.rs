//! How donors take slabs back when programs of their machine need the RAM: the engine's [`Lending::shrink`], [`any_of`] and [`least_active`].
//!
//! [`Lending::shrink`]: aquifer_remote::donor::lending::Lending::shrink

use aquifer_remote::control::SlabId;
use aquifer_remote::donor::lending::{BorrowerId, any_of, least_active};

use crate::cluster::Cluster;
use crate::device::Device;
use crate::event::Event;

impl Cluster<'_> {
    /// A donor looks at its memory: it lends more, or takes slabs back.
    pub(crate) fn look(&mut self, nth: u32) {
        let (lends, slab_bytes) = (self.lends(), self.scenario.slab_bytes);
        let machine = &mut self.machines[nth as usize];
        if !lends || !machine.is_up {
            return;
        }
        self.counters.looks += 1;
        let wanted = machine.look(self.scenario.headroom_bytes, slab_bytes);
        let (_, mut left) = machine.lending.shrink(wanted);
        self.counters.short += u64::from(machine.is_short(slab_bytes));
        self.note(nth);
        while left > 0 {
            let evicted = left.min(self.contender.eviction.evicted);
            let chosen = self.choose(nth, evicted);
            if chosen.is_empty() {
                break;
            }
            left -= chosen.len();
            chosen.into_iter().for_each(|(slab, borrower)| self.ask_back(nth, slab, borrower));
            self.note(nth);
        }
    }

    /// The least active of some random slabs, as their borrowers say.
    fn choose(&mut self, nth: u32, evicted: usize) -> Vec<(SlabId, BorrowerId)> {
        let candidates = self.machines[nth as usize].lending.candidates();
        let heats: Vec<f64> =
            candidates.iter().map(|(slab, borrower)| self.heat_of(nth, *slab, *borrower)).collect();
        let asked = any_of(candidates, evicted + self.contender.eviction.asked_more, || self.rng.next());
        let measure = self.scenario.activity;
        let mut activity = Vec::with_capacity(asked.len());
        for (slab, borrower) in &asked {
            let device = Device::nth_of(*borrower);
            let uses_per_s = self.uses_per_s(device);
            let mut slabs = self.devices[device as usize].held.iter_mut();
            let held = slabs.find(|held| held.machine == nth && held.slab == *slab);
            activity.push((*slab, held.map_or(0, |held| held.uses(self.now, measure, uses_per_s))));
        }
        let chosen = least_active(activity, evicted);
        let chosen: Vec<_> = asked.into_iter().filter(|(slab, _)| chosen.contains(slab)).collect();
        for (slab, borrower) in &chosen {
            self.counters.evicted_rank += rank(self.heat_of(nth, *slab, *borrower), &heats);
        }
        chosen
    }

    /// How active a slab truly is, which no donor knows.
    fn heat_of(&self, nth: u32, slab: SlabId, borrower: BorrowerId) -> f64 {
        let device = Device::nth_of(borrower);
        let mut slabs = self.devices[device as usize].held.iter();
        let held = slabs.find(|held| held.machine == nth && held.slab == slab);
        held.map_or(0.0, |held| held.heat(self.uses_per_s(device)))
    }

    /// A donor asks a slab back; its borrower begins to move the bytes to another donor. If there is none, it gives the slab back at once: the bytes are on its
    /// disk.
    fn ask_back(&mut self, nth: u32, slab: SlabId, borrower: BorrowerId) {
        let until = self.now + self.scenario.leave_within;
        self.machines[nth as usize].lending.ask_back(slab, until);
        self.counters.evictions += 1;
        let borrowing = Device::nth_of(borrower);
        let device = &mut self.devices[borrowing as usize];
        let generation = device.generation;
        let Some(at) = device.held.iter().position(|held| held.machine == nth && held.slab == slab) else {
            return;
        };
        let old = device.held.remove(at);
        self.forget(&old);
        let Some((machine, new)) = self.find(borrowing) else {
            self.counters.dropped += 1;
            // `true`: it was asked back, so that it is freed and not lent again.
            let _ = self.machines[nth as usize].lending.give_back(borrower, slab);
            return self.spread(borrowing);
        };
        self.counters.moved += 1;
        self.counters.moved_bytes += old.bytes;
        self.hold(borrowing, machine, new, old.skew);
        let device = &mut self.devices[borrowing as usize];
        // The bytes keep their place in the order.
        if let Some(mut held) = device.held.pop() {
            held.bytes = old.bytes;
            device.held.insert(at, held);
        }
        let epoch = old.epoch;
        device.leaving.push(old.clone());
        self.machines[machine as usize].stored_bytes += old.bytes;
        let event = Event::Moved { device: borrowing, generation, machine: nth, epoch, slab };
        self.queue.add(self.now + self.scenario.move_time(), event);
        if self.scenario.move_time() > self.scenario.leave_within {
            self.queue.add(until, Event::Overdue { machine: nth });
        }
    }

    /// The bytes of a slab have moved: it goes back, and the donor frees it.
    ///
    /// # Errors
    /// The donor does not know that it asked for the slab.
    pub(crate) fn moved(
        &mut self,
        borrowing: u32,
        generation: u32,
        machine: u32,
        epoch: u32,
        slab: SlabId,
    ) -> Result<(), String> {
        let device = &mut self.devices[borrowing as usize];
        // It ended, its donor failed, or did not wait.
        let Some(at) = device.leaving.iter().position(|held| held.is(machine, epoch, slab)) else {
            return Ok(());
        };
        if device.generation != generation {
            return Err(format!("device {borrowing} has a slab of before it ended"));
        }
        device.leaving.swap_remove(at);
        let borrower = device.borrower(borrowing);
        match self.machines[machine as usize].lending.give_back(borrower, slab) {
            Ok(true) => Ok(()),
            other => Err(format!("machine {machine} did not wait for slab {}: {other:?}", slab.0)),
        }
    }

    /// A donor ends the sessions of borrowers that did not leave in time: all that they have there is gone.
    pub(crate) fn force(&mut self, nth: u32) {
        let overdue = self.machines[nth as usize].lending.overdue(self.now);
        for (_, borrower) in overdue {
            let lending = &mut self.machines[nth as usize].lending;
            for (slab, was_asked_back) in lending.leave(borrower) {
                self.counters.forced += 1;
                if !was_asked_back {
                    lending.wiped(slab);
                }
            }
            let device = Device::nth_of(borrower);
            self.lose(device, nth);
            self.adjust(device);
        }
        self.note(nth);
    }

    /// A device has nothing any more at donor `nth`; how many slabs it had in use there.
    pub(crate) fn lose(&mut self, device: u32, nth: u32) -> u64 {
        let device = &mut self.devices[device as usize];
        device.leaving.retain(|held| held.machine != nth);
        let (gone, kept) = std::mem::take(&mut device.held).into_iter().partition(|held| held.machine == nth);
        device.held = kept;
        let gone: Vec<_> = gone;
        gone.iter().for_each(|held| self.forget(held));
        gone.len() as u64
    }
}

/// The share of others that are less: from 0 to 1, and 0.5 for one that has no others.
fn rank(one: f64, all: &[f64]) -> f64 {
    let less = all.iter().filter(|other| **other < one).count();
    if all.len() < 2 { 0.5 } else { less as f64 / (all.len() - 1) as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_go_from_the_least_to_the_most_active() {
        let all = [3.0, 1.0, 2.0];
        assert_eq!([1.0, 2.0, 3.0].map(|one| rank(one, &all)), [0.0, 0.5, 1.0]);
        assert_eq!(rank(7.0, &[7.0]), 0.5);
    }
}
