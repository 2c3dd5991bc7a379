//! The directory of leaves: where each leaf is, and through it where each page is in the log.
//!
//! One 64-bit word per leaf, in its [row](crate::leaf_table):
//!
//! ```text
//! 63      locked       one thread reads or changes the leaf; others wait
//! 62      resident     the leaf is in the arena; else in the log, or empty if the word is zero
//! 61      dirty        resident, and newer than any copy in the log
//! 60      referenced   used since the sweep came by (CLOCK)
//! 59      patched      resident is a patch: what changed since the leaf in the log, which the cell names
//! 51..40  bytes        of the packed leaf in the log, when not resident
//! 39..0   cell of the arena, or address in the log
//! ```
//! Resident leaves are evicted by CLOCK. Faults evict clean ones only; the writer and the cleaner, which
//! own an end of the log, also write dirty ones. A leaf that changes while there is little room for whole ones
//! leaves a patch in the arena. When there is no room for that either, or the cleaner comes by the leaf in the log, leaf
//! and patch are written as one.

mod cell;
mod held;
mod patched;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use aquifer_base::limits::OS_PAGE_BYTES;
use aquifer_base::{LeafId, LogAddress, PageId};
use aquifer_log::record::{lone_record_bytes, record_bytes};
use aquifer_log::{Head, Kind, Log, ReadError, RecordId};
use aquifer_sys::{Backoff, Errno};

use crate::arena::{Arena, Cell};
use crate::image::Place;
use crate::leaf_table::LeafTable;
use crate::packed;

pub use held::{Held, NoRoom};

const LOCKED: u64 = 1 << 63;
const RESIDENT: u64 = 1 << 62;
const DIRTY: u64 = 1 << 61;
const REFERENCED: u64 = 1 << 60;
const PATCHED: u64 = 1 << 59;
const BYTES_SHIFT: u32 = 40;
const PAYLOAD_MASK: u64 = (1 << 40) - 1;

/// Room that one leaf record may need in the log.
pub const LEAF_RECORD_BYTES_MAX: usize = lone_record_bytes(packed::PACKED_BYTES_MAX);
const _: () = assert!(packed::PACKED_BYTES_MAX < OS_PAGE_BYTES, "a payload of an OS page is a whole page");
/// Memory in which a leaf or a cluster can be read, aligned to the device's block.
pub const SCRATCH_BYTES: usize = 3 * OS_PAGE_BYTES;

/// How many leaves a sweep looks at before it gives up.
const SWEEP_STEPS: usize = 64;

/// What happened to leaves so far.
#[derive(Default)]
pub struct LeafCounters {
    /// Leaves written to the log by eviction.
    pub written: AtomicU64,
    /// Bytes of their records.
    pub written_bytes: AtomicU64,
    /// Leaves read from the log.
    pub read: AtomicU64,
}

/// All leaves of one heap.
pub struct Leaves {
    table: Arc<LeafTable>,
    arena: Arena,
    log: Arc<Log>,
    /// Somebody without an end of the log found no room in the arena.
    wants_room: AtomicBool,
    /// What happened so far.
    pub counters: LeafCounters,
}

fn leaf_record(leaf: LeafId) -> RecordId {
    RecordId { kind: Kind::Leaf, number: u64::from(leaf.0) }
}

fn logged_word(address: LogAddress, bytes: usize) -> u64 {
    address.0 | (bytes as u64) << BYTES_SHIFT
}

fn logged_place(word: u64) -> (LogAddress, usize) {
    (LogAddress(word & PAYLOAD_MASK), (word >> BYTES_SHIFT & 0xFFF) as usize)
}

impl Leaves {
    /// An empty directory of the leaves of `table`, of which as many are resident as `arena_bytes` can hold.
    ///
    /// # Errors
    /// The kernel refused the address space.
    pub fn new(log: Arc<Log>, table: Arc<LeafTable>, arena_bytes: usize) -> Result<Self, Errno> {
        Ok(Self {
            table,
            arena: Arena::new(arena_bytes)?,
            log,
            wants_room: AtomicBool::new(false),
            counters: LeafCounters::default(),
        })
    }

