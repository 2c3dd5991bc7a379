//! The whole: a file, the map of it, and the transactions on it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::access::{Transactional, until_no_conflict};
use crate::background::{Background, Tasks};
use crate::cleaner::Cleaned;
use crate::core::Core;
use crate::durability::{Durability, Later};
use crate::error::{Error, Result};
use crate::log::{self, Log};
use crate::persist::{FlashFile, Latched, Medium, MemoryFile, Persist};
use crate::record::{self, NO_FLOOR, Record};
use crate::recovery::{self, Damage};
use crate::superblock::{SUPERBLOCK_BYTES, Superblock};
use crate::transaction::{ReadTransaction, Transaction};
use crate::tuning::Tuning;
use crate::usage::Usage;

/// Fewest chunks: those that are kept for making room, and some.
const CHUNKS_MIN: u64 = 12;

/// What a heap's file is on.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Backing {
    /// What it is found to be: memory on persistent memory (DAX), else flash; on tmpfs memory that is not written back from the caches, as it does
    /// not survive the machine anyway.
    #[default]
    Detect,
    /// Memory: what was stored and fenced is durable. On a disk it survives the process, not the machine.
    Memory,
    /// A disk: what `fdatasync` has written is durable.
    Flash,
}

/// How a heap is opened.
#[derive(Clone, Debug)]
pub struct Options {
    /// How large the file may become. Default 1 GiB, at most 4 TiB. Beyond 16 GiB the map takes a byte more for each piece of an object. There are
    /// 16 times as much home space, 256 GiB to 4 TiB, for which the map takes a 256th of what is in use.
    pub capacity_bytes: u64,
    /// Size of a chunk, when the file is made: a power of two, 64 KiB to 16 MiB; a file has up to 2^20 of them. 0, the default, is 1 MiB, and more if the
    /// capacity is over 256 GiB.
    pub chunk_bytes: u32,
    /// The file grows only while at least this share of it is objects; else it is cleaned. 5 to 95, default 85.
    pub utilisation_percent: u32,
    /// What the file is on.
    pub backing: Backing,
    /// Whether a thread cleans before a transaction has to wait for it. Default yes.
    pub cleans_ahead: bool,
    /// When a commit is durable. Default when it returns.
    pub durability: Durability,
    /// A checkpoint of the map is written after about this many bytes were appended since the last one, and
    /// when the heap is closed. Opening then takes a fraction of the time, and chunks that it skips are
    /// verified when they are loaded or in the background. 0, the default, writes none: opening reads and
    /// verifies everything, but for what a checkpoint has that was written earlier.
    pub checkpoint_bytes: u64,
    /// RAM for entries of the log while the heap is opened; with less it takes longer. Default 256 MiB. More is taken only for the pieces of one
    /// transaction that is larger than a chunk.
    pub opening_bytes: u64,
    /// Optimisations, to switch some off. Default all on.
    pub tuning: Tuning,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            capacity_bytes: 1 << 30,
            chunk_bytes: 0,
            utilisation_percent: 85,
            backing: Backing::Detect,
            cleans_ahead: true,
            durability: Durability::Sync,
            checkpoint_bytes: 0,
            opening_bytes: 256 << 20,
            tuning: Tuning::default(),
        }
    }
}

/// A durable heap in a file.
pub struct DurableHeap {
    core: Arc<Core>,
    background: Option<Background>,
    /// Whether a checkpoint is written when it is closed.
    has_checkpoints: bool,
}

impl DurableHeap {
    /// Opens the heap in the file at `path`, or makes an empty one.
    ///
    /// # Errors
    /// [`Error::Foreign`] if the file is something else, [`Error::Damaged`], [`Error::Io`].
    pub fn open(path: &Path, options: &Options) -> Result<Self> {
        let medium = match options.backing {
            Backing::Detect => Medium::of(path)?,
            Backing::Memory => Medium::Persistent,
            Backing::Flash => Medium::Disk,
        };
        let capacity_bytes = options.capacity_bytes;
        log::ensure_reachable(capacity_bytes, Superblock::CHUNK_BYTES_MAX)?;
        let persist: Box<dyn Persist> = match medium {
            Medium::Ram => Box::new(MemoryFile::open(path, capacity_bytes)?.without_flushes()),
            Medium::Persistent => Box::new(MemoryFile::open(path, capacity_bytes)?),
            Medium::Disk => Box::new(FlashFile::open(path, capacity_bytes)?),
        };
        Self::on(persist, options, &path.display().to_string())
    }

