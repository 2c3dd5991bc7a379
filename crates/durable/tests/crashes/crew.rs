//! Programs of several threads. Each has objects of its own and a record of its progress. All threads move
//! money between shared accounts, and pass one object on to the next thread that takes it. The checks hold
//! for every order. Where commits do not wait, a crash leaves of each thread as many as its record says, and of all together a prefix.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use aquifer_base::HomeAddress;
use aquifer_durable::{Durability, DurableHeap, Result, Transaction};

use crate::alone::{INTERVAL, damages, medium};
use crate::durable::{How, any_crash, clean, image, machine, open, reopen};
use crate::hits::{Hits, Kind};
use crate::machine::{Machine, is_crash, mix};
use crate::model::{History, check_gone, check_objects, is_in};
use crate::program::{Program, Shape};
use crate::verdict::{Before, Counts};

const THREADS: usize = 3;
/// Crashes in a row, and where many programs are asked for.
const ROUNDS: [u64; 2] = [4, 6];
const ACCOUNTS: usize = 4;
const MONEY: u64 = 1_000_000;
/// As large as a partition, so that two of them do not meet by chance.
const APART_BYTES: u64 = 4096;
/// The object that is handed on.
const PARCEL_BYTES: usize = 200;
const SHAPE: Shape = Shape { sizes: &[8, 24, 100, 300, 1000, 4096], large: &[70_000], objects_max: 40 };
type Checked = std::result::Result<(), String>;

/// What all threads have to do with.
#[derive(Clone, Copy)]
struct Shared {
    /// Each has its balance, and how often it was touched.
    accounts: [HomeAddress; ACCOUNTS],
    /// Where the parcel is, and what it is filled with.
    letterbox: HomeAddress,
}

/// One thread of the crew.
struct Member {
    program: Program,
    /// Transactions so far, and how often each account was touched in them.
    record: HomeAddress,
    /// How often after each transaction, that under way included.
    touched: Vec<[u64; ACCOUNTS]>,
    /// Where parcels were put.
    parcels: Vec<HomeAddress>,
}

/// How far each thread is known to have come.
#[derive(Default)]
struct Progress {
    committed: [AtomicU64; THREADS],
    durable: [AtomicU64; THREADS],
}

impl Progress {
    fn of(members: &[Member]) -> Self {
        let committed = std::array::from_fn(|n| AtomicU64::new(members[n].program.committed));
        Self { committed, ..Self::default() }
    }

    /// Makes durable what all have committed before this call.
    fn sync(&self, heap: &DurableHeap) -> Result<()> {
        let committed = self.committed.each_ref().map(|count| count.load(Ordering::SeqCst));
        heap.sync()?;
        let mut counts = self.durable.iter().zip(committed);
        counts.by_ref().for_each(|(durable, count)| _ = durable.fetch_max(count, Ordering::SeqCst));
        Ok(())
    }
}

impl Shared {
    fn new(heap: &DurableHeap) -> Result<Self> {
        heap.transaction(|tx| {
            let mut accounts = [HomeAddress(0); ACCOUNTS];
            for account in &mut accounts {
                *account = tx.alloc(APART_BYTES)?;
                tx.store_u64(*account, MONEY)?;
            }
            let shared = Self { accounts, letterbox: tx.alloc(APART_BYTES)? };
            shared.put_parcel(tx, 1).map(|_| shared)
        })
    }

    fn put_parcel(&self, tx: &mut Transaction<'_>, fill: u8) -> Result<HomeAddress> {
        let parcel = tx.alloc(PARCEL_BYTES as u64)?;
        tx.store(parcel, &[fill; PARCEL_BYTES])?;
        tx.store_u64(self.letterbox, parcel.0)?;
        tx.store_u64(self.letterbox.plus_bytes(8), u64::from(fill))?;
        Ok(parcel)
    }

    fn transfer(&self, tx: &mut Transaction<'_>, [from, to]: [usize; 2], amount: u64) -> Result<()> {
        for (account, is_from) in [(from, true), (to, false)] {
            let home = self.accounts[account];
            let balance = tx.load_u64(home)?;
            tx.store_u64(
                home,
                if is_from { balance.wrapping_sub(amount) } else { balance.wrapping_add(amount) },
            )?;
            let times = tx.load_u64(home.plus_bytes(8))?;
            tx.store_u64(home.plus_bytes(8), times + 1)?;
        }
        Ok(())
    }
}

impl Member {
    fn new(heap: &DurableHeap, seed: u64) -> Result<Self> {
        let record = heap.transaction(|tx| tx.alloc(APART_BYTES))?;
        let touched = vec![[0; ACCOUNTS]];
        Ok(Self { program: Program::new(seed, SHAPE), record, touched, parcels: Vec::new() })
    }