    /// RAM of the leaves that are resident.
    pub fn ram_bytes(&self) -> usize {
        self.arena.ram_bytes()
    }

    fn word(&self, leaf: LeafId) -> &AtomicU64 {
        &self.table.row(leaf).place
    }

    /// Bytes of every page of `leaf`, 1 to 4096; 0 if the leaf is not given out.
    pub fn page_bytes(&self, leaf: LeafId) -> usize {
        usize::from(self.table.row(leaf).page_bytes.load(Ordering::Acquire))
    }

    /// Gives the leaf out for pages of `bytes`, or takes it back with 0. No page of it may be in use.
    pub fn set_page_bytes(&self, leaf: LeafId, bytes: usize) {
        debug_assert!(bytes <= OS_PAGE_BYTES);
        self.table.row(leaf).page_bytes.store(bytes as u16, Ordering::Release);
    }

    /// Whether no page of the leaf has a record.
    pub fn is_empty(&self, leaf: LeafId) -> bool {
        self.word(leaf).load(Ordering::Acquire) == 0
    }

    /// Whether the leaf can be looked up without reading flash.
    pub fn is_at_hand(&self, leaf: LeafId) -> bool {
        let word = self.word(leaf).load(Ordering::Acquire) & !LOCKED;
        word == 0 || word & (RESIDENT | PATCHED) == RESIDENT
    }

    fn lock(&self, leaf: LeafId) -> u64 {
        let mut backoff = Backoff::new();
        loop {
            if let Some(word) = self.try_lock(leaf) {
                return word;
            }
            backoff.wait();
        }
    }

    fn try_lock(&self, leaf: LeafId) -> Option<u64> {
        let word = self.word(leaf).load(Ordering::Relaxed);
        (word & LOCKED == 0
            && self
                .word(leaf)
                .compare_exchange(word, word | LOCKED, Ordering::Acquire, Ordering::Relaxed)
                .is_ok())
        .then_some(word)
    }

    fn unlock(&self, leaf: LeafId, word: u64) {
        debug_assert!(word & LOCKED == 0);
        self.word(leaf).store(word, Ordering::Release);
    }

    /// Where the newest logged version of `page` is.
    ///
    /// # Errors
    /// The leaf could not be read from the log.
    ///
    /// # Context
    /// Runs in fault handlers; blocks on the device if the leaf is not resident. `scratch` has
    /// [`SCRATCH_BYTES`], aligned to the device's block.
    pub fn locate_in_fault(&self, page: PageId, scratch: &mut [u8]) -> Result<Place, ReadError> {
        let leaf = page.leaf();
        if self.word(leaf).load(Ordering::Acquire) == 0 {
            return Ok(Place::ZERO);
        }
        let page_bytes = self.page_bytes(leaf);
        let word = self.lock(leaf);
        if word == 0 {
            self.unlock(leaf, word);
            return Ok(Place::ZERO);
        }
        let malformed =
            ReadError::Mismatch { address: LogAddress(word & PAYLOAD_MASK), wanted: leaf_record(leaf) };
        if word & PATCHED != 0 {
            let place = self.locate_patched(page, word, scratch);
            self.unlock(leaf, word | REFERENCED);
            return place;
        }
        if word & RESIDENT != 0 {
            // SAFETY: the directory word is locked by us and names this cell.
            let packed = unsafe { cell::packed(&self.arena, Cell(word as u32)) };
            let place = packed::place_of(packed, page.index(), page_bytes);
            self.unlock(leaf, word | REFERENCED);
            return place.map_err(|_| malformed);
        }
        let read = self.read_logged(leaf, word, scratch).and_then(|range| {
            let packed = &scratch[range];
            let place = packed::place_of(packed, page.index(), page_bytes).map_err(|_| malformed)?;
            Ok((place, self.make_resident_clean(leaf, word, packed)))
        });
        match read {
            Ok((place, resident)) => {
                self.unlock(leaf, resident.unwrap_or(word));
                Ok(place)
            }
            Err(error) => {
                self.unlock(leaf, word);
                Err(error)
            }
        }
    }