    /// Opens the heap in the file at `path` for reading, which several processes may do at the same time, while none has it open for
    /// changing. Changes fail with [`Error::ReadOnly`].
    ///
    /// # Errors
    /// As [`DurableHeap::open`]; [`Error::Io`] if the file is not there, is empty, or somebody may change it.
    pub fn open_read_only(path: &Path) -> Result<Self> {
        let options = Options { cleans_ahead: false, ..Options::default() };
        Self::on(Box::new(MemoryFile::open_read_only(path)?), &options, &path.display().to_string())
    }

    /// As [`DurableHeap::open`], on any memory; `name` is for messages.
    ///
    /// # Errors
    /// The same.
    pub fn on(persist: Box<dyn Persist>, options: &Options, name: &str) -> Result<Self> {
        let foreign = |why: String| Error::Foreign { path: name.into(), why };
        // A file that is longer already counts with all of it.
        let capacity_bytes = options.capacity_bytes.max(persist.len_bytes());
        let superblock = match Superblock::find(&*persist).map_err(foreign)? {
            Some(superblock) => superblock,
            None => {
                let chunk_bytes = match options.chunk_bytes {
                    0 => Superblock::chunk_bytes_for(capacity_bytes),
                    chunk_bytes => chunk_bytes,
                };
                let superblock = Superblock { chunk_bytes, id: random() };
                log::ensure_reachable(capacity_bytes, chunk_bytes)?;
                Superblock::decode(&superblock.encode()).map_err(foreign)?;
                superblock.create(&*persist)?;
                superblock
            }
        };
        let chunk_bytes = u64::from(superblock.chunk_bytes);
        if capacity_bytes < SUPERBLOCK_BYTES as u64 + CHUNKS_MIN * chunk_bytes {
            return Err(foreign(format!(
                "its chunks have {chunk_bytes} bytes, and it needs a capacity of at least {CHUNKS_MIN} of them"
            )));
        }
        let mut floor = Record::read(&*persist, superblock.id, record::Kind::Floor)?;
        let persist = Box::new(Latched::new(persist));
        if !persist.is_read_only() {
            floor.settle(&*persist, superblock.id)?;
        }
        let log = Log::new(persist, superblock, capacity_bytes, options.utilisation_percent.clamp(5, 95))?;
        let later = (options.durability != Durability::Sync).then(|| Later::new(floor));
        let core = Core::new(log, later, &options.tuning)?;
        recovery::recover(&core, floor.value, options.opening_bytes, &mut Damage::Refused)?;
        let has_checkpoints = options.checkpoint_bytes > 0 && !core.log.persist.is_read_only();
        if !has_checkpoints {
            core.checkpoints.abandon_later(&core.log);
        }
        if core.clock.load(Ordering::Relaxed) == 0 {
            core.format()?;
        }
        match options.durability {
            Durability::Sync if floor.value == NO_FLOOR || core.log.persist.is_read_only() => {}
            Durability::Sync => floor.write(&*core.log.persist, superblock.id, NO_FLOOR)?,
            Durability::Group(_) | Durability::Relaxed => core.sync()?,
        }
        let core = Arc::new(core);
        let sync_interval = match options.durability {
            Durability::Group(interval) => Some(interval),
            Durability::Sync | Durability::Relaxed => None,
        };
        let checkpoint_chunks = match options.checkpoint_bytes.div_ceil(chunk_bytes) {
            chunks if has_checkpoints => u32::try_from(chunks).unwrap_or(u32::MAX),
            _ => 0,
        };
        let tasks = Tasks { cleans: options.cleans_ahead, sync_interval, checkpoint_chunks };
        let background = tasks.are_any().then(|| Background::begin(&core, tasks)).transpose()?;
        Ok(Self { core, background, has_checkpoints })
    }

