//! What a system must do for the transactions, and what it is given.

mod heap;
mod lmdb;
mod pmemobj;
mod pmemobj_actions;
mod redb;

use aquifer_durable::{Backing, DurableHeap, Options, Tuning};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::cell::Variant;
use super::directory::Setup;
use super::heaps::{self, Medium, Persisted};
use super::options;
use super::transactions::Workload;
use crate::error::{Error, Result};
use crate::payload::Payload;
use heap::Heap;

/// Objects whose words are updated.
pub const OBJECTS: usize = 1 << 16;
/// Bytes of one: two cache lines.
pub const OBJECT_BYTES: usize = 128;
/// Where the second word is; the first one is at 0.
const SECOND_WORD: usize = 64;
/// Buckets of the maps on heaps.
pub const BUCKETS: u64 = 1 << 18;
/// A key's highest bits say which bucket it is in.
pub const BUCKET_SHIFT: u32 = 64 - BUCKETS.trailing_zeros();

/// A store whose transactions are measured.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum System {
    /// The durable heap on a mapped file, whose bytes are flushed from the processor's caches
    Aquifer,
    /// The same without flushes and fences, as it is by itself on a file system in RAM
    AquiferRam,
    /// The same, on memory that is as slow to persist as the options say
    AquiferEmulated,
    /// libpmemobj's transactions: an undo log
    Pmemobj,
    /// libpmemobj's actions: values that are set, and published together
    PmemobjActions,
    /// LMDB with `MDB_WRITEMAP` and `MDB_NOSYNC`
    LmdbNosync,
    /// LMDB as it comes
    LmdbSync,
    /// redb, `Durability::None`
    RedbNone,
    /// redb, `Durability::Immediate`
    RedbImmediate,
}

impl System {
    /// Whether it cleans its file, as far as it is told to.
    pub fn cleans(self) -> bool {
        matches!(self, Self::Aquifer | Self::AquiferRam | Self::AquiferEmulated)
    }
}

/// A system with objects or a map in it. Threads that call it at the same time take different objects, and keys of different
/// buckets. Errors are the system's.
pub trait Store: Sync {
    /// A transaction that adds 1 to the first word of an object and takes 1 from the second.
    fn update(&self, index: u64) -> Result<()>;

    /// A transaction that puts `value` under `key`.
    fn insert(&self, key: u64, value: u64) -> Result<()>;

    /// An object.
    fn object(&self, index: u64) -> Result<[u8; OBJECT_BYTES]>;

    /// What is under `key`.
    fn get(&self, key: u64) -> Result<Option<u64>>;

    /// What it has persisted so far, where it counts that.
    fn persisted(&self) -> Option<Persisted> {
        None
    }
}

/// Opens a store in a new file and puts in it what `workload` needs: the objects, or an empty map.
///
/// # Errors
/// [`Error::Unavailable`](crate::Error::Unavailable) if the machine lacks what it needs, and those of the system.
pub fn open(variant: Variant<System>, setup: &Setup, workload: Workload) -> Result<Box<dyn Store>> {
    let percent = variant.percent.unwrap_or_default();
    Ok(match variant.system {
        System::Aquifer | System::AquiferRam => {
            if variant.system == System::AquiferRam && !setup.is_memory {
                let dir = setup.dir.display();
                return Err(Error::Unavailable(format!("{dir} is not in memory")));
            }
            // What a heap finds out by itself is whether flushes are of use; the others beside it have them.
            let flushes = variant.system == System::Aquifer && setup.is_memory;
            let backing = if flushes { Backing::Memory } else { Backing::Detect };
            let heap = DurableHeap::open(
                &setup.path(),
                &Options { backing, ..options(setup, percent, Tuning::ALL) },
            );
            Box::new(Heap::fill(heap.map_err(|error| setup.failed("opening", error))?, setup, workload)?)
        }
        System::AquiferEmulated => {
            let heap = heaps::durable(setup, Medium::Emulated, percent, Tuning::ALL)?;
            Box::new(Heap::fill(heap, setup, workload)?)
        }
        System::Pmemobj => Box::new(Heap::fill(pmemobj::Pool::create(setup)?, setup, workload)?),
        System::PmemobjActions => Box::new(pmemobj_actions::Actions::open(setup, workload)?),
        System::LmdbNosync => Box::new(lmdb::Lmdb::open(setup, workload, false)?),
        System::LmdbSync => Box::new(lmdb::Lmdb::open(setup, workload, true)?),
        System::RedbNone => Box::new(redb::Redb::open(setup, workload, ::redb::Durability::None)?),
        System::RedbImmediate => Box::new(redb::Redb::open(setup, workload, ::redb::Durability::Immediate)?),
    })
}

/// The bytes of an object before it is updated.
pub fn first_bytes(payload: Payload, index: u64) -> [u8; OBJECT_BYTES] {
    let mut bytes = [0; OBJECT_BYTES];
    payload.fill(index, &mut bytes);
    bytes
}

/// Updates an object `times` times.
pub fn updated(object: &mut [u8; OBJECT_BYTES], times: u64) {
    let mut change = |at: usize, by: u64| {
        let word = &mut object[at..at + 8];
        let value = u64::from_ne_bytes((&*word).try_into().expect("eight bytes"));
        word.copy_from_slice(&value.wrapping_add(by).to_ne_bytes());
    };
    change(0, times);
    change(SECOND_WORD, times.wrapping_neg());
}
