//! Small transactions on all stores: no two threads take the same objects or buckets, so that nothing needs to wait for anything.

use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};

use super::cell::{LoadOptions, Point, Task, Variant};
use super::directory::Directory;
use super::load::Ran;
use super::store::{self, BUCKET_SHIFT, BUCKETS, OBJECTS, Store, System, first_bytes, updated};
use crate::child::Parent;
use crate::error::{Error, Result};
use crate::rest;
use crate::rng::{Rng, mix};
use crate::study::{
    Bound, Fields, Promise, Session, Study, Table, each_once, key, median, range, ratio, scaling,
};

const EXAMPLES: &str = "\
Examples:
  aquifer-bench durable transactions --out results.jsonl
      All systems, both workloads, 1 and 2 threads, medians of 5, in files in /dev/shm
  aquifer-bench durable transactions --count 20K --seconds 0.2 --runs 1
      A first look in a few seconds
  aquifer-bench durable transactions --system aquifer,pmemobj --workload two-words --threads 1 --runs 11
      Two systems beside each other for a minute
  aquifer-bench durable transactions --system aquifer,aquifer-emulated --latency-ns 300 --bandwidth 2G
      What slower persistent memory costs
  aquifer-bench durable transactions --dir /var/tmp --system aquifer,lmdb-sync,redb-immediate --count 20K
      On a disk, where a commit waits for it

CPU time is that of the whole process from the first begin until all its threads rest after the last end, for every system alike: what
a cleaner does for the measured transactions is in it. What the kernel does in threads of its own, such as writing to a disk, is not.

libpmemobj is left out, with the reason, where the library is not there. It is told to flush the processor's caches (PMEM_IS_PMEM_FORCE=1)
if the directory is in memory.";

const TABLE: Table = Table {
    title: "Transactions; a persist to emulated memory takes {latency_ns} ns, or a second for {bandwidth} bytes",
    keys: &[key("workload", "workload"), key("threads", "threads")],
    peers: &[
        "aquifer",
        "aquifer-ram",
        "aquifer-emulated",
        "pmemobj",
        "pmemobj-actions",
        "lmdb-nosync",
        "lmdb-sync",
        "redb-none",
        "redb-immediate",
    ],
    columns: &[
        median("CPU ns", "cpu_ns").digits(0).less(),
        range("least, most", "cpu_ns").digits(0),
        ratio("x pmemobj", "per_cpu_s", &["pmemobj"]),
        median("of it behind", "behind_ns").digits(0),
        median("wall ns", "wall_ns").digits(0).less(),
        ratio("x pmemobj", "per_s", &["pmemobj"]),
        scaling("x 1 thread", "per_s", "threads", "1"),
        median("rest ns", "rest_ns").digits(0),
        median("fences", "fences").digits(3),
        median("bytes persisted", "bytes").digits(0),
    ],
    note: "All figures are for one transaction. CPU: of the process from the first begin until its threads rest; behind: of it that of threads without transactions, a \
        cleaner's. Wall: from the first begin to the last end, over the transactions of all threads; rest: from there until the process rests. x pmemobj: how many times \
        less time than pmemobj's with as many threads. x 1 thread: throughput over that of one thread. Fences and bytes: where the system counts them, cleaning included. A \
        percentage: the file grows only while at least so much of it is objects; else it is cleaned.\n\n\
        Guarantees of a transaction that has committed. aquifer: durable, ACID (opacity), writers side by side. aquifer-ram: the same after a crash of the process, as \
        nothing in memory survives the machine. pmemobj: durable, atomic by an undo log; isolation is left to \
        the program; on a disk caches are flushed by msync. pmemobj-actions: the same when published, by a redo log; they do not see their own writes. lmdb-nosync: consistent \
        after a crash of the process only; one writer. redb-none: not durable until a durable commit follows; one writer. lmdb-sync, redb-immediate: durable, ACID, one \
        writer; in memory syncing is free.",
};

const PROMISES: &[Promise] = &[Promise {
    what: "fences of a transaction",
    at: &[("workload", "two-words"), ("threads", "1")],
    peer: "aquifer, 50 %",
    figure: "fences",
    over: &[],
    bound: Bound::AtMost(1.01),
}];

