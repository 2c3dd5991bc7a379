//! Threads that run transactions, and which objects and keys each of them takes: no two threads take
//! the same ones, so that nothing needs to wait for anything.

use std::fmt;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::store::{BUCKET_SHIFT, BUCKETS, OBJECTS, Store};
use crate::error::{Error, Result};
use crate::process::{cpu_ns, thread_cpu_ns};
use crate::rng::{Rng, mix};

/// Transactions between two looks at the clock.
const CLOCK_EVERY: u64 = 64;
/// Keys of each thread that are looked up afterwards.
const CHECKED_KEYS: u64 = 1000;

/// What a transaction does.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Workload {
    /// Reads and updates two words in different cache lines of a random object.
    TwoWords,
    /// Puts a random key with a value into a map.
    Insert,
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TwoWords => "two-words",
            Self::Insert => "insert",
        })
    }
}

/// One phase of transactions.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// What they do.
    pub workload: Workload,
    /// Threads.
    pub threads: u64,
    /// Transactions of all threads together.
    pub transactions: u64,
    /// It ends early after this time.
    pub limit: Duration,
    /// Decides the objects and the keys.
    pub seed: u64,
}

/// What a phase took.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Ran {
    /// Transactions of each thread.
    pub transactions: Vec<u64>,
    /// Processor time of the process from the first begin until the system rests: threads of the system's own are included, with what
    /// they still did after the last end.
    pub cpu_ns: u64,
    /// From the first begin to the last end.
    pub wall_ns: u64,
    /// From the last end until the system rests.
    pub rest_ns: u64,
}

impl Ran {
    /// Transactions of all threads.
    pub fn total(&self) -> u64 {
        self.transactions.iter().sum()
    }
}

/// The objects or keys of one thread, in the order in which it takes them.
struct Picks {
    rng: Rng,
    thread: u64,
    threads: u64,
}

impl Picks {
    fn object(&mut self) -> u64 {
        self.below(OBJECTS as u64)
    }

    /// A key in a bucket that no other thread has keys in.
    fn key(&mut self) -> u64 {
        let bucket = self.below(BUCKETS);
        bucket << BUCKET_SHIFT | self.rng.next() >> (64 - BUCKET_SHIFT)
    }

    /// A number in this thread's part of those below `end`.
    fn below(&mut self, end: u64) -> u64 {
        let (from, to) = (end * self.thread / self.threads, end * (self.thread + 1) / self.threads);
        from + self.rng.below(to - from)
    }
}

struct Timed {
    transactions: u64,
    begin: Instant,
    end: Instant,
    /// Processor time of the process until the begin.
    cpu_before_ns: u64,
}

impl Load {
    fn picks(&self, thread: u64) -> Picks {
        Picks { rng: Rng::new(mix(self.seed) ^ mix(thread)), thread, threads: self.threads }
    }

    /// Runs the transactions. They begin when the system rests, and `rest` returns when it does; so what it does behind their back, until then,
    /// it does for them.
    ///
    /// # Errors
    /// The first one of the store's; those of `rest`.
    pub fn run(&self, store: &dyn Store, rest: impl Fn() -> Result<()>) -> Result<Ran> {
        rest()?;
        let barrier = Barrier::new(self.threads as usize);
        let parts = thread::scope(|scope| {
            let part = |thread| {
                let barrier = &barrier;
                scope.spawn(move || self.part(store, thread, barrier))
            };
            let parts: Vec<_> = (0..self.threads).map(part).collect();
            parts.into_iter().map(|part| part.join().expect("it does not panic")).collect::<Result<Vec<_>>>()
        })?;
        let begin = parts.iter().map(|part| part.begin).min();
        let end = parts.iter().map(|part| part.end).max();
        let wall = end.zip(begin).map_or(Duration::ZERO, |(end, begin)| end - begin);
        // Looking whether it rests is not the system's work.
        let looking_since_ns = thread_cpu_ns();
        rest()?;
        let looked_ns = thread_cpu_ns() - looking_since_ns;
        let cpu_before_ns = parts.iter().map(|part| part.cpu_before_ns).min().unwrap_or(0);
        Ok(Ran {
            transactions: parts.iter().map(|part| part.transactions).collect(),
            cpu_ns: cpu_ns() - cpu_before_ns - looked_ns,
            wall_ns: wall.as_nanos() as u64,
            rest_ns: end.map_or(0, |end| end.elapsed().as_nanos() as u64),
        })
    }

    fn part(&self, store: &dyn Store, thread: u64, barrier: &Barrier) -> Result<Timed> {
        let mut picks = self.picks(thread);
        let wanted = self.transactions / self.threads;
        barrier.wait();
        let (begin, cpu_before_ns) = (Instant::now(), cpu_ns());
        let mut transactions = 0;
        while transactions < wanted {
            for _ in 0..CLOCK_EVERY.min(wanted - transactions) {
                match self.workload {
                    Workload::TwoWords => store.update(picks.object())?,
                    Workload::Insert => {
                        let key = picks.key();
                        store.insert(key, mix(key))?;
                    }
                }
                transactions += 1;
            }
            if begin.elapsed() >= self.limit {
                break;
            }
        }
        Ok(Timed { transactions, begin, end: Instant::now(), cpu_before_ns })
    }

