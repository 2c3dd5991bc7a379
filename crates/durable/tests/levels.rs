//! Commits that do not wait for durability: a crash leaves a prefix of them, with all that was synced.
//!
//! The memory remembers which 8-byte words were stored and not synced. At the crash any of them have landed.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aquifer_base::HomeAddress;
use aquifer_durable::persist::{Counts, Persist};
use aquifer_durable::{Durability, DurableHeap, Options, Result};

const CELLS: u64 = 40;
/// Apart, so that they are in partitions of their own and in no order.
const CELL_BYTES: u64 = 5000;

#[derive(Default)]
struct State {
    seen: Vec<u8>,
    durable: Vec<u8>,
    /// Words that were stored and not synced.
    pending: BTreeSet<usize>,
    /// Calls until the crash, and what is in the memory then.
    left: u64,
    image: Option<Vec<u8>>,
    random: u64,
}

impl State {
    fn random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) {
        let offset = offset as usize;
        self.seen[offset..offset + bytes.len()].copy_from_slice(bytes);
        self.pending.extend(offset / 8..(offset + bytes.len()).div_ceil(8));
    }

    fn land(&mut self, word: usize) {
        let range = word * 8..self.seen.len().min(word * 8 + 8);
        self.durable[range.clone()].copy_from_slice(&self.seen[range]);
    }

    /// Counts a call, in the middle of which the crash can be.
    fn step(&mut self) {
        self.left = self.left.saturating_sub(1);
        if self.left > 0 || self.image.is_some() {
            return;
        }
        let before = self.durable.clone();
        for word in self.pending.clone() {
            if self.random() & 1 == 0 {
                self.land(word);
            }
        }
        self.image = Some(std::mem::replace(&mut self.durable, before));
    }

    fn sync(&mut self, first: usize, end: usize) {
        for word in self.pending.range(first..end).copied().collect::<Vec<_>>() {
            self.land(word);
            self.pending.remove(&word);
        }
    }
}

struct Memory(Arc<Mutex<State>>, Counts);

impl Memory {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().expect("lock")
    }
}

impl Persist for Memory {
    fn len_bytes(&self) -> u64 {
        self.state().seen.len() as u64
    }

    fn grow(&self, len_bytes: u64) -> Result<()> {
        let mut state = self.state();
        let len = state.seen.len().max(len_bytes as usize);
        state.seen.resize(len, 0);
        state.durable.resize(len, 0);
        Ok(())
    }

    fn persist(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let mut state = self.state();
        state.write(offset, bytes);
        state.step();
        state.sync(offset as usize / 8, (offset as usize + bytes.len()).div_ceil(8));
        Ok(())
    }

    fn store(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let mut state = self.state();
        state.write(offset, bytes);
        state.step();
        Ok(())
    }

    fn sync(&self, ranges: &[(u64, u64)]) -> Result<()> {
        let mut state = self.state();
        state.step();
        for &(offset, len) in ranges {
            state.sync(offset as usize / 8, (offset + len).div_ceil(8) as usize);
        }
        Ok(())
    }

    fn read(&self, offset: u64, out: &mut [u8]) {
        let state = self.state();
        for (n, byte) in out.iter_mut().enumerate() {
            *byte = state.seen.get(offset as usize + n).copied().unwrap_or(0);
        }
    }

    fn punch(&self, offset: u64, len_bytes: u64) -> Result<()> {
        let zeros = vec![0; len_bytes as usize];
        self.persist(offset, &zeros)
    }

    fn refill(&self, _: u64, _: u64) -> Result<()> {
        Ok(())
    }

    fn counts(&self) -> &Counts {
        &self.1
    }
}