    /// Reads a leaf whose word is locked by the caller and names a log address. The cleaner cannot move
    /// it meanwhile, because that takes the same lock, so a mismatch means damage.
    fn read_logged(
        &self,
        leaf: LeafId,
        word: u64,
        scratch: &mut [u8],
    ) -> Result<std::ops::Range<usize>, ReadError> {
        let (address, bytes) = logged_place(word);
        self.counters.read.fetch_add(1, Ordering::Relaxed);
        self.log.read_in_fault(address, record_bytes(bytes), leaf_record(leaf), scratch)
    }

    /// Puts a leaf that was read into the arena if there is room or a clean leaf to evict; the new word.
    fn make_resident_clean(&self, leaf: LeafId, word: u64, packed: &[u8]) -> Option<u64> {
        let cell = self.allocate_evicting(packed.len(), None)?;
        // SAFETY: the cell was just allocated for this many bytes and no word names it yet.
        unsafe { cell::fill(&self.arena, cell, leaf, word & !REFERENCED, packed) };
        Some(RESIDENT | REFERENCED | u64::from(cell.0))
    }

    /// A cell for a packed leaf of `bytes`, evicting others if need be: clean ones, and with a `head`
    /// that has room also dirty ones.
    fn allocate_evicting(&self, bytes: usize, mut head: Option<&mut Head>) -> Option<Cell> {
        for _ in 0..SWEEP_STEPS {
            if let Some(cell) = self.arena.allocate(cell::HEADER_BYTES + bytes) {
                return Some(cell);
            }
            self.evict_one(head.as_deref_mut());
        }
        None
    }

    /// Gives the next leaf of the sweep its second chance or evicts it.
    fn evict_one(&self, head: Option<&mut Head>) {
        let Some(cell) = self.arena.sweep() else { return };
        // SAFETY: the owner field of a cell is an atomic that may be read at any time; whether it still
        // owns the cell is checked under its lock below.
        let leaf = unsafe { cell::owner(&self.arena, cell) };
        if leaf.0 >= self.table.count() {
            return;
        }
        let Some(word) = self.try_lock(leaf) else { return };
        let names_cell = word & RESIDENT != 0 && word as u32 == cell.0;
        let after = match head {
            _ if !names_cell || word & PATCHED != 0 => word,
            _ if word & REFERENCED != 0 => word & !REFERENCED,
            None if word & DIRTY != 0 => word,
            None => self.drop_clean(cell),
            Some(head) => self.write_back(leaf, word, head).map_or(word, |_| self.drop_clean(cell)),
        };
        self.unlock(leaf, after);
    }

    /// Frees the cell of a clean resident leaf whose word is locked; returns the word that names its copy
    /// in the log.
    fn drop_clean(&self, cell: Cell) -> u64 {
        // SAFETY: the caller holds the lock of the leaf that owns the cell.
        let logged = unsafe { cell::logged(&self.arena, cell) };
        self.arena.free(cell);
        logged
    }

    /// Appends a resident leaf whose word is locked, if it is dirty and the head has room at once.
    fn write_back(&self, leaf: LeafId, word: u64, head: &mut Head) -> Option<()> {
        if word & DIRTY == 0 {
            return Some(());
        }
        let cell = Cell(word as u32);
        // SAFETY: the caller holds the lock of the leaf that owns the cell.
        let packed = unsafe { cell::packed(&self.arena, cell) };
        // Room stays for the leaf that the caller may be about to store.
        let logged = self.append(leaf, packed, head, LEAF_RECORD_BYTES_MAX)?;
        // SAFETY: as above.
        unsafe { cell::set_logged(&self.arena, cell, logged) };
        Some(())
    }

