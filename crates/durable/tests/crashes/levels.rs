//! Transactions of several threads whose order is known, and whose commits do not wait: a crash leaves a prefix of them, with all that was synced.

use std::sync::{Arc, Mutex};

use aquifer_base::HomeAddress;
use aquifer_durable::{Durability, DurableHeap, Result, Transaction};

use crate::alone::{INTERVAL, medium};
use crate::durable::{How, any_crash, machine, open, reopen};
use crate::hits::{Hits, Kind};
use crate::machine::{Machine, is_crash, mix};

const THREADS: u64 = 3;
const CELLS: u64 = 40;
/// Apart, so that they are in partitions of their own and in no order.
const CELL_BYTES: u64 = 5000;
/// Transactions at most until the machine is started again.
const STEPS: u64 = 1500;

/// How far the threads have come, of which one has the turn.
#[derive(Clone, Copy)]
struct Progress {
    committed: u64,
    synced: u64,
    has_crashed: bool,
}

/// The number of the last transaction, and what is in each cell.
fn look(heap: &DurableHeap) -> (u64, Vec<u64>) {
    heap.transaction(|tx| {
        let Some(root) = tx.root()? else { return Ok((0, vec![0; CELLS as usize])) };
        let cells =
            (0..CELLS).map(|n| tx.load_u64(root.plus_bytes(n * CELL_BYTES))).collect::<Result<_>>()?;
        Ok((tx.load_u64(root.plus_bytes(CELLS * CELL_BYTES))?, cells))
    })
    .expect("reads")
}

/// The content of the cells after `last` transactions.
fn expected(last: u64) -> Vec<u64> {
    (0..CELLS).map(|cell| (1..=last).rev().find(|n| n * 7 % CELLS == cell).unwrap_or(0)).collect()
}

fn step(tx: &mut Transaction<'_>, root: HomeAddress, n: u64) -> Result<()> {
    let cell = root.plus_bytes(n * 7 % CELLS * CELL_BYTES);
    tx.store(cell.plus_bytes(8), &vec![n as u8; (n % 9 * 100) as usize])?;
    tx.store_u64(cell, n)?;
    tx.store_u64(root.plus_bytes(CELLS * CELL_BYTES), n)
}

/// The next transaction, and now and then something else.
fn go_on(heap: &DurableHeap, root: HomeAddress, progress: &mut Progress) -> Result<()> {
    let n = progress.committed + 1;
    heap.transaction(|tx| step(tx, root, n))?;
    progress.committed = n;
    if n.is_multiple_of(211) {
        heap.checkpoint()?;
    }
    if n.is_multiple_of(97) {
        heap.sync()?;
        progress.synced = n;
    }
    Ok(())
}

/// One transaction after the other, by threads in turn, so that they are in several logs.
fn run(machine: &Machine, heap: &DurableHeap, from: u64, to: u64) -> Progress {
    let progress = Mutex::new(Progress { committed: from, synced: from, has_crashed: false });
    let root = heap.transaction(|tx| match tx.root()? {
        Some(root) => Ok(root),
        None => {
            let root = tx.alloc(CELLS * CELL_BYTES + 8)?;
            tx.set_root(root)?;
            Ok(root)
        }
    });
    let Ok(root) = root else { return progress.into_inner().expect("nobody panics") };
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                loop {
                    let mut progress = progress.lock().expect("nobody panics");
                    if progress.committed == to || progress.has_crashed {
                        return;
                    }
                    if let Err(error) = go_on(heap, root, &mut progress) {
                        assert!(is_crash(&error) || machine.is_down(), "{error}");
                        progress.has_crashed = true;
                    }
                    drop(progress);
                    std::thread::yield_now();
                }
            });
        }
    });
    progress.into_inner().expect("nobody panics")
}

/// Several lives of one file. Returns what was hit, and how many commits were lost.
fn lives(seed: u64) -> (Hits, u64) {
    let (machine, mut last, mut lost) = (machine(medium(seed), true), 0, 0);
    for life in 0..4 {
        let mixed = mix(seed << 8 | life);
        let durability =
            if mixed.is_multiple_of(2) { Durability::Group(INTERVAL) } else { Durability::Relaxed };
        let (cleans_ahead, checkpoints) = (seed.is_multiple_of(2), !seed.is_multiple_of(3));
        let how = How { cleans_ahead, checkpoints, durability, ..How::default() };
        let crash = any_crash(mixed, 1400, 1, durability);
        machine.start(Some(crash));
        let progress = open(&machine, how).map(|heap| run(&machine, &heap, last, last + STEPS));
        let progress = progress.unwrap_or(Progress { committed: last, synced: last, has_crashed: true });
        let heap = reopen(&machine, How::default()).expect("opens");
        let (count, cells) = look(&heap);
        let in_flight = u64::from(progress.has_crashed);
        let context = format!("seed {seed}, life {life}, {crash:?}");
        assert!(
            (progress.synced..=progress.committed + in_flight).contains(&count),
            "{context}: {count} of {} to {}",
            progress.synced,
            progress.committed
        );
        assert_eq!(cells, expected(count), "{context}: no prefix");
        (last, lost) = (count, lost + progress.committed.saturating_sub(count));
    }
    (machine.hits(), lost)
}

#[test]
fn a_crash_leaves_a_prefix() {
    let (mut hits, mut lost) = (Hits::default(), 0);
    for seed in crate::crews() {
        let (hit, commits) = lives(seed);
        hits += hit;
        lost += commits;
    }
    println!("{hits:?}, {lost} commits were lost");
    assert!(lost > 0, "no crash came between");
    hits.expect(&[Kind::Sync, Kind::Value, Kind::Commit, Kind::Header, Kind::Checkpoint]);
}

#[test]
fn a_closed_heap_has_all() {
    for seed in 0..4 {
        let machine: Arc<Machine> = machine(medium(seed), true);
        machine.start(None);
        let heap = open(&machine, How { durability: Durability::Relaxed, ..How::default() });
        let heap = heap.expect("a heap");
        run(&machine, &heap, 0, 500);
        drop(heap);
        let heap = reopen(&machine, How::default()).expect("opens");
        assert_eq!(look(&heap), (500, expected(500)));
    }
}
