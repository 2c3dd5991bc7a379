//! The whole: a file, the map of it, and the transactions on it.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use aquifer_log::geometry::SegmentId;
use aquifer_map::partitions::Partitions;

use crate::access::Transactional;
use crate::cleaner::Cleaner;
use crate::error::{Error, Result};
use crate::homes::Homes;
use crate::log::{Log, Purpose};
use crate::persist::{FlashFile, MemoryFile, Persist, is_memory};
use crate::recovery;
use crate::session::Session;
use crate::sessions::{Apart, Sessions};
use crate::superblock::{SUPERBLOCK_BYTES, Superblock};
use crate::transaction::Transaction;

/// Fewest chunks: those that are kept for making room, and some.
const CHUNKS_MIN: u64 = 12;
/// Largest log that map entries can address.
const CAPACITY_BYTES_MAX: u64 = 16 << 30;

/// What a heap's file is on.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Backing {
    /// What it is found to be: memory on tmpfs and on persistent memory (DAX), else flash.
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
    /// How large the file may become. Default 1 GiB, at most 16 GiB.
    pub capacity_bytes: u64,
    /// Size of a chunk, when the file is made. Default 1 MiB.
    pub chunk_bytes: u32,
    /// The file grows only while at least this share of it is objects; else it is cleaned. 5 to 95, default 85.
    pub utilisation_percent: u32,
    /// What the file is on.
    pub backing: Backing,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            capacity_bytes: 1 << 30,
            chunk_bytes: 1 << 20,
            utilisation_percent: 85,
            backing: Backing::Detect,
        }
    }
}

/// A durable heap in a file.
pub struct DurableHeap {
    pub(crate) log: Log,
    pub(crate) map: Partitions,
    pub(crate) homes: Homes,
    /// The newest version that was given out.
    pub(crate) clock: Apart<AtomicU64>,
    sessions: Sessions<Session>,
    pub(crate) cleaner: Mutex<Cleaner>,
    pub(crate) capacity_bytes: u64,
}

impl DurableHeap {
    /// Opens the heap in the file at `path`, or makes an empty one.
    ///
    /// # Errors
    /// [`Error::Foreign`] if the file is something else, [`Error::Damaged`], [`Error::Io`].
    pub fn open(path: &Path, options: &Options) -> Result<Self> {
        let is_memory = match options.backing {
            Backing::Detect => is_memory(path)?,
            Backing::Memory => true,
            Backing::Flash => false,
        };
        let persist: Box<dyn Persist> = if is_memory {
            Box::new(MemoryFile::open(path, options.capacity_bytes)?)
        } else {
            Box::new(FlashFile::open(path, options.capacity_bytes)?)
        };
        Self::on(persist, options, &path.display().to_string())
    }

    /// As [`DurableHeap::open`], on any memory; `name` is for messages.
    ///
    /// # Errors
    /// The same.
    pub fn on(persist: Box<dyn Persist>, options: &Options, name: &str) -> Result<Self> {
        let foreign = |why: String| Error::Foreign { path: name.into(), why };
        // A file that is longer already counts with all of it.
        let capacity_bytes = options.capacity_bytes.max(persist.len_bytes());
        if capacity_bytes > CAPACITY_BYTES_MAX {
            let (bytes, limit) = (capacity_bytes, CAPACITY_BYTES_MAX);
            return Err(Error::TooLarge { what: "a durable heap", bytes, limit });
        }
        let superblock = match Superblock::find(&*persist).map_err(foreign)? {
            Some(superblock) => superblock,
            None => {
                let superblock = Superblock { chunk_bytes: options.chunk_bytes, id: random() };
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
        let heap = Self {
            log: Log::new(persist, superblock, capacity_bytes, options.utilisation_percent.clamp(5, 95)),
            cleaner: Mutex::default(),
            map: Partitions::new().map_err(|errno| {
                Error::io("reserving address space")(std::io::Error::from_raw_os_error(errno.0))
            })?,
            homes: Homes::new(),
            clock: Apart(AtomicU64::new(0)),
            sessions: Sessions::new(|_| Session::default()),
            capacity_bytes,
        };
        recovery::recover(&heap)?;
        if heap.clock.load(Ordering::Relaxed) == 0 {
            heap.format()?;
        }
        Ok(heap)
    }

    /// The first transaction: the root and the table of areas.
    fn format(&self) -> Result<()> {
        let mut transaction = self.begin();
        transaction.format()?;
        transaction.commit()
    }

    /// Runs `body` in a transaction and commits it; again if it met another one, so it should have no other effects.
    ///
    /// # Errors
    /// Those of `body` and of the commit; nothing of the transaction has happened then.
    #[inline]
    pub fn transaction<T>(&self, body: impl FnMut(&mut Transaction<'_>) -> Result<T>) -> Result<T> {
        Transactional::transaction(self, body)
    }

    /// Begins a transaction that the caller commits.
    pub fn begin(&self) -> Transaction<'_> {
        Transaction::begin(self, self.sessions.take())
    }

    /// Sees that `session` has room for its block, by cleaning if need be. Nothing is locked.
    pub(crate) fn make_room(&self, session: &mut Session, purpose: Purpose) -> Result<()> {
        while !session.has_room() {
            let id = self.take_chunk(purpose)?;
            let full = session.go_on_with(id, &self.log, self.clock.load(Ordering::Acquire))?;
            full.iter().for_each(|chunk| self.log.seal(chunk));
        }
        Ok(())
    }

    /// A chunk to fill, by cleaning if need be. Nothing is locked.
    pub(crate) fn take_chunk(&self, purpose: Purpose) -> Result<SegmentId> {
        loop {
            if let Some(id) = self.log.take(purpose)? {
                return Ok(id);
            }
            if let Some(id) = self.take_cleaned(purpose)? {
                return Ok(id);
            }
            if !self.log.grow_anyway()? {
                return Err(Error::Full { capacity_bytes: self.capacity_bytes });
            }
        }
    }

    /// How large the file may become.
    pub fn capacity_bytes(&self) -> u64 {
        self.capacity_bytes
    }

    /// What it is kept in.
    pub fn persist(&self) -> &dyn Persist {
        &*self.log.persist
    }

    /// What there is of it now.
    pub fn usage(&self) -> Usage {
        Usage {
            live_bytes: self.log.live_bytes(),
            file_bytes: u64::from(self.log.chunks().0) * u64::from(self.log.superblock.chunk_bytes),
            reserve_bytes: self.log.free_bytes(),
            map_bytes: self.map.ram_bytes() as u64,
        }
    }
}

/// What a heap takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Usage {
    /// Bytes of objects in the log.
    pub live_bytes: u64,
    /// Memory of the file's chunks, free ones included.
    pub file_bytes: u64,
    /// Part of that which is free: for the cleaner, and for what is written next.
    pub reserve_bytes: u64,
    /// RAM of the map's extents.
    pub map_bytes: u64,
}

fn random() -> u64 {
    use std::hash::BuildHasher;
    std::hash::RandomState::new().hash_one(0u64)
}