    fn step(&mut self, heap: &DurableHeap, shared: &Shared) -> Result<()> {
        let (dice, from) = (self.program.below(8), self.program.below(ACCOUNTS as u64) as usize);
        let to = (from + 1 + self.program.below(ACCOUNTS as u64 - 1) as usize) % ACCOUNTS;
        let (amount, number) = (self.program.below(1000), self.program.committed + 1);
        let Self { program, record, touched, parcels } = self;
        touched.truncate(number as usize);
        let mut touching = touched[number as usize - 1];
        if dice < 4 {
            [from, to].into_iter().for_each(|account| touching[account] += 1);
        }
        touched.push(touching);
        program.step(heap, &mut |tx| {
            tx.store_u64(*record, number)?;
            for (n, times) in touching.iter().enumerate() {
                tx.store_u64(record.plus_bytes(8 + n as u64 * 8), *times)?;
            }
            if dice < 4 {
                shared.transfer(tx, [from, to], amount)?;
            }
            if dice == 4 {
                let parcel = tx.load_u64(shared.letterbox)?;
                tx.free(HomeAddress(parcel))?;
                let home = shared.put_parcel(tx, (amount % 255) as u8 + 1)?;
                parcels.push(home);
            }
            Ok(())
        })
    }

    fn go(
        &mut self,
        heap: &DurableHeap,
        shared: &Shared,
        steps: u64,
        (number, progress): (usize, &Progress),
        waits: bool,
    ) -> Result<()> {
        for _ in 0..steps {
            self.step(heap, shared)?;
            progress.committed[number].store(self.program.committed, Ordering::SeqCst);
            if waits {
                progress.durable[number].store(self.program.committed, Ordering::SeqCst);
            } else if self.program.below(60) == 0 {
                progress.sync(heap)?;
            }
            if self.program.below(100) == 0 || self.program.is_draining() && self.program.below(20) == 0 {
                clean(heap)?;
            }
            if self.program.below(100) == 0 {
                heap.checkpoint()?;
            }
        }
        Ok(())
    }

    /// Finds out how far it came: every transaction that was durable, and perhaps later ones.
    fn settle(&mut self, heap: &DurableHeap) -> Checked {
        let mut words = [0; 8 + ACCOUNTS * 8];
        heap.transaction(|tx| tx.load(self.record, &mut words)).map_err(|error| error.to_string())?;
        let word = |n: usize| u64::from_ne_bytes(words[n * 8..n * 8 + 8].try_into().expect("eight"));
        self.program.settle_at(word(0))?;
        let touched = self.touched();
        if (0..ACCOUNTS).any(|n| word(n + 1) != touched[n]) {
            return Err(format!("the record of {} transactions has other numbers", word(0)));
        }
        check_objects(heap, &self.program.model.objects)
    }

    /// How often it has touched each account.
    fn touched(&self) -> [u64; ACCOUNTS] {
        self.touched[self.program.committed as usize]
    }
}

/// Money is neither made nor lost, and the accounts know of every transaction that the threads know of.
fn check_accounts(heap: &DurableHeap, shared: &Shared, members: &[Member]) -> Checked {
    let load = |home| heap.transaction(|tx| tx.load_u64(home)).map_err(|error| error.to_string());
    let mut sum = 0u64;
    for (n, &account) in shared.accounts.iter().enumerate() {
        sum = sum.wrapping_add(load(account)?);
        let times = load(account.plus_bytes(8))?;
        let expected: u64 = members.iter().map(|member| member.touched()[n]).sum();
        if times != expected {
            return Err(format!("account {n} was touched {times} times, the threads say {expected}"));
        }
    }
    if sum == MONEY * ACCOUNTS as u64 { Ok(()) } else { Err(format!("the balances are {sum} in all")) }
}

/// The parcel is what the letterbox says; returns where it is.
fn check_parcel(heap: &DurableHeap, shared: &Shared) -> std::result::Result<HomeAddress, String> {
    let mut bytes = [0; PARCEL_BYTES];
    let found = heap.transaction(|tx| {
        let parcel = HomeAddress(tx.load_u64(shared.letterbox)?);
        tx.load(parcel, &mut bytes)?;
        Ok((parcel, tx.load_u64(shared.letterbox.plus_bytes(8))?))
    });
    let (parcel, fill) = found.map_err(|error| format!("the parcel: {error}"))?;
    let is_right = bytes.iter().all(|&byte| u64::from(byte) == fill);
    if is_right { Ok(parcel) } else { Err(format!("the parcel has {:?} and not {fill}", &bytes[..4])) }
}

