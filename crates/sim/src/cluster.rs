//! The state of a cluster: machines, containers, and who lends what to whom.

use aquifer_remote::borrower::placement::Candidate;
use aquifer_remote::donor::lending::{Lending, Moment};

use aquifer_base::random::Random;

use crate::contender::{Contender, Index, Placer};
use crate::counters::Counters;
use crate::device::Device;
use crate::event::Event;
use crate::machine::{Container, Machine};
use crate::queue::EventQueue;
use crate::scenario::{Borrowers, Scenario};

/// A cluster at a moment.
#[derive(Debug)]
pub struct Cluster<'a> {
    pub(crate) scenario: &'a Scenario,
    pub(crate) contender: Contender,
    pub(crate) machines: Vec<Machine>,
    pub(crate) containers: Vec<Container>,
    /// Of each machine or of each container, as the scenario has it.
    pub(crate) devices: Vec<Device>,
    pub(crate) queue: EventQueue<Event>,
    pub(crate) counters: Counters,
    pub(crate) now: Moment,
    /// Choices of placers and donors. The load and the failures have sequences of their own.
    pub(crate) rng: Random,
    pub(crate) index: Index,
    /// Slabs that devices have.
    pub(crate) borrowed: u64,
}

/// What a seed decides beside the load, which is named by place and generation.
const MACHINES: u64 = 1 << 40;
const KNOWN: u64 = 2 << 40;
const CHOICES: u64 = 3 << 40;
pub(crate) const FAILURES: u64 = 4 << 40;
pub(crate) const ADMISSION: u64 = 5 << 40;

