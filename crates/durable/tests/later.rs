//! Commits that do not wait for durability, and the syncs that make them durable: beside each other, and when the memory refuses one.
//!
//! The memory is that of a machine: what was stored is seen, what was synced is durable.

use std::collections::BTreeSet;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use aquifer_base::HomeAddress;
use aquifer_durable::persist::{Counts, Persist};
use aquifer_durable::{Durability, DurableHeap, Error, Options, Result};

const CHUNK_BYTES: u32 = 64 << 10;

#[derive(Default)]
struct State {
    seen: Vec<u8>,
    durable: Vec<u8>,
    /// Words of eight bytes that were stored and not synced.
    pending: BTreeSet<usize>,
    /// A sync of ranges says that it has come, and waits for a word, once.
    held: Option<(Sender<()>, Receiver<()>)>,
    /// Syncs until one is refused, and whether all are from then on.
    refuses: Option<(u64, bool)>,
    /// How often it can become longer still, if not for ever.
    grows_left: Option<u32>,
    /// Nothing arrives any more: the process is gone.
    is_dead: bool,
}

impl State {
    fn store(&mut self, offset: u64, bytes: &[u8]) {
        let offset = offset as usize;
        self.seen[offset..offset + bytes.len()].copy_from_slice(bytes);
        self.pending.extend(offset / 8..(offset + bytes.len()).div_ceil(8));
    }

    fn sync(&mut self, offset: u64, len: u64) {
        let words = offset as usize / 8..(offset + len).div_ceil(8) as usize;
        for word in self.pending.range(words).copied().collect::<Vec<_>>() {
            let bytes = word * 8..self.seen.len().min(word * 8 + 8);
            self.durable[bytes.clone()].copy_from_slice(&self.seen[bytes]);
            self.pending.remove(&word);
        }
    }

    fn check(&mut self) -> Result<()> {
        let refused =
            || Error::Io { what: "persisting".into(), source: std::io::Error::from_raw_os_error(libc::EIO) };
        if self.is_dead {
            return Err(refused());
        }
        match &mut self.refuses {
            None => Ok(()),
            Some((0, is_for_good)) => {
                if !*is_for_good {
                    self.refuses = None;
                }
                Err(refused())
            }
            Some((left, _)) => {
                *left -= 1;
                Ok(())
            }
        }
    }
}

#[derive(Clone, Default)]
struct Machine(Arc<Mutex<State>>);

impl Machine {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("nobody panics")
    }

    /// A heap on it, in a process of its own.
    fn open(&self, options: &Options) -> DurableHeap {
        DurableHeap::on(Box::new(Memory(self.clone(), Counts::default())), options, "the memory")
            .expect("opens")
    }

    /// The process is killed: what it stored is seen by the next, which gets a machine of its own.
    fn kill(&self, heap: DurableHeap) -> Self {
        let next = {
            let mut state = self.state();
            state.is_dead = true;
            let (seen, durable, pending) = (state.seen.clone(), state.durable.clone(), state.pending.clone());
            State { seen, durable, pending, ..State::default() }
        };
        drop(heap);
        Self(Arc::new(Mutex::new(next)))
    }

    /// What is left if the power goes now and nothing arrives that was not synced.
    fn after_cut(&self) -> Self {
        let durable = self.state().durable.clone();
        Self(Arc::new(Mutex::new(State { seen: durable.clone(), durable, ..State::default() })))
    }
}

struct Memory(Machine, Counts);

impl Persist for Memory {
    fn len_bytes(&self) -> u64 {
        self.0.state().seen.len() as u64
    }

    fn grow(&self, len_bytes: u64) -> Result<()> {
        let mut state = self.0.state();
        if let Some(left) = &mut state.grows_left {
            let full = std::io::Error::from_raw_os_error(libc::ENOSPC);
            let refused = || Error::Io { what: "growing".into(), source: full };
            *left = left.checked_sub(1).ok_or_else(refused)?;
        }
        let len = state.seen.len().max(len_bytes as usize);
        state.seen.resize(len, 0);
        state.durable.resize(len, 0);
        Ok(())
    }

    fn persist(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let mut state = self.0.state();
        if state.is_dead {
            return state.check();
        }
        state.store(offset, bytes);
        state.check()?;
        state.sync(offset, bytes.len() as u64);
        Ok(())
    }

    fn store(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let mut state = self.0.state();
        if state.is_dead {
            return state.check();
        }
        state.store(offset, bytes);
        Ok(())
    }