fn check(heap: &DurableHeap, shared: &Shared, members: &mut [Member]) -> Checked {
    members.iter_mut().try_for_each(|member| member.settle(heap))?;
    check_accounts(heap, shared, members)?;
    let parcel = check_parcel(heap, shared)?;
    let mut ever: BTreeMap<_, _> =
        members.iter().flat_map(|member| member.program.model.ever.clone()).collect();
    ever.extend(members.iter().flat_map(|member| &member.parcels).map(|&home| (home, PARCEL_BYTES)));
    let is_own = |home| members.iter().any(|member| member.program.model.has(home));
    check_gone(heap, &ever, &|home| is_in(home, parcel, PARCEL_BYTES) || is_own(home))
}

/// Runs a crew until the machine crashes; every thread then has the crash's error.
fn work(machine: &Arc<Machine>, shared: &Shared, members: &mut [Member], how: How, steps: u64) {
    let Ok(heap) = open(machine, how) else { return assert!(machine.is_down()) };
    let (progress, waits) = (Progress::of(members), how.durability == Durability::Sync);
    std::thread::scope(|scope| {
        for (n, member) in members.iter_mut().enumerate() {
            let (heap, progress) = (&heap, &progress);
            scope.spawn(move || {
                if let Err(error) = member.go(heap, shared, steps, (n, progress), waits) {
                    // What fails after the crash may be called otherwise: the cleaner finds a header that it took away itself.
                    assert!(is_crash(&error) || machine.is_down(), "{error}");
                }
            });
        }
    });
    for (member, durable) in members.iter_mut().zip(progress.durable) {
        member.program.keep(durable.into_inner());
    }
}

/// How a crew goes on in a round.
fn how(seed: u64, round: u64) -> How {
    let durability = match (seed / 2 + round) % 4 {
        0 | 1 => Durability::Sync,
        2 => Durability::Group(INTERVAL),
        _ => Durability::Relaxed,
    };
    How {
        cleans_ahead: (seed + round).is_multiple_of(3),
        checkpoints: !seed.is_multiple_of(4),
        durability,
        ..How::default()
    }
}

fn run(seed: u64, damages: u64) -> (Hits, Counts) {
    let (machine, mut counts) = (machine(medium(seed), true), Counts::default());
    machine.start(None);
    if damages > 0 {
        machine.with_memory(0, |memory| memory.remember_writes());
    }
    let heap = open(&machine, How::default()).expect("a heap");
    let shared = Shared::new(&heap).expect("room");
    let members = (0..THREADS as u64).map(|n| Member::new(&heap, seed << 8 | n));
    let mut members: Vec<_> = members.collect::<Result<_>>().expect("room");
    drop(heap);
    for round in 0..ROUNDS[usize::from(crate::are_many())] {
        let (number, how) = (mix(seed << 8 | round), how(seed, round));
        let crash = any_crash(number, 1200, 1 + (seed + round) as usize % THREADS, how.durability);
        let context = |error: String| -> String { format!("crew {seed}, round {round}, {crash:?}: {error}") };
        machine.start(Some(crash));
        work(&machine, &shared, &mut members, how, 400);
        let how = How { checkpoints: how.checkpoints && round != 1, ..How::default() };
        let cut = (damages > 0 && !crash.is_kill).then(|| image(&machine, true));
        // What was shown after a kill is durable.
        for _ in 0..1 + u32::from(crash.is_kill) {
            let heap = reopen(&machine, how).unwrap_or_else(|error| panic!("{}", context(error.to_string())));
            check(&heap, &shared, &mut members).unwrap_or_else(|error| panic!("{}", context(error)));
            if let Some(cut) = &cut {
                let before = Before::new(cut, &machine, &heap);
                let history = history(&members);
                let seeds = (0..damages).map(|n| mix(number ^ n << 32));
                seeds.for_each(|seed| counts += before.judge(seed, &history, context));
            }
        }
    }
    (machine.hits(), counts)
}

/// All that the members have written to objects of their own.
fn history(members: &[Member]) -> History {
    let mut history = History::default();
    members.iter().for_each(|member| history.join(&member.program.model.history));
    history
}

#[test]
fn in_crews() {
    let (mut hits, mut counts) = (Hits::default(), Counts::default());
    for seed in crate::crews() {
        let (hit, counted) = run(seed, damages(seed));
        hits += hit;
        counts += counted;
    }
    println!("{hits:?}, {counts:?}");
    hits.expect(&[Kind::Commit, Kind::Part, Kind::Header, Kind::Copy, Kind::Removal, Kind::Checkpoint]);
    assert!(hits.at_once(2) > 0 && hits.at_once(3) > 0, "persists were under way one at a time: {hits:?}");
    counts.expect_all();
}