    /// Runs `body` in a transaction and commits it; again if it met another one, so it should have no other effects.
    ///
    /// # Errors
    /// Those of `body` and of the commit; nothing of the transaction has happened then.
    #[inline]
    pub fn transaction<T>(&self, body: impl FnMut(&mut Transaction<'_>) -> Result<T>) -> Result<T> {
        Transactional::transaction(self, body)
    }

    /// Runs `body` in a transaction that only reads; again if it met another one.
    ///
    /// # Errors
    /// Those of `body`.
    pub fn read<T>(&self, mut body: impl FnMut(&mut ReadTransaction<'_>) -> Result<T>) -> Result<T> {
        until_no_conflict(|| body(&mut ReadTransaction::new(self.core.begin())))
    }

    /// Begins a transaction that the caller commits.
    pub fn begin(&self) -> Transaction<'_> {
        self.core.begin()
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    /// How large the file may become.
    pub fn capacity_bytes(&self) -> u64 {
        self.core.capacity_bytes()
    }

    /// What it is kept in.
    pub fn persist(&self) -> &dyn Persist {
        &*self.core.log.persist
    }

    /// What there is of it now.
    pub fn usage(&self) -> Usage {
        Usage::of(&self.core)
    }

    /// Makes all durable that has committed before this call, and returns when it is. At once if every commit is.
    ///
    /// # Errors
    /// [`Error::Io`]; nothing more is durable then.
    pub fn sync(&self) -> Result<()> {
        self.core.sync()
    }

    /// What cleaning has done.
    pub fn cleaned(&self) -> Cleaned {
        self.core.cleaned()
    }

    /// Cleans some chunks; returns whether that gained room. A chunk that is not what was written there stays as it is, and counts in
    /// [`Cleaned::damaged_chunks`].
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn clean(&self) -> Result<bool> {
        self.core.clean()
    }

    /// Writes a checkpoint of the map beside what others commit; false if there is no room for it. When the heap is opened without
    /// [`Options::checkpoint_bytes`] it is given up as soon as what it has spared recovery was verified.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn checkpoint(&self) -> Result<bool> {
        self.core.checkpoint()
    }
}

impl Drop for DurableHeap {
    fn drop(&mut self) {
        self.background = None;
        self.core.end_all_chunks();
        // A caller that needs to know whether its data are durable has called `sync`.
        let is_synced = self.core.sync().is_ok();
        let clock = self.core.clock.load(Ordering::Relaxed);
        if self.has_checkpoints && is_synced && !self.core.checkpoints.is_of(clock) {
            let _ = self.core.checkpoint();
        }
    }
}

fn random() -> u64 {
    use std::hash::BuildHasher;
    std::hash::RandomState::new().hash_one(0u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::EMPTY_BYTES;
    use crate::chunk::VERSION_MAX;

    /// A file may have the largest version there is. What is committed then must not get a version that recovery refuses.
    #[test]
    fn after_the_last_version_nothing_is_acknowledged() {
        let dir = tempfile::tempdir().expect("a directory");
        let (path, options) =
            (dir.path().join("heap"), Options { capacity_bytes: 16 << 20, ..Options::default() });
        let heap = DurableHeap::open(&path, &options).expect("opens");
        let home = heap.transaction(|tx| {
            let home = tx.alloc(8)?;
            tx.set_root(home)?;
            Ok(home)
        });
        let home = home.expect("room");
        heap.core.clock.store(VERSION_MAX - 3, Ordering::Release);
        let outcomes: Vec<_> = (1..=9).map(|n| heap.transaction(|tx| tx.store_u64(home, n))).collect();
        assert!(outcomes[..3].iter().all(Result::is_ok), "{outcomes:?}");
        assert!(outcomes[3..].iter().all(|outcome| matches!(outcome, Err(Error::Spent))), "{outcomes:?}");
        heap.clean().expect("nothing to do");
        drop(heap);
        let heap = DurableHeap::open(&path, &options).expect("opens again");
        assert_eq!(heap.transaction(|tx| tx.load_u64(home)).expect("reads"), 3);
        assert!(matches!(heap.transaction(|tx| tx.store_u64(home, 9)), Err(Error::Spent)));
    }

    /// Sessions rest for long: what one of them had for a large transaction is the process's again.
    #[test]
    fn a_large_transaction_leaves_no_large_buffers() {
        let dir = tempfile::tempdir().expect("a directory");
        let options = Options { capacity_bytes: 128 << 20, backing: Backing::Memory, ..Options::default() };
        let heap = DurableHeap::open(&dir.path().join("heap"), &options).expect("opens");
        let bytes = vec![7; 8 << 20];
        for ends in [true, false] {
            let outcome = heap.transaction(|tx| {
                for _ in 0..4 {
                    let home = tx.alloc(bytes.len() as u64)?;
                    tx.store(home, &bytes)?;
                }
                if ends { Ok(()) } else { Err(Error::ReadOnly) }
            });
            assert_eq!(outcome.is_ok(), ends);
            let held = heap.core.buffer_bytes();
            assert!(held <= 16 << 20, "{held} bytes");
        }
    }

    /// Beyond the 16 GiB that a short address reaches: on both sides of them, moved by the cleaner, with and without a checkpoint.
    #[test]
    fn a_heap_is_longer_than_short_addresses_reach() {
        const CHUNKS_BEFORE: u32 = 1024 + 3;
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("heap");
        let options = |checkpoint_bytes| Options {
            capacity_bytes: 4 << 40,
            backing: Backing::Memory,
            cleans_ahead: false,
            checkpoint_bytes,
            ..Options::default()
        };
        let heap = DurableHeap::open(&path, &options(1 << 30)).expect("opens");
        assert_eq!(heap.core.log.superblock.chunk_bytes, 16 << 20);
        let homes = heap.transaction(|tx| (0..2000).map(|_| tx.alloc(5000)).collect::<Result<Vec<_>>>());
        let homes = homes.expect("room");
        let set = |heap: &DurableHeap, n: usize, fill: usize| {
            heap.transaction(|tx| tx.store(homes[n], &[(n + fill) as u8; 5000])).expect("room");
        };
        (0..2000).for_each(|n| set(&heap, n, 0));
        heap.core.log.skip(CHUNKS_BEFORE).expect("a file without bytes");
        (0..3500).for_each(|n| set(&heap, 500 + n % 1500, 1));
        let far = |heap: &DurableHeap, n: usize| {
            let found = heap.core.map.find(
                homes[n].partition(),
                homes[n].offset_bytes() / 4,
                &mut Default::default(),
            );
            matches!(found.source, aquifer_map::partitions::Source::Log(grain) if grain >= 1 << 32)
        };
        assert!((0..2000).any(|n| far(&heap, n)) && !(0..2000).all(|n| far(&heap, n)));
        while heap.clean().expect("room") {}
        assert!(heap.cleaned().chunks > 0);
        drop(heap);
        for checkpoint_bytes in [1 << 30, 0, 0] {
            let heap = DurableHeap::open(&path, &options(checkpoint_bytes)).expect("opens again");
            for (n, &home) in homes.iter().enumerate() {
                let mut bytes = [0; 5000];
                heap.transaction(|tx| tx.load(home, &mut bytes)).expect("it is there");
                assert!(bytes == [(n + usize::from(n >= 500)) as u8; 5000], "object {n}");
            }
            assert!((0..2000).any(|n| far(&heap, n)));
        }
        let contents = crate::inspect::HeapFile::open(&path).expect("a heap").contents().expect("in order");
        assert_eq!((contents.objects, contents.damaged_blocks), (2000, 0));
    }

    /// A file can only ask for as much RAM for the map as the capacity that it is opened with allows.
    #[test]
    fn home_space_goes_with_the_capacity() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("heap");
        let options =
            |capacity_bytes| Options { capacity_bytes, checkpoint_bytes: 1 << 30, ..Options::default() };
        let heap = DurableHeap::open(&path, &options(32 << 30)).expect("opens");
        heap.core.homes.skip_to(16_390);
        let home = heap.transaction(|tx| {
            let home = tx.alloc(8)?;
            tx.store_u64(home, 7).map(|()| home)
        });
        let home = home.expect("room");
        assert!(home.0 > 256 << 30);
        // With its checkpoint, and in parts without it.
        drop(heap);
        let load = |heap: &DurableHeap| heap.read(|tx| tx.load_u64(home)).expect("it is there");
        let outcome = DurableHeap::open(&path, &options(1 << 30)).map(drop);
        assert!(matches!(outcome, Err(Error::TooLarge { .. })), "{outcome:?}");
        assert_eq!(load(&DurableHeap::open_read_only(&path).expect("opens")), 7);
        assert_eq!(load(&DurableHeap::open(&path, &options(32 << 30)).expect("opens")), 7);
        assert_eq!(
            crate::inspect::HeapFile::open(&path).and_then(|file| file.contents()).expect("right").objects,
            1
        );
        // No area is left of the least home space.
        let heap = DurableHeap::open(&dir.path().join("other"), &options(1 << 30)).expect("opens");
        heap.core.homes.skip_to(16_384);
        let outcome = heap.transaction(|tx| tx.alloc(8));
        assert!(matches!(outcome, Err(Error::Full { .. })), "{outcome:?}");
    }

    /// More than there are addresses for, or more chunks than there are tables for.
    #[test]
    fn what_is_too_large_is_refused() {
        let dir = tempfile::tempdir().expect("a directory");
        for (capacity_bytes, chunk_bytes) in [(u64::MAX, 0), ((4 << 40) + 1, 16 << 20), (2 << 40, 1 << 20)] {
            let options = Options { capacity_bytes, chunk_bytes, ..Options::default() };
            let outcome = DurableHeap::open(&dir.path().join("heap"), &options).map(drop);
            assert!(matches!(outcome, Err(Error::TooLarge { .. })), "{outcome:?}");
        }
    }

    /// An area that was given when the file had a larger capacity, and has nothing.
    #[test]
    fn a_class_beyond_the_capacity_is_no_matter() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("heap");
        let options = Options { capacity_bytes: 16 << 20, ..Options::default() };
        let heap = DurableHeap::open(&path, &options).expect("opens");
        let beyond = crate::homes::class_home(crate::homes::AREAS as u32 - 1);
        heap.transaction(|tx| tx.store(beyond, &1u16.to_le_bytes())).expect("room");
        drop(heap);
        let heap = DurableHeap::open(&path, &options).expect("opens again");
        heap.transaction(|tx| tx.alloc(8)).expect("room");
    }

    /// The last block of an ended chunk is told from a torn one, as if its session had gone on at once.
    #[test]
    fn the_end_of_an_ended_chunk_is_promised() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("heap");
        let options = Options { capacity_bytes: 16 << 20, cleans_ahead: false, ..Options::default() };
        let heap = DurableHeap::open(&path, &options).expect("opens");
        let homes = heap.transaction(|tx| Ok([tx.alloc(8)?, tx.alloc(8)?])).expect("room");
        heap.transaction(|tx| tx.store_u64(homes[0], 1)).expect("room");
        assert!(heap.core.end_chunks(0));
        heap.transaction(|tx| tx.store_u64(homes[1], 2)).expect("room");
        let log = &heap.core.log;
        let sealed = log.table.in_state(aquifer_log::segment::State::Sealed).next().expect("one was ended");
        let last = log.offset_of(sealed) + u64::from(log.filled_to(sealed)) - EMPTY_BYTES as u64 - 8;
        drop(heap);
        let mut bytes = std::fs::read(&path).expect("there");
        bytes[last as usize] ^= 1;
        std::fs::write(&path, bytes).expect("written");
        assert!(matches!(DurableHeap::open(&path, &options), Err(Error::Damaged { .. })));
    }
}