    fn sync(&self, ranges: &[(u64, u64)]) -> Result<()> {
        let held = if ranges.is_empty() { None } else { self.0.state().held.take() };
        if let Some((has_come, word)) = held {
            has_come.send(()).expect("somebody listens");
            word.recv().expect("a word");
        }
        let mut state = self.0.state();
        state.check()?;
        ranges.iter().for_each(|&(offset, len)| state.sync(offset, len));
        Ok(())
    }

    fn read(&self, offset: u64, out: &mut [u8]) {
        let state = self.0.state();
        for (n, byte) in out.iter_mut().enumerate() {
            *byte = state.seen.get(offset as usize + n).copied().unwrap_or(0);
        }
    }

    fn punch(&self, offset: u64, len_bytes: u64) -> Result<()> {
        self.persist(offset, &vec![0; len_bytes as usize])
    }

    fn refill(&self, _: u64, _: u64) -> Result<()> {
        Ok(())
    }

    fn counts(&self) -> &Counts {
        &self.1
    }
}

fn options(durability: Durability) -> Options {
    let (capacity_bytes, chunk_bytes) = (4 << 20, CHUNK_BYTES);
    let opening_bytes = 1 << 10;
    Options {
        durability,
        capacity_bytes,
        chunk_bytes,
        opening_bytes,
        cleans_ahead: false,
        ..Options::default()
    }
}

fn allocate(heap: &DurableHeap) -> HomeAddress {
    let root = heap.transaction(|tx| {
        let root = tx.alloc(4096)?;
        tx.set_root(root)?;
        Ok(root)
    });
    root.expect("room")
}

fn set(heap: &DurableHeap, root: HomeAddress, n: u64) -> Result<()> {
    heap.transaction(|tx| tx.store(root, &[n.to_ne_bytes(); 128].concat()))
}

fn get(heap: &DurableHeap) -> u64 {
    heap.transaction(|tx| tx.root()?.map_or(Ok(0), |root| tx.load_u64(root))).expect("reads")
}

/// A session goes on with another chunk, and syncs what is in its old one; meanwhile somebody syncs the heap.
#[test]
fn a_sync_waits_for_what_another_is_making_durable() {
    let machine = Machine::default();
    let heap = machine.open(&options(Durability::Relaxed));
    let root = allocate(&heap);
    let ((has_come, comes), (say, word)) = (channel(), channel());
    machine.state().held = Some((has_come, word));
    std::thread::scope(|scope| {
        let heap = &heap;
        let fill = scope.spawn(move || (1..=100).try_for_each(|n| set(heap, root, n)));
        comes.recv().expect("a chunk that is full");
        // This is after the first commits, which it must make durable.
        let shown = get(heap);
        let sync = scope.spawn(|| {
            heap.sync().expect("a memory");
            get(&machine.after_cut().open(&options(Durability::Sync)))
        });
        // Time for it to be wrong.
        std::thread::sleep(Duration::from_millis(100));
        say.send(()).expect("somebody waits");
        let kept = sync.join().expect("no panic");
        assert!(kept >= shown, "{shown} was committed before a sync, {kept} is there");
        fill.join().expect("no panic").expect("room");
    });
}

/// After a sync that failed nobody knows what is durable: nothing is acknowledged any more.
#[test]
fn nothing_is_acknowledged_after_a_sync_that_failed() {
    for durability in [Durability::Relaxed, Durability::Group(Duration::from_micros(100))] {
        let machine = Machine::default();
        let heap = machine.open(&options(durability));
        let root = allocate(&heap);
        set(&heap, root, 1).expect("room");
        heap.sync().expect("a memory");
        machine.state().refuses = Some((0, false));
        let refused = (2..100_000).find_map(|n| {
            let outcome = set(&heap, root, n)
                .and_then(|()| if durability == Durability::Relaxed { heap.sync() } else { Ok(()) });
            outcome.err()
        });
        assert!(matches!(refused, Some(Error::Io { .. })), "{durability:?}: {refused:?}");
        let shown = get(&heap);
        assert!(
            matches!(set(&heap, root, 0), Err(Error::Io { .. })),
            "{durability:?}: a commit was acknowledged"
        );
        assert!(matches!(heap.sync(), Err(Error::Io { .. })), "{durability:?}: a sync was acknowledged");
        assert_eq!(get(&heap), shown, "what is there can be read");
        drop(heap);
        let kept = get(&machine.after_cut().open(&options(Durability::Sync)));
        assert!((1..=shown).contains(&kept), "{durability:?}: {kept}");
    }
}