impl<'a> Cluster<'a> {
    /// Machines without containers, and containers that wait for their start.
    #[must_use]
    pub fn new(scenario: &'a Scenario, contender: Contender) -> Cluster<'a> {
        let machines: Vec<_> = (0..scenario.machines).map(|nth| machine(scenario, nth as u32)).collect();
        let memory = machines.iter().map(|machine| machine.capacity_bytes).sum();
        let places = scenario.load.places(scenario.seed, memory);
        let container = |place| Container {
            spec: scenario.load.spec(scenario.seed, place, 0),
            generation: 0,
            machine: None,
            started: Moment::ZERO,
            local_bytes: 0,
            over_bytes: 0,
            kept_bytes: 0,
        };
        let devices = match scenario.borrowers {
            Borrowers::Machines => scenario.machines,
            Borrowers::Containers => places as usize,
        };
        let mut cluster = Cluster {
            scenario,
            contender,
            machines,
            containers: (0..places).map(container).collect(),
            devices: (0..devices).map(|_| Device::default()).collect(),
            queue: EventQueue::new(),
            counters: Counters::default(),
            now: Moment::ZERO,
            rng: Random::of(&[scenario.seed, CHOICES]),
            index: Index::default(),
            borrowed: 0,
        };
        cluster.expect_first_events();
        cluster
    }

    /// Whether machines lend at all.
    pub(crate) fn lends(&self) -> bool {
        self.contender.placer != Placer::Nobody
    }

    /// The device that borrows for a place whose container runs.
    fn device_of(&self, place: u32) -> Option<u32> {
        match self.scenario.borrowers {
            Borrowers::Machines => self.containers[place as usize].machine,
            Borrowers::Containers => Some(place),
        }
    }

    /// The machine of a device; none of a container that does not run.
    pub(crate) fn machine_of(&self, device: u32) -> Option<u32> {
        match self.scenario.borrowers {
            Borrowers::Machines => Some(device),
            Borrowers::Containers => self.containers[device as usize].machine,
        }
    }

    /// The containers that a device borrows for.
    pub(crate) fn containers_of(&self, device: u32) -> impl Iterator<Item = &Container> {
        let (one, many) = match self.scenario.borrowers {
            Borrowers::Machines => (None, self.machines[device as usize].places.as_slice()),
            Borrowers::Containers => (Some(device), [].as_slice()),
        };
        one.into_iter().chain(many.iter().copied()).map(|place| &self.containers[place as usize])
    }

    /// Pages of bytes that are nowhere else, read and written in a second in each full slab of a device.
    pub(crate) fn uses_per_s(&self, device: u32) -> f64 {
        let far_bytes = self.devices[device as usize].far_bytes();
        if far_bytes == 0 {
            return 0.0;
        }
        let uses = self.containers_of(device).map(Container::uses_per_s).sum::<f64>();
        uses * self.scenario.slab_bytes as f64 / far_bytes as f64
    }

    /// The central placer hears of a change.
    pub(crate) fn note(&mut self, machine: u32) {
        if self.contender.placer == Placer::Greedy {
            self.index.note(machine, &self.machines[machine as usize], self.scenario.slab_bytes);
        }
    }

    /// Sets what a container has on its machine and what beside it.
    fn set_bytes(&mut self, place: u32, machine: u32, local_bytes: u64, over_bytes: u64, kept_bytes: u64) {
        let device = self.device_of(place);
        let container = &mut self.containers[place as usize];
        let own = &mut self.machines[machine as usize].own_bytes;
        *own = *own - container.local_bytes + local_bytes;
        if let Some(device) = device {
            let device = &mut self.devices[device as usize];
            device.over_bytes = device.over_bytes - container.over_bytes + over_bytes;
            device.kept_bytes = device.kept_bytes - container.kept_bytes + kept_bytes;
        }
        container.local_bytes = local_bytes;
        container.over_bytes = over_bytes;
        container.kept_bytes = kept_bytes;
    }

    /// Looks at a container's working set, then borrows and gives back what follows.
    pub(crate) fn update(&mut self, place: u32) {
        let container = &self.containers[place as usize];
        let Some(machine) = container.machine else { return };
        // What it will need until the next look.
        let age = (self.now - container.started + self.scenario.step).as_secs_f64();
        let spec = &container.spec;
        let kind = &self.scenario.load.kinds[spec.kind];
        let working_set = spec.working_set(kind, self.now, age);
        let local = working_set.min(spec.limit_bytes);
        let over = working_set - local;
        let kept = kind.kept.bytes(local, over);
        self.set_bytes(place, machine, local, over, kept);
        if let Some(device) = self.device_of(place) {
            self.adjust(device);
        }
    }

    /// A container starts on a machine that has room for its limit, or tries again later.
    pub(crate) fn start(&mut self, place: u32, generation: u32, attempt: u32) {
        let container = &self.containers[place as usize];
        if container.generation != generation || container.machine.is_some() {
            return;
        }
        let limit = container.spec.limit_bytes;
        let mut rng =
            Random::of(&[self.scenario.seed, ADMISSION, place.into(), generation.into(), attempt.into()]);
        let Some(nth) = self.room_for(limit, &mut rng) else {
            self.counters.waits += 1;
            let event = Event::Start { place, generation, attempt: attempt + 1 };
            return self.queue.add(self.now + RETRY, event);
        };
        self.counters.starts += 1;
        let machine = &mut self.machines[nth as usize];
        machine.reserved_bytes += limit;
        machine.places.push(place);
        let container = &mut self.containers[place as usize];
        container.machine = Some(nth);
        container.started = self.now;
        let ends = self.now + Moment::from_secs_f64(container.spec.lifetime_s);
        self.queue.add(ends, Event::End { place, generation });
        self.update(place);
        self.look(nth);
    }

    /// A random machine that has `bytes` left to reserve.
    fn room_for(&self, bytes: u64, rng: &mut Random) -> Option<u32> {
        let count = self.machines.len();
        let has_room = |nth: &usize| {
            let machine = &self.machines[*nth];
            machine.is_up && machine.reserved_bytes + bytes <= machine.capacity_bytes
        };
        let tries = (0..TRIES).map(|_| rng.below(count as u64) as usize).find(has_room);
        // Nearly full: the next that has room after a random one.
        let first = rng.below(count as u64) as usize;
        tries.or_else(|| (0..count).map(|nth| (first + nth) % count).find(has_room)).map(|nth| nth as u32)
    }

    /// A container ends, by itself or with its machine, and its place waits for the next one.
    pub(crate) fn end(&mut self, place: u32, pause: Moment) {
        let Some(nth) = self.containers[place as usize].machine else { return };
        match self.scenario.borrowers {
            Borrowers::Containers => {
                self.leave_all(place);
                self.set_bytes(place, nth, 0, 0, 0);
            }
            Borrowers::Machines => {
                self.set_bytes(place, nth, 0, 0, 0);
                self.adjust(nth);
            }
        }
        let container = &mut self.containers[place as usize];
        container.machine = None;
        let machine = &mut self.machines[nth as usize];
        machine.reserved_bytes -= container.spec.limit_bytes;
        machine.places.retain(|other| *other != place);
        container.generation += 1;
        container.spec = self.scenario.load.spec(self.scenario.seed, place, container.generation);
        let event = Event::Start { place, generation: container.generation, attempt: 0 };
        self.queue.add(self.now + pause, event);
        self.note(nth);
    }

    /// A container ends because its time is over.
    pub(crate) fn end_in_time(&mut self, place: u32, generation: u32) {
        let container = &self.containers[place as usize];
        if container.generation == generation && container.machine.is_some() {
            let pause = Moment::from_secs_f64(container.spec.pause_s);
            self.end(place, pause);
        }
    }

    /// Looks at all containers of a machine, and at its memory.
    pub(crate) fn tick(&mut self, nth: u32) {
        for at in 0..self.machines[nth as usize].places.len() {
            let place = self.machines[nth as usize].places[at];
            self.update(place);
        }
        self.look(nth);
        self.queue.add(self.now + self.scenario.step, Event::Tick { machine: nth });
    }
}

/// Machines that are tried at random before all are searched.
const TRIES: usize = 16;
/// Until a start is tried again that found no room.
const RETRY: Moment = Moment::from_secs(60);

fn machine(scenario: &Scenario, nth: u32) -> Machine {
    let mut rng = Random::of(&[scenario.seed, MACHINES, nth.into()]);
    let capacity_bytes = (scenario.capacity_gib.draw(&mut rng) * crate::load::GIB) as u64;
    let rack = nth as usize / scenario.rack_machines.max(1);
    Machine {
        capacity_bytes,
        own_bytes: scenario.system_bytes,
        reserved_bytes: scenario.system_bytes,
        stored_bytes: 0,
        places: Vec::new(),
        lending: Lending::new(u64::MAX),
        is_up: true,
        epoch: 0,
        candidate: Candidate { domain: format!("rack {rack}") },
        known: known(scenario, nth),
    }
}

/// The donors on a machine's list: all others, or `known` random ones.
fn known(scenario: &Scenario, nth: u32) -> Vec<u32> {
    let count = scenario.machines as u32;
    if scenario.known >= scenario.machines - 1 {
        return (0..count).filter(|other| *other != nth).collect();
    }
    let mut rng = Random::of(&[scenario.seed, KNOWN, nth.into()]);
    let mut known = Vec::with_capacity(scenario.known);
    while known.len() < scenario.known {
        let other = rng.below(count.into()) as u32;
        if other != nth && !known.contains(&other) {
            known.push(other);
        }
    }
    known
}
