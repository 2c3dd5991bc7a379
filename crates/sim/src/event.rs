//! What happens in a cluster, and what follows from it.

use std::time::Duration;

use aquifer_remote::control::SlabId;
use aquifer_remote::donor::lending::Moment;

use aquifer_base::random::Random;

use crate::cluster::Cluster;

/// Something that happens at a moment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// A container starts, or tries to once more.
    Start {
        /// Where containers come one after the other.
        place: u32,
        /// Which of them.
        generation: u32,
        /// How often it found no room.
        attempt: u32,
    },
    /// A container's time is over.
    End {
        /// Of which place.
        place: u32,
        /// Which container.
        generation: u32,
    },
    /// A machine is looked at.
    Tick {
        /// Which.
        machine: u32,
    },
    /// The bytes of a slab have arrived at another donor.
    Moved {
        /// Whose.
        device: u32,
        /// How often the device had ended.
        generation: u32,
        /// The donor that asked for the slab.
        machine: u32,
        /// How often it had failed.
        epoch: u32,
        /// Which slab.
        slab: SlabId,
    },
    /// A donor waits no longer for slabs that it asked back.
    Overdue {
        /// Which donor.
        machine: u32,
    },
    /// A machine fails.
    Fail {
        /// Which.
        machine: u32,
        /// How often it failed before by itself.
        nth: u32,
    },
    /// A rack fails.
    FailRack {
        /// Which.
        rack: u32,
        /// How often it failed before.
        nth: u32,
    },
    /// A machine is back.
    Repaired {
        /// Which.
        machine: u32,
        /// How often it had failed.
        epoch: u32,
    },
    /// Measure.
    Sample,
}

impl Cluster<'_> {
    pub(crate) fn expect_first_events(&mut self) {
        let (scenario, seed) = (self.scenario, self.scenario.seed);
        for place in 0..self.containers.len() as u32 {
            let at = seconds(scenario.load.start_s(seed, place));
            self.queue.add(at, Event::Start { place, generation: 0, attempt: 0 });
        }
        for machine in 0..self.machines.len() as u32 {
            self.look(machine);
            // Machines do not look all at the same moment.
            let at = scenario.step.mul_f64(Random::of(&[seed, machine.into()]).unit());
            self.queue.add(at, Event::Tick { machine });
            self.expect_failure(machine, 0);
        }
        let racks = self.machines.len().div_ceil(scenario.rack_machines.max(1)) as u32;
        (0..racks).for_each(|rack| self.expect_rack_failure(rack, 0));
        self.queue.add(scenario.counted_from, Event::Sample);
    }

    /// Does what an event says. [`Event::Sample`] is for who measures.
    ///
    /// # Errors
    /// What should be equal and is not.
    pub(crate) fn happen(&mut self, event: Event) -> Result<(), String> {
        match event {
            Event::Start { place, generation, attempt } => self.start(place, generation, attempt),
            Event::End { place, generation } => self.end_in_time(place, generation),
            Event::Tick { machine } => self.tick(machine),
            Event::Moved { device, generation, machine, epoch, slab } => {
                return self.moved(device, generation, machine, epoch, slab);
            }
            Event::Overdue { machine } => self.force(machine),
            Event::Fail { machine, nth } => {
                self.fail(machine, nth);
                self.expect_failure(machine, nth + 1);
            }
            Event::FailRack { rack, nth } => {
                self.fail_rack(rack, nth);
                self.expect_rack_failure(rack, nth + 1);
            }
            Event::Repaired { machine, epoch } => self.repaired(machine, epoch),
            Event::Sample => {}
        }
        Ok(())
    }
}

/// A moment that may be beyond all time.
pub(crate) fn seconds(seconds: f64) -> Moment {
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX / 4)
}