fn open(image: Vec<u8>, durability: Durability, seed: u64, left: u64) -> (DurableHeap, Arc<Mutex<State>>) {
    let state = State { durable: image.clone(), seen: image, left, random: seed | 1, ..State::default() };
    let state = Arc::new(Mutex::new(state));
    let options = Options {
        durability,
        capacity_bytes: 4 << 20,
        chunk_bytes: 64 << 10,
        cleans_ahead: seed.is_multiple_of(2),
        checkpoint_bytes: if seed.is_multiple_of(3) { 0 } else { 256 << 10 },
        ..Options::default()
    };
    let memory = Box::new(Memory(Arc::clone(&state), Counts::default()));
    (DurableHeap::on(memory, &options, "the memory").expect("opens"), state)
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

/// One transaction after the other, by threads in turn, so that they are in several logs.
fn run(heap: &DurableHeap, state: &Mutex<State>, from: u64, to: u64) -> u64 {
    let root = heap.transaction(|tx| match tx.root()? {
        Some(root) => Ok(root),
        None => {
            let root = tx.alloc(CELLS * CELL_BYTES + 8)?;
            tx.set_root(root)?;
            Ok(root)
        }
    });
    let root = root.expect("room");
    let (turn, synced) = (Mutex::new(from), Mutex::new(from));
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                loop {
                    let mut last = turn.lock().expect("lock");
                    if *last == to {
                        return;
                    }
                    let n = *last + 1;
                    heap.transaction(|tx| step(tx, root, n)).expect("room");
                    *last = n;
                    if n % 211 == 0 {
                        heap.checkpoint().expect("a memory");
                    }
                    if n % 97 == 0 {
                        heap.sync().expect("a memory");
                        if state.lock().expect("lock").image.is_none() {
                            *synced.lock().expect("lock") = n;
                        }
                    }
                    drop(last);
                    std::thread::yield_now();
                }
            });
        }
    });
    synced.into_inner().expect("lock")
}

fn step(tx: &mut aquifer_durable::Transaction<'_>, root: HomeAddress, n: u64) -> Result<()> {
    let cell = root.plus_bytes(n * 7 % CELLS * CELL_BYTES);
    tx.store(cell.plus_bytes(8), &vec![n as u8; (n % 9 * 100) as usize])?;
    tx.store_u64(cell, n)?;
    tx.store_u64(root.plus_bytes(CELLS * CELL_BYTES), n)
}

#[test]
fn a_crash_leaves_a_prefix() {
    let rounds: u64 = std::env::var("AQUIFER_CRASHES").map_or(25, |n| n.parse().expect("a number"));
    let levels = [Durability::Relaxed, Durability::Group(Duration::from_micros(300))];
    let mut lost = 0;
    for seed in 1..=rounds {
        let (mut image, mut last) = (Vec::new(), 0);
        // Several lives of one file.
        for life in 0..4u64 {
            let mixed = (seed * 4 + life).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20;
            let (heap, state) = open(image, levels[mixed as usize % 2], mixed, 50 + mixed % 1400);
            let found = look(&heap);
            assert_eq!(found, (last, expected(last)), "seed {seed}, life {life}");
            let end = last + 1500;
            let synced = run(&heap, &state, last, end);
            drop(heap);
            image = state.lock().expect("lock").image.take().expect("so many calls were made");
            let (heap, state) = open(image, Durability::Sync, mixed, u64::MAX);
            let found = look(&heap);
            assert!(found.0 >= synced && found.0 <= end, "seed {seed}: {} of {synced} to {end}", found.0);
            assert_eq!(found.1, expected(found.0), "seed {seed}, life {life}: no prefix");
            (last, lost) = (found.0, lost + end - found.0);
            drop(heap);
            image = state.lock().expect("lock").durable.clone();
        }
    }
    assert!(lost > 0, "no crash came between");
}

#[test]
fn a_closed_heap_has_all() {
    let (heap, state) = open(Vec::new(), Durability::Relaxed, 3, u64::MAX);
    run(&heap, &state, 0, 500);
    drop(heap);
    let image = state.lock().expect("lock").durable.clone();
    let (heap, _) = open(image, Durability::Sync, 3, u64::MAX);
    assert_eq!(look(&heap), (500, expected(500)));
}
