//! Machines that fail, and come back empty.

use std::collections::BTreeSet;

use aquifer_remote::donor::lending::{BorrowerId, Lending, Moment};

use aquifer_base::random::Random;

use crate::cluster::{Cluster, FAILURES};
use crate::device::Device;
use crate::event::{Event, seconds};
use crate::scenario::Borrowers;

/// Until a container starts again whose machine failed.
const RESTART: Moment = Moment::from_secs(60);
/// Failures of racks are told from those of single machines by their numbers.
const RACK_NAMES: u32 = 1 << 20;

impl Cluster<'_> {
    pub(crate) fn expect_failure(&mut self, machine: u32, nth: u32) {
        let Some(failures) = &self.scenario.failures else { return };
        let mut rng = Random::of(&[self.scenario.seed, FAILURES, machine.into(), nth.into()]);
        let after = seconds(failures.machine_s.draw(&mut rng));
        self.queue.add(self.now + after, Event::Fail { machine, nth });
    }

    pub(crate) fn expect_rack_failure(&mut self, rack: u32, nth: u32) {
        let Some(failures) = &self.scenario.failures else { return };
        let mut rng = Random::of(&[self.scenario.seed, FAILURES + 1, rack.into(), nth.into()]);
        let after = seconds(failures.rack_s.draw(&mut rng));
        self.queue.add(self.now + after, Event::FailRack { rack, nth });
    }

    /// All machines of a rack fail at once.
    pub(crate) fn fail_rack(&mut self, rack: u32, nth: u32) {
        let size = self.scenario.rack_machines.max(1) as u32;
        let all = rack * size..((rack + 1) * size).min(self.machines.len() as u32);
        let up: Vec<u32> = all.filter(|machine| self.machines[*machine as usize].is_up).collect();
        // Nobody borrows from a neighbour that goes at the same moment.
        up.iter().for_each(|machine| self.machines[*machine as usize].is_up = false);
        up.into_iter().for_each(|machine| self.go_down(machine, RACK_NAMES + nth));
    }

    /// A machine fails by itself, if it has not failed with its rack.
    pub(crate) fn fail(&mut self, machine: u32, nth: u32) {
        if std::mem::take(&mut self.machines[machine as usize].is_up) {
            self.go_down(machine, nth);
        }
    }

    /// The containers of a machine end and start again elsewhere, borrowers lose the slabs that it lent.
    fn go_down(&mut self, nth: u32, name: u32) {
        let Some(failures) = &self.scenario.failures else { return };
        let mut rng = Random::of(&[self.scenario.seed, FAILURES + 2, nth.into(), name.into()]);
        let repaired = self.now + seconds(failures.repair_s.draw(&mut rng));
        self.counters.failures += 1;
        let places = self.machines[nth as usize].places.clone();
        if self.scenario.borrowers == Borrowers::Machines {
            self.leave_all(nth);
        }
        places.into_iter().for_each(|place| self.end(place, RESTART));
        let machine = &mut self.machines[nth as usize];
        let borrowers = borrowers(&machine.lending);
        machine.lending = Lending::new(u64::MAX);
        machine.epoch += 1;
        let epoch = machine.epoch;
        self.note(nth);
        let devices: Vec<u32> = borrowers.into_iter().map(Device::nth_of).collect();
        for device in &devices {
            self.counters.lost += self.lose(*device, nth);
        }
        devices.into_iter().for_each(|device| self.adjust(device));
        self.queue.add(repaired, Event::Repaired { machine: nth, epoch });
    }

    /// A machine is back, with nothing in its memory.
    pub(crate) fn repaired(&mut self, nth: u32, epoch: u32) {
        let machine = &mut self.machines[nth as usize];
        if machine.epoch == epoch {
            machine.is_up = true;
            self.look(nth);
        }
    }
}

/// Everybody who has a slab, also one that was asked back.
fn borrowers(lending: &Lending) -> BTreeSet<BorrowerId> {
    let leaving = lending.overdue(Moment::MAX);
    lending.candidates().into_iter().chain(leaving).map(|(_, borrower)| borrower).collect()
}