    /// Appends a leaf if `head` has room for it and `spare` more bytes.
    fn append(&self, leaf: LeafId, packed: &[u8], head: &mut Head, spare: usize) -> Option<u64> {
        let total = record_bytes(packed.len());
        if head.room_bytes(Kind::Leaf) < lone_record_bytes(packed.len()) + spare {
            return None;
        }
        self.counters.written.fetch_add(1, Ordering::Relaxed);
        self.counters.written_bytes.fetch_add(total as u64, Ordering::Relaxed);
        Some(logged_word(head.append(leaf_record(leaf), packed), packed.len()))
    }

    /// Writes up to `count` dirty leaves that the sweep comes to, so that faults find clean ones to evict.
    /// They stay resident. Patches are written with their leaves, and leave, only if somebody waits for room.
    /// `scratch` has [`SCRATCH_BYTES`], aligned to the device's block.
    ///
    /// # Errors
    /// A patched leaf could not be read, and stays as it is; all the same the others were written.
    pub fn clean_some(&self, count: usize, head: &mut Head, scratch: &mut [u8]) -> Result<(), ReadError> {
        if head.room_bytes(Kind::Leaf) < 2 * LEAF_RECORD_BYTES_MAX {
            return Ok(());
        }
        let mut outcome = Ok(());
        let merges = self.wants_room.swap(false, Ordering::AcqRel);
        for _ in 0..count {
            if head.room_bytes(Kind::Leaf) < 2 * LEAF_RECORD_BYTES_MAX {
                break;
            }
            let Some(cell) = self.arena.sweep() else { break };
            // SAFETY: as in `evict_one`.
            let leaf = unsafe { cell::owner(&self.arena, cell) };
            if leaf.0 >= self.table.count() {
                continue;
            }
            let Some(word) = self.try_lock(leaf) else { continue };
            let names_cell = word & RESIDENT != 0 && word as u32 == cell.0;
            if names_cell && word & PATCHED != 0 {
                self.unlock(leaf, word & !REFERENCED);
                if merges {
                    match self.hold(leaf, scratch) {
                        Ok(held) => held.move_to_log(head),
                        Err(error) => outcome = Err(error),
                    }
                }
                continue;
            }
            let written = names_cell && word & REFERENCED == 0 && self.write_back(leaf, word, head).is_some();
            self.unlock(
                leaf,
                if written { word & !DIRTY } else { word & !(REFERENCED * u64::from(names_cell)) },
            );
        }
        outcome
    }

    /// Whether somebody waits for room in the arena: [`Leaves::clean_some`] with a head that has room makes some.
    pub fn wants_room(&self) -> bool {
        self.wants_room.load(Ordering::Acquire)
    }

    /// Moves a leaf record out of a segment that is being cleaned, if it is still current.
    ///
    /// # Panics
    /// If `head` has no room for [`LEAF_RECORD_BYTES_MAX`].
    pub fn relocate(&self, leaf: LeafId, address: LogAddress, packed: &[u8], head: &mut Head) {
        if leaf.0 >= self.table.count() {
            return;
        }
        let word = self.lock(leaf);
        let resident = word & RESIDENT != 0;
        // SAFETY: the word is locked by us and names the cell.
        let logged = if resident { unsafe { cell::logged(&self.arena, Cell(word as u32)) } } else { word };
        let mut after = word;
        if logged != 0 && LogAddress(logged & PAYLOAD_MASK) == address {
            self.log.release(address, record_bytes(packed.len()));
            if word & PATCHED != 0 {
                after = self.relocate_patched(leaf, word, packed, head);
            } else if resident {
                // It is in RAM: forget the copy and write it when it is evicted.
                // SAFETY: as above.
                unsafe { cell::set_logged(&self.arena, Cell(word as u32), 0) };
                after = word | DIRTY;
            } else {
                after = self.append(leaf, packed, head, 0).expect("the caller made room");
            }
        }
        self.unlock(leaf, after);
    }
}