const SLOTS: u64 = 16;

/// Another object for a slot, in place of the one it has.
fn turn(heap: &DurableHeap, n: u64) -> Result<()> {
    heap.transaction(|tx| {
        let root = match tx.root()? {
            Some(root) => root,
            None => {
                let root = tx.alloc(SLOTS * 8)?;
                tx.set_root(root)?;
                root
            }
        };
        let slot = root.plus_bytes(n % SLOTS * 8);
        let old = tx.load_u64(slot)?;
        if old != 0 {
            tx.free(HomeAddress(old))?;
        }
        let object = tx.alloc(8 + n % 5 * 700)?;
        tx.store_u64(object, n)?;
        tx.store_u64(slot, object.0)
    })
}

/// What each slot has, and how much there is in all.
fn look(heap: &DurableHeap) -> (Vec<u64>, u64) {
    let slots = heap.transaction(|tx| {
        let Some(root) = tx.root()? else { return Ok(Vec::new()) };
        let mut numbers = Vec::new();
        for slot in 0..SLOTS {
            let object = tx.load_u64(root.plus_bytes(slot * 8))?;
            numbers.push(if object == 0 { 0 } else { tx.load_u64(HomeAddress(object))? });
        }
        Ok(numbers)
    });
    (slots.expect("reads"), heap.usage().live_bytes)
}

/// Turns from `from` on, with some cleaning and checkpoints between.
fn work(heap: &DurableHeap, from: u64, turns: u64, cleans_each: u64) -> Result<()> {
    (from..from + turns).try_for_each(|n| {
        turn(heap, n)?;
        if n % 10 == 0 {
            heap.sync()?;
        }
        if n % cleans_each == 0 {
            heap.clean()?;
        }
        if n % 150 == 0 {
            heap.checkpoint()?;
        }
        Ok(())
    })
}

/// The process is killed at each sync, with what it has stored; another opens the heap and shows what it finds. Then the power goes, at once or after
/// more work, in which what was cleaned before the kill counts as cleaned.
#[test]
fn what_is_shown_after_a_kill_is_there_after_a_cut() {
    for durability in [Durability::Sync, Durability::Relaxed] {
        let mut kills = 0;
        for at in 0..100_000 {
            let machine = Machine::default();
            let heap = machine.open(&options(durability));
            machine.state().refuses = Some((at, true));
            let outcome = work(&heap, 1, 400, 60);
            let killed = machine.kill(heap);
            let checkpoint_bytes = if at.is_multiple_of(2) { 0 } else { 1 << 30 };
            let next = killed.open(&Options { checkpoint_bytes, ..options(durability) });
            let shown = look(&next);
            let kept = look(&killed.after_cut().open(&options(durability)));
            assert_eq!(shown, kept, "{durability:?}: killed at sync {at}");
            work(&next, 1000, 60, 3).and_then(|()| next.sync()).expect("room");
            let kept = look(&killed.after_cut().open(&options(durability)));
            assert_eq!(look(&next), kept, "{durability:?}: killed at sync {at}, after more work");
            if outcome.is_ok() {
                break;
            }
            kills += 1;
        }
        assert!(kills > 50, "{kills} kills");
    }
}

/// A checkpoint needs some chunks, and the disk has room for fewer.
#[test]
fn a_checkpoint_without_room_leaves_nothing_behind() {
    let machine = Machine::default();
    let heap = machine.open(&Options { capacity_bytes: 8 << 20, ..options(Durability::Sync) });
    let homes = heap.transaction(|tx| (0..200).map(|_| tx.alloc(4000)).collect::<Result<Vec<_>>>());
    let homes = homes.expect("room");
    // Many extents each.
    for at in (0..4000).step_by(40) {
        homes
            .iter()
            .try_for_each(|home| heap.transaction(|tx| tx.store(home.plus_bytes(at), &[1; 4])))
            .expect("room");
    }
    let mut refused = 0;
    for round in 0..200 {
        machine.state().grows_left = Some(round % 3);
        refused += u32::from(!heap.checkpoint().expect("a full disk is no error of a checkpoint"));
        machine.state().grows_left = None;
    }
    assert!(refused > 3, "{refused} were refused");
    for n in 0..3 {
        homes.iter().try_for_each(|&home| heap.transaction(|tx| tx.store(home, &[n; 4000]))).expect("room");
    }
}