/// Keys of each thread that are looked up afterwards.
const CHECKED_KEYS: u64 = 1000;
/// Room in a file, beside that for the transactions.
const CAPACITY_BYTES_MIN: u64 = 512 << 20;
/// Room for each transaction: redb copies pages of 4 KiB, and frees them soon.
const CAPACITY_BYTES_EACH: u64 = 512;
/// The transactions before the measured ones are this part of these.
pub(super) const WARMUP_PART: u64 = 4;

/// What a transaction does.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Workload {
    /// Reads and updates two words in different cache lines of a random object of 128 bytes
    TwoWords,
    /// Puts a random key of 8 bytes with a value of 8 bytes into a map
    Insert,
}

/// Options of `durable transactions`.
#[derive(Clone, Debug, Args)]
pub struct TransactionsOptions {
    /// Systems that take turns [default: all]
    #[arg(long, value_enum, value_delimiter = ',')]
    system: Vec<System>,
    /// What a transaction does [default: all]
    #[arg(long, value_enum, value_delimiter = ',')]
    workload: Vec<Workload>,
    #[command(flatten)]
    load: LoadOptions,
}

/// The study.
pub struct Transactions;

impl Study for Transactions {
    const NAME: &str = "durable transactions";
    const ABOUT: &str =
        "Small transactions: time, fences and bytes of one, on the durable heap and its peers";
    const EXAMPLES: &str = EXAMPLES;
    const DEFAULTS: &[(&str, &str)] = &[
        ("dir", "/dev/shm"),
        ("seconds", "2"),
        ("warmup", "0.5"),
        ("threads", "1,2"),
        ("utilisation", "50,85"),
    ];
    const UNUSED: &[&str] = &["ram", "data"];
    const NEEDS_DISK: bool = false;
    const TABLES: &[&Table] = &[&TABLE];
    const PROMISES: &[Promise] = PROMISES;
    type Options = TransactionsOptions;
    type Task = Task<Variant<System>, Point<Workload>>;

    fn run(session: &mut Session, options: &TransactionsOptions, _: u64) -> Result<()> {
        let directory = Directory::create(session)?;
        let TransactionsOptions { system, workload, load } = options;
        let count = load.count.saturating_add(load.count / WARMUP_PART);
        let capacity_bytes = CAPACITY_BYTES_MIN + CAPACITY_BYTES_EACH.saturating_mul(count).min(1 << 60);
        let setup = directory.setup(session, load, capacity_bytes)?;
        let systems = load.variants(each_once(system), System::cleans);
        directory.turns(session, &systems, load.points(&[None], &each_once(workload), None), &setup)
    }

    fn work(task: Self::Task, _: &mut Parent) -> Result<Fields> {
        task.work()
    }
}

impl Task<Variant<System>, Point<Workload>> {
    /// A new store, a warm-up, the measured transactions, and a look at what they left.
    fn work(&self) -> Result<Fields> {
        let store = store::open(self.system, &self.setup, self.point.workload)?;
        let (store, measured) = (&*store, self.seed());
        let (transactions, limit) = (self.setup.transactions, self.setup.limit);
        rest::wait()?;
        let steps = self.steps(store, measured + 1);
        let warmed = Ran::run(steps, transactions / WARMUP_PART, self.setup.warmup, rest::wait)?;
        let before = store.persisted();
        let ran = Ran::run(self.steps(store, measured), transactions, limit, rest::wait)?;
        let persisted = store.persisted().zip(before).map(|(after, before)| after.since(before));
        match self.point.workload {
            Workload::TwoWords => self.check_objects(store, warmed.total() + ran.total())?,
            Workload::Insert => {
                self.check_keys(store, measured + 1, &warmed)?;
                self.check_keys(store, measured, &ran)?;
            }
        }
        let persisted = persisted.map(|persisted| persisted.figures(&ran)).unwrap_or_default();
        Ok(ran.figures().and(persisted))
    }

    /// Each run has two seeds, one for its warm-up.
    fn seed(&self) -> u64 {
        2 * u64::from(self.run)
    }