    /// Looks up some of the keys that `ran` has inserted.
    ///
    /// # Errors
    /// [`Error::WrongData`], and those of the store.
    pub fn check_keys(&self, ran: &Ran, store: &dyn Store, system: &str) -> Result<()> {
        for (thread, &inserted) in ran.transactions.iter().enumerate() {
            let mut picks = self.picks(thread as u64);
            for _ in 0..inserted.min(CHECKED_KEYS) {
                let key = picks.key();
                let found = store.get(key)?;
                if found != Some(mix(key)) {
                    let what = format!("{found:?} under key {key:#x} instead of {:#x}", mix(key));
                    return Err(Error::WrongData { peer: system.to_owned(), what });
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::thread::JoinHandle;

    use super::*;

    /// Counts what it is asked for, by half of the objects and of the buckets.
    #[derive(Default)]
    struct Halves {
        updates: [AtomicU64; 2],
        inserts: [AtomicU64; 2],
    }

    impl Store for Halves {
        fn update(&self, index: u64) -> Result<()> {
            self.updates[(index * 2) as usize / OBJECTS].fetch_add(1, Ordering::Relaxed);
            Ok(())
        }

        fn insert(&self, key: u64, _value: u64) -> Result<()> {
            self.inserts[(key >> 63) as usize].fetch_add(1, Ordering::Relaxed);
            Ok(())
        }

        fn words(&self, _index: u64) -> Result<(u64, u64)> {
            Ok((0, 0))
        }

        fn get(&self, _key: u64) -> Result<Option<u64>> {
            Ok(None)
        }
    }

    fn no_threads() -> Result<()> {
        Ok(())
    }

    fn load(workload: Workload, threads: u64) -> Load {
        Load { workload, threads, transactions: 1001, limit: Duration::MAX, seed: 3 }
    }

    #[test]
    fn threads_share_nothing() {
        let halves = Halves::default();
        let ran = load(Workload::TwoWords, 2).run(&halves, no_threads).expect("cannot fail");
        assert_eq!(ran.transactions, [500, 500]);
        load(Workload::Insert, 2).run(&halves, no_threads).expect("cannot fail");
        for counts in [&halves.updates, &halves.inserts] {
            assert!(counts.iter().all(|count| count.load(Ordering::Relaxed) == 500));
        }
    }

    /// Has a thread that works for the first update, which waits for it or does not.
    #[derive(Default)]
    struct Delegates {
        is_waited_for: bool,
        updates: AtomicU64,
        worker: Mutex<Option<JoinHandle<()>>>,
    }

    const BURNT_NS: u64 = 20_000_000;

    fn burn() {
        let begin = thread_cpu_ns();
        while thread_cpu_ns() - begin < BURNT_NS {}
    }

    impl Delegates {
        fn rest(&self) -> Result<()> {
            let worker = self.worker.lock().expect("nobody panics").take();
            worker.map_or(Ok(()), |worker| {
                worker.join().expect("it does not panic");
                Ok(())
            })
        }
    }

    impl Store for Delegates {
        fn update(&self, _index: u64) -> Result<()> {
            if self.updates.fetch_add(1, Ordering::Relaxed) == 0 {
                *self.worker.lock().expect("nobody panics") = Some(thread::spawn(burn));
                if self.is_waited_for {
                    self.rest()?;
                }
            }
            Ok(())
        }

        fn insert(&self, _key: u64, _value: u64) -> Result<()> {
            Ok(())
        }

        fn words(&self, _index: u64) -> Result<(u64, u64)> {
            Ok((0, 0))
        }

        fn get(&self, _key: u64) -> Result<Option<u64>> {
            Ok(None)
        }
    }

    #[test]
    fn threads_of_the_system_count() {
        for is_waited_for in [true, false] {
            let system = Delegates { is_waited_for, ..Delegates::default() };
            let ran = load(Workload::TwoWords, 2).run(&system, || system.rest()).expect("cannot fail");
            assert!(ran.cpu_ns >= BURNT_NS, "{} of {BURNT_NS} ns, waited for: {is_waited_for}", ran.cpu_ns);
        }
    }

    #[test]
    fn a_lost_key_is_wrong_data() {
        let load = load(Workload::Insert, 1);
        let halves = Halves::default();
        let ran = load.run(&halves, no_threads).expect("cannot fail");
        assert_eq!(ran.total(), 1001);
        assert!(matches!(load.check_keys(&ran, &halves, "halves"), Err(Error::WrongData { .. })));
    }

    #[test]
    fn the_limit_ends_a_phase() {
        let load = Load { limit: Duration::ZERO, ..load(Workload::TwoWords, 1) };
        assert_eq!(load.run(&Halves::default(), no_threads).expect("cannot fail").total(), CLOCK_EVERY);
    }
}
