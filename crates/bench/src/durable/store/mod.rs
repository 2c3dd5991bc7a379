//! What a system must do for the loads.

mod aquifer;
mod chained_map;
mod heap;
mod lmdb;
mod lmdb_abi;
mod pmemobj;
mod pmemobj_abi;
mod pmemobj_actions;
mod redb;

use std::path::{Path, PathBuf};

use aquifer_durable::persist::{Counts, Persist};
use serde::{Deserialize, Serialize};

use super::load::Workload;
use super::system::{Contestant, System};
use crate::error::{Error, Result};
use crate::rng::Rng;

/// Objects whose words are updated.
pub const OBJECTS: usize = 1 << 16;
/// Bytes of one: two cache lines.
pub const OBJECT_BYTES: usize = 128;
/// Where the second word is; the first one is at 0.
pub const SECOND_WORD: usize = 64;
/// Buckets of the maps on heaps.
pub const BUCKETS: u64 = 1 << 18;
/// A key's highest bits say which bucket it is in.
pub const BUCKET_SHIFT: u32 = 64 - BUCKETS.trailing_zeros();

/// What every system is given.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Setup {
    /// Directory for its files, which somebody else removes.
    pub dir: PathBuf,
    /// Whether what is stored in a mapped file there needs no system call to be durable (DAX), or is in RAM (tmpfs).
    pub is_memory: bool,
    /// How large its file may become.
    pub capacity_bytes: u64,
    /// Least time of a persist to emulated memory.
    pub latency_ns: u64,
    /// Bytes that emulated memory persists in a second.
    pub bandwidth_bytes_per_s: u64,
}

/// What was persisted.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Persisted {
    /// Waits for durability.
    pub fences: u64,
    /// Bytes.
    pub bytes: u64,
    /// Lines of 64 bytes that these were in.
    pub lines: u64,
}

impl Persisted {
    /// To all of these together.
    pub fn to(persists: &[&dyn Persist]) -> Self {
        let sum = |count: fn(&Counts) -> u64| persists.iter().map(|persist| count(persist.counts())).sum();
        Self { fences: sum(Counts::fences), bytes: sum(Counts::bytes), lines: sum(Counts::lines) }
    }

    /// What came after `earlier`.
    pub fn since(self, earlier: Self) -> Self {
        Self {
            fences: self.fences - earlier.fences,
            bytes: self.bytes - earlier.bytes,
            lines: self.lines - earlier.lines,
        }
    }
}

/// A system with objects or a map in it. Threads that call it at the same time take different objects, and keys of different
/// buckets.
pub trait Store: Sync {
    /// A transaction that adds 1 to the first word of an object and takes 1 from the second.
    ///
    /// # Errors
    /// The system's.
    fn update(&self, index: u64) -> Result<()>;

    /// A transaction that puts `value` under `key`.
    ///
    /// # Errors
    /// The system's.
    fn insert(&self, key: u64, value: u64) -> Result<()>;

    /// Both words of an object.
    ///
    /// # Errors
    /// The system's.
    fn words(&self, index: u64) -> Result<(u64, u64)>;

    /// What is under `key`.
    ///
    /// # Errors
    /// The system's.
    fn get(&self, key: u64) -> Result<Option<u64>>;

    /// What it has persisted so far, where it counts that.
    fn persisted(&self) -> Option<Persisted> {
        None
    }
}

/// Opens a store in a new file and puts in it what `workload` needs: the objects, or an empty map.
///
/// # Errors
/// [`Error::Unavailable`] if the machine lacks what it needs, and those of the system.
pub fn open(contestant: Contestant, setup: &Setup, workload: Workload) -> Result<Box<dyn Store>> {
    let percent = contestant.utilisation_percent;
    Ok(match contestant.system {
        System::Aquifer => Box::new(aquifer::open(setup, workload, percent)?),
        System::AquiferEmulated => Box::new(aquifer::open_emulated(setup, workload, percent)?),
        System::Pmemobj => Box::new(pmemobj::open(setup, workload)?),
        System::PmemobjActions => Box::new(pmemobj_actions::Actions::open(setup, workload)?),
        System::LmdbNosync => Box::new(lmdb::Lmdb::open(setup, workload, lmdb::Sync::Never)?),
        System::LmdbSync => Box::new(lmdb::Lmdb::open(setup, workload, lmdb::Sync::Always)?),
        System::RedbNone => Box::new(redb::Redb::open(setup, workload, ::redb::Durability::None)?),
        System::RedbImmediate => Box::new(redb::Redb::open(setup, workload, ::redb::Durability::Immediate)?),
    })
}

/// The bytes of an object before it is updated.
pub fn first_bytes(index: u64) -> [u8; OBJECT_BYTES] {
    let (mut rng, mut bytes) = (Rng::new(index), [0; OBJECT_BYTES]);
    for word in bytes.chunks_exact_mut(8) {
        word.copy_from_slice(&rng.next().to_ne_bytes());
    }
    bytes
}

/// The words that [`Store::update`] changes.
pub fn words_of(object: &[u8; OBJECT_BYTES]) -> (u64, u64) {
    let word = |at: usize| u64::from_ne_bytes(object[at..at + 8].try_into().expect("8 bytes"));
    (word(0), word(SECOND_WORD))
}

/// An object after one more update.
fn updated(mut object: [u8; OBJECT_BYTES]) -> [u8; OBJECT_BYTES] {
    let (first, second) = words_of(&object);
    object[..8].copy_from_slice(&first.wrapping_add(1).to_ne_bytes());
    object[SECOND_WORD..SECOND_WORD + 8].copy_from_slice(&second.wrapping_sub(1).to_ne_bytes());
    object
}

/// Whether all objects are as `updates` of them left them.
///
/// # Errors
/// [`Error::WrongData`], and those of the system.
pub fn check_objects(store: &dyn Store, updates: u64, peer: &str) -> Result<()> {
    let wrong = |what| Error::WrongData { peer: peer.to_owned(), what };
    let mut found = 0u64;
    for index in 0..OBJECTS as u64 {
        let (before, after) = (words_of(&first_bytes(index)), store.words(index)?);
        let (added, taken) = (after.0.wrapping_sub(before.0), before.1.wrapping_sub(after.1));
        if added != taken {
            return Err(wrong(format!(
                "object {index} has {added} updates of one word, {taken} of the other"
            )));
        }
        found = found.wrapping_add(added);
    }
    if found == updates { Ok(()) } else { Err(wrong(format!("{found} updates instead of {updates}"))) }
}

/// An error that a library reports.
pub fn failed(doing: &'static str, path: &Path, error: impl std::fmt::Display) -> Error {
    Error::io(doing, path)(std::io::Error::other(error.to_string()))
}