    /// What each thread does again and again.
    fn steps<'a>(&self, store: &'a dyn Store, seed: u64) -> Vec<impl FnMut() -> Result<()> + Send + use<'a>> {
        let (workload, payload) = (self.point.workload, self.setup.payload);
        let step = |thread| {
            let mut picks = self.picks(seed, thread);
            move || match workload {
                Workload::TwoWords => store.update(picks.object()),
                Workload::Insert => {
                    let key = picks.key();
                    store.insert(key, payload.word(key, 0))
                }
            }
        };
        (0..self.point.threads).map(step).collect()
    }

    fn picks(&self, seed: u64, thread: u64) -> Picks {
        Picks { rng: Rng::new(mix(seed) ^ mix(thread)), thread, threads: self.point.threads }
    }

    fn wrong(&self, what: String) -> Error {
        Error::WrongData { peer: self.system.to_string(), what }
    }

    /// Whether all objects are as `updates` of them left them, in every byte.
    fn check_objects(&self, store: &dyn Store, updates: u64) -> Result<()> {
        let mut found = 0u64;
        for index in 0..OBJECTS as u64 {
            let (mut expected, object) = (first_bytes(self.setup.payload, index), store.object(index)?);
            let word = |bytes: &[u8]| u64::from_ne_bytes(bytes[..8].try_into().expect("eight bytes"));
            let times = word(&object).wrapping_sub(word(&expected));
            updated(&mut expected, times);
            if let Some(at) = (0..expected.len()).find(|&at| object[at] != expected[at]) {
                let (wanted, has) = (expected[at], object[at]);
                return Err(self.wrong(format!(
                    "object {index} was updated {times} times by its first word; byte {at} is {has:#x} instead of {wanted:#x}"
                )));
            }
            found = found.wrapping_add(times);
        }
        match found == updates {
            true => Ok(()),
            false => Err(self.wrong(format!("all objects have {found} updates instead of {updates}"))),
        }
    }

    /// Looks up some of the keys that were inserted.
    fn check_keys(&self, store: &dyn Store, seed: u64, ran: &Ran) -> Result<()> {
        for (thread, &inserted) in ran.transactions.iter().enumerate() {
            let mut picks = self.picks(seed, thread as u64);
            for _ in 0..inserted.min(CHECKED_KEYS) {
                let key = picks.key();
                let (found, expected) = (store.get(key)?, self.setup.payload.word(key, 0));
                if found != Some(expected) {
                    return Err(self.wrong(format!("key {key:#x} has {found:x?} instead of {expected:#x}")));
                }
            }
        }
        Ok(())
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    use super::super::directory::Setup;
    use super::store::OBJECT_BYTES;
    use super::*;
    use crate::payload::Payload;

    /// Counts what it is asked for, by half of the objects and of the buckets, and keeps nothing.
    #[derive(Default)]
    struct Halves([AtomicU64; 2]);

    impl Store for Halves {
        fn update(&self, index: u64) -> Result<()> {
            self.0[(index * 2) as usize / OBJECTS].fetch_add(1, Ordering::Relaxed);
            Ok(())
        }

        fn insert(&self, key: u64, _value: u64) -> Result<()> {
            self.0[(key >> 63) as usize].fetch_add(1, Ordering::Relaxed);
            Ok(())
        }

        fn object(&self, index: u64) -> Result<[u8; OBJECT_BYTES]> {
            Ok(first_bytes(Payload::Text, index))
        }

        fn get(&self, _key: u64) -> Result<Option<u64>> {
            Ok(None)
        }
    }

    #[test]
    fn threads_share_nothing_and_what_is_lost_is_seen() {
        let load = LoadOptions {
            threads: vec![2],
            count: 1001,
            utilisation: Vec::new(),
            latency_ns: 0,
            bandwidth: 0,
        };
        for workload in [Workload::TwoWords, Workload::Insert] {
            let setup = Setup {
                dir: "/".into(),
                is_memory: true,
                capacity_bytes: 0,
                latency_ns: 0,
                bandwidth_bytes_per_s: 0,
                payload: Payload::Text,
                transactions: 1001,
                limit: Duration::MAX,
                warmup: Duration::ZERO,
            };
            let system = Variant { system: System::Pmemobj, percent: None };
            let point = load.points(&[None], &[workload], None).remove(0);
            let task = Task { system, point, run: 1, setup };
            let halves = Halves::default();
            let ran =
                Ran::run(task.steps(&halves, 3), 1001, Duration::MAX, || Ok(())).expect("it cannot fail");
            assert_eq!(ran.transactions, [500, 500]);
            assert!(halves.0.iter().all(|count| count.load(Ordering::Relaxed) == 500));
            task.check_objects(&halves, 0).expect("nothing was to be changed");
            assert!(matches!(task.check_objects(&halves, 1000), Err(Error::WrongData { .. })));
            assert!(matches!(task.check_keys(&halves, 3, &ran), Err(Error::WrongData { .. })));
        }
    }
}
