//! Random traces against models made of plain vectors.

use proptest::prelude::*;

use super::{Bench, Lru, S3Fifo, Sieve};

const SLOTS: u32 = 12;

/// Slots, oldest first, with the slot under the hand if the walk has started.
#[derive(Clone, Default)]
struct Queue {
    order: Vec<u32>,
    hand: Option<u32>,
    refused: bool,
}

impl Queue {
    fn index(&self, at: u32) -> Option<usize> {
        self.order.iter().position(|&other| other == at)
    }

    fn after(&self, at: u32) -> Option<u32> {
        self.order.get(self.index(at)? + 1).copied()
    }

    fn push(&mut self, at: u32) {
        self.order.push(at);
    }

    fn remove(&mut self, at: u32) -> bool {
        let Some(index) = self.index(at) else { return false };
        if self.hand == Some(at) {
            self.hand = self.after(at);
        }
        self.order.remove(index);
        true
    }

    fn candidate(&self) -> Option<u32> {
        self.hand.or(self.order.first().copied())
    }

    fn open(&self) -> bool {
        !self.order.is_empty() && !self.refused
    }

    fn reopen(&mut self) {
        (self.hand, self.refused) = (None, false);
    }
}

/// What a model is asked; `refuses` answers offers, which are also recorded.
trait Model {
    fn insert(&mut self, at: u32, key: u32);
    fn touch(&mut self, at: u32);
    fn remove(&mut self, at: u32);
    fn evict(&mut self, offers: &mut Offers<'_>) -> Option<u32>;
    fn upcoming(&self) -> Vec<u32>;
}

struct Offers<'a> {
    refuses: &'a dyn Fn(u32) -> bool,
    tries: usize,
    made: Vec<u32>,
}

impl Offers<'_> {
    fn taken(&mut self, at: u32) -> bool {
        self.made.push(at);
        !(self.refuses)(at)
    }

    fn over(&self) -> bool {
        self.made.len() >= self.tries
    }
}

/// Victims of a model that nobody refuses.
fn victims<M: Model>(mut model: M) -> Vec<u32> {
    let next = || model.evict(&mut Offers { refuses: &|_| false, tries: 1, made: vec![] });
    std::iter::from_fn(next).collect()
}

#[derive(Default)]
struct LruModel(Queue);

impl Model for LruModel {
    fn insert(&mut self, at: u32, _key: u32) {
        self.0.push(at);
    }
    fn touch(&mut self, at: u32) {
        if self.0.order.last() != Some(&at) && self.0.remove(at) {
            self.0.push(at);
        }
    }
    fn remove(&mut self, at: u32) {
        self.0.remove(at);
    }
    fn evict(&mut self, offers: &mut Offers<'_>) -> Option<u32> {
        for _ in 0..self.0.order.len() {
            if offers.over() {
                break;
            }
            let at = self.0.candidate()?;
            self.0.hand = self.0.after(at);
            if offers.taken(at) {
                self.0.remove(at);
                self.0.hand = None;
                return Some(at);
            }
        }
        None
    }
    fn upcoming(&self) -> Vec<u32> {
        self.0.order.clone()
    }
}

#[derive(Clone, Default)]
struct SieveModel {
    queue: Queue,
    visited: [bool; SLOTS as usize],
}

impl Model for SieveModel {
    fn insert(&mut self, at: u32, _key: u32) {
        self.visited[at as usize] = false;
        self.queue.push(at);
    }
    fn touch(&mut self, at: u32) {
        self.visited[at as usize] = true;
    }
    fn remove(&mut self, at: u32) {
        self.queue.remove(at);
    }
    fn evict(&mut self, offers: &mut Offers<'_>) -> Option<u32> {
        for _ in 0..2 * self.queue.order.len() {
            if offers.over() {
                break;
            }
            let at = self.queue.candidate()?;
            self.queue.hand = self.queue.after(at);
            if std::mem::take(&mut self.visited[at as usize]) {
                continue;
            }
            if offers.taken(at) {
                self.queue.remove(at);
                return Some(at);
            }
        }
        None
    }
    fn upcoming(&self) -> Vec<u32> {
        victims(self.clone())
    }
}

#[derive(Clone, Default)]
struct S3FifoModel {
    small: Queue,
    main: Queue,
    ghosts: Vec<u32>,
    uses: [u8; SLOTS as usize],
    keys: [u32; SLOTS as usize],
}

impl S3FifoModel {
    /// One step; the slot if it was taken. Nothing if every slot was refused.
    fn step(&mut self, offers: &mut Offers<'_>) -> Option<Option<u32>> {
        let (small, main) = (self.small.order.len(), self.main.order.len());
        let from_small = self.small.open() && (small * 10 >= small + main || !self.main.open());
        if !from_small && !self.main.open() {
            return None;
        }
        let queue = if from_small { &mut self.small } else { &mut self.main };
        let at = queue.candidate()?;
        let uses = &mut self.uses[at as usize];
        if !from_small && *uses > 0 {
            *uses -= 1;
            if queue.order.last() != Some(&at) {
                queue.remove(at);
                queue.push(at);
            }
            return Some(None);
        }
        queue.hand = queue.after(at);
        queue.refused = queue.hand.is_none();
        if from_small && *uses > 1 {
            *uses = 0;
            queue.remove(at);
            self.main.push(at);
            return Some(None);
        }
        if !offers.taken(at) {
            return Some(None);
        }
        queue.remove(at);
        if from_small {
            let key = self.keys[at as usize];
            self.ghosts.retain(|&ghost| ghost != key);
            self.ghosts.push(key);
        }
        self.small.reopen();
        self.main.reopen();
        Some(Some(at))
    }
}

