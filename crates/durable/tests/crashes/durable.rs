//! Durable heaps on a machine.

use std::sync::Arc;

use aquifer_base::HomeAddress;
use aquifer_durable::{Durability, DurableHeap, Error, Options, Result, Tuning};

use crate::hits::{Doing, Kind, doing, while_doing};
use crate::landing::Landing;
use crate::machine::{Crash, Machine, mix};
use crate::memory::Medium;
use crate::model::{Subject, looks};
use crate::program::Shape;

/// The smallest that there are, so that a short program has some.
pub const CHUNK_BYTES: u64 = 64 << 10;
pub const SUPERBLOCK_BYTES: u64 = 4096;
/// Of it, what says what the file is.
const FIRST_BYTES: u64 = 64;
/// Bytes of a chunk's header.
const HEADER_BYTES: usize = 32;
const CHUNKS: u64 = 20;
const CAPACITY_BYTES: u64 = SUPERBLOCK_BYTES + CHUNKS * CHUNK_BYTES;

/// Objects of sizes in areas of their own; a few are larger than a chunk.
pub const SHAPE: Shape =
    Shape { sizes: &[8, 24, 100, 300, 1000, 4096, 9000], large: &[70_000, 140_000], objects_max: 200 };

/// What the persists of a durable heap are.
fn kind_of(_memory: usize, offset: u64, bytes: &[u8]) -> Kind {
    let Some(offset) = offset.checked_sub(SUPERBLOCK_BYTES) else {
        return if offset < FIRST_BYTES { Kind::Superblock } else { Kind::Value };
    };
    match offset % CHUNK_BYTES {
        0 if bytes.starts_with(b"FREE") => Kind::Removal,
        0 if bytes.starts_with(b"CKPT") => Kind::Checkpoint,
        // A checkpoint is there whole before its header's first bytes.
        8 if bytes.len() > HEADER_BYTES - 8 => Kind::Checkpoint,
        0 | 8 => Kind::Header,
        _ if bytes == [0; 8] => Kind::Grow,
        _ if doing() == Doing::Cleaning => Kind::Copy,
        // The role of a block is below its version. Where each entry is persisted on its own, most persists are shorter.
        _ if bytes.len() > 16 && matches!(bytes[8] & 3, 1 | 2) => Kind::Part,
        _ => Kind::Commit,
    }
}

/// Kinds of operations of a heap that there is.
pub const KINDS: [Kind; 10] = [
    Kind::Value,
    Kind::Commit,
    Kind::Part,
    Kind::Header,
    Kind::Copy,
    Kind::Removal,
    Kind::Checkpoint,
    Kind::Grow,
    Kind::Punch,
    Kind::Refill,
];

/// A crash in an operation of any kind, or in one of the first of one kind, of commits that wait or do not.
pub fn any_crash(seed: u64, operations: u64, under_way: usize, durability: Durability) -> Crash {
    let landing = Landing::Seed(mix(seed ^ 1));
    let waits = durability == Durability::Sync;
    let is_kill = !waits && mix(seed ^ 3).is_multiple_of(4);
    let (at, of) = match KINDS.get(mix(seed ^ 2) as usize % (2 * KINDS.len())) {
        Some(Kind::Value) if !waits && mix(seed ^ 4).is_multiple_of(2) => {
            (1 + mix(seed) % 6, Some(Kind::Sync))
        }
        Some(&kind) => (1 + mix(seed) % 6, Some(kind)),
        None => (1 + mix(seed) % operations, None),
    };
    Crash { at, of, under_way, landing, is_kill }
}

/// A machine with room for a heap.
pub fn machine(medium: Medium, has_threads: bool) -> Arc<Machine> {
    Machine::new(medium, &[CAPACITY_BYTES], has_threads, kind_of)
}

/// A machine that has what another one's memory has, all of it durable; `has_writes` as in [`Memory::image`](crate::memory::Memory::image).
pub fn image(machine: &Machine, has_writes: bool) -> Arc<Machine> {
    Machine::with(vec![machine.with_memory(0, |memory| memory.image(has_writes))], false, kind_of)
}

/// How a heap is opened.
#[derive(Clone, Copy, Default, Debug)]
pub struct How {
    /// Whether a thread cleans.
    pub cleans_ahead: bool,
    /// Whether there are checkpoints: at close, and if a thread cleans it writes some too.
    pub checkpoints: bool,
    /// Which optimisations it has.
    pub tuning: Tuning,
    /// When its commits are durable.
    pub durability: Durability,
}

/// Opens the heap, or makes it.
pub fn open(machine: &Arc<Machine>, how: How) -> Result<DurableHeap> {
    let checkpoint_bytes = match how {
        How { checkpoints: false, .. } => 0,
        How { cleans_ahead: true, .. } => 2 * CHUNK_BYTES,
        How { cleans_ahead: false, .. } => u64::MAX,
    };
    let options = Options {
        cleans_ahead: how.cleans_ahead,
        tuning: how.tuning,
        durability: how.durability,
        capacity_bytes: CAPACITY_BYTES,
        chunk_bytes: CHUNK_BYTES as u32,
        checkpoint_bytes,
        // A few entries at a time.
        opening_bytes: 2 << 10,
        ..Options::default()
    };
    while_doing(Doing::Opening, || DurableHeap::on(machine.memory(0), &options, "memory"))
}

/// Opens a heap after a crash. Where all commits wait opening an existing heap writes nothing, so a crash meanwhile changes nothing.
pub fn reopen(machine: &Arc<Machine>, how: How) -> Result<DurableHeap> {
    machine.start(None);
    let heap = open(machine, how)?;
    if machine.operations() == 0 {
        return Ok(heap);
    }
    // The crash came before there was a heap, or there is a floor.
    drop(heap);
    machine.start(None);
    let heap = open(machine, how)?;
    let is_quiet = machine.operations() == 0 || how.durability != Durability::Sync;
    assert!(is_quiet, "recovery writes nothing");
    Ok(heap)
}

/// More passes than a heap of this size can gain something by.
const PASSES_MAX: usize = 10_000;

/// Cleans as long as that gains something, which ends.
pub fn clean(heap: &DurableHeap) -> Result<()> {
    for _ in 0..PASSES_MAX {
        if !while_doing(Doing::Cleaning, || heap.clean())? {
            return Ok(());
        }
    }
    panic!("cleaning never ends: {:?}", heap.usage());
}

impl Subject for DurableHeap {
    fn is_gone(&self, home: HomeAddress, bytes: usize, is_taken: &dyn Fn(HomeAddress) -> bool) -> bool {
        looks(bytes).map(|at| home.plus_bytes(at)).filter(|&home| !is_taken(home)).all(|home| {
            let found = self.transaction(|tx| tx.load(home, &mut [0]));
            matches!(found, Err(Error::NotAllocated(_)))
        })
    }
}