impl Model for S3FifoModel {
    fn insert(&mut self, at: u32, key: u32) {
        (self.uses[at as usize], self.keys[at as usize]) = (0, key);
        let ghost = self.ghosts.iter().position(|&other| other == key);
        match ghost {
            Some(index) => {
                self.ghosts.remove(index);
                self.main.push(at);
            }
            None => self.small.push(at),
        }
    }
    fn touch(&mut self, at: u32) {
        let uses = &mut self.uses[at as usize];
        *uses = (*uses + 1).min(3);
    }
    fn remove(&mut self, at: u32) {
        let _ = self.small.remove(at) || self.main.remove(at);
    }
    fn evict(&mut self, offers: &mut Offers<'_>) -> Option<u32> {
        let mut rounds = 2;
        while rounds > 0 && !offers.over() {
            match self.step(offers) {
                Some(Some(at)) => return Some(at),
                Some(None) => {}
                None => {
                    self.small.reopen();
                    self.main.reopen();
                    rounds -= 1;
                }
            }
        }
        None
    }
    /// Exact while nothing has been used. Each victim makes room for a new object in the small queue.
    fn upcoming(&self) -> Vec<u32> {
        let (mut small, mut main) = (self.small.order.iter(), self.main.order.iter());
        let all = self.small.order.len() + self.main.order.len();
        let mut small_len = self.small.order.len();
        let mut expected = Vec::new();
        while expected.len() < all {
            let from_small = (small_len * 10 >= all && small.len() > 0) || main.len() == 0;
            if from_small {
                expected.extend(small.next());
            } else {
                expected.extend(main.next());
                small_len += 1;
            }
        }
        expected
    }
}

#[derive(Clone, Debug)]
enum Op {
    Insert { at: u32, key: u32 },
    Touch { at: u32 },
    Remove { at: u32 },
    Evict { tries: usize, refused: u32 },
}

fn op() -> impl Strategy<Value = Op> {
    let at = 0..SLOTS;
    prop_oneof![
        6 => (at.clone(), 0..24_u32).prop_map(|(at, key)| Op::Insert { at, key }),
        4 => at.clone().prop_map(|at| Op::Touch { at }),
        1 => at.prop_map(|at| Op::Remove { at }),
        2 => (1..4_usize).prop_map(|tries| Op::Evict { tries, refused: 0 }),
        2 => (0..16_usize, any::<u32>()).prop_map(|(tries, refused)| Op::Evict { tries, refused }),
    ]
}

/// Runs the trace on both and compares every offer and result; `upcoming` only where `exact` says so.
fn compare(bench: &Bench, mut model: impl Model, trace: &[Op], exact: impl Fn(&Bench) -> bool) {
    let mut full = [false; SLOTS as usize];
    for op in trace {
        match *op {
            Op::Insert { at, key } if !full[at as usize] => {
                full[at as usize] = true;
                bench.insert(at, key);
                model.insert(at, key);
            }
            Op::Touch { at } if full[at as usize] => {
                bench.touch(at);
                model.touch(at);
            }
            Op::Remove { at } if full[at as usize] => {
                full[at as usize] = false;
                bench.remove(at);
                model.remove(at);
            }
            Op::Evict { tries, refused } => {
                let refuses = |at: u32| refused >> at & 1 == 1;
                let mut offers = Offers { refuses: &refuses, tries, made: vec![] };
                let taken = model.evict(&mut offers);
                assert_eq!(bench.evict(tries, refuses), (offers.made, taken));
                taken.into_iter().for_each(|at| full[at as usize] = false);
            }
            _ => {}
        }
        if exact(bench) {
            assert_eq!(bench.upcoming(usize::MAX), model.upcoming());
        }
    }
}

proptest! {
    #[test]
    fn lru_is_its_model(trace in prop::collection::vec(op(), 0..200)) {
        compare(&Bench::new(Lru::new(), SLOTS), LruModel::default(), &trace, |_| true);
    }

    #[test]
    fn sieve_is_its_model(trace in prop::collection::vec(op(), 0..200)) {
        compare(&Bench::new(Sieve::new(), SLOTS), SieveModel::default(), &trace, |_| true);
    }

    /// The ghost queue is large enough that no ghost expires; its own tests cover that.
    #[test]
    fn s3fifo_is_its_model(trace in prop::collection::vec(op(), 0..200)) {
        let unused = |bench: &Bench| (0..SLOTS).all(|at| bench.slots.mark_of(at) == 0);
        compare(&Bench::new(S3Fifo::new(300), SLOTS), S3FifoModel::default(), &trace, unused);
    }
}
