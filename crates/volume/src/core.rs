//! What a volume is made of.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, TryLockError};

use foldhash::fast::RandomState;

use crate::ahead::Buffers;
use crate::background::Bell;
use crate::cache::{Cache, Loaded};
use crate::error::{Result, VolumeError};
use crate::flash::Flash;
use crate::frame::{Content, Frame, FrameState, PageMemory};
use crate::key::{Ino, PageKey};
use crate::medium::Geometry;
use crate::readers::Readers;
use crate::room::RoomPage;
use crate::stats::Work;
use crate::sync::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
use crate::table::Table;
use crate::trims::Trims;
use crate::word::{PAGE_UNITS, PATCH_UNITS_LONG, PageBytes, Word};
use crate::writer::Writer;

/// Table, cache, log and the rules between them. What files and folders are, it does not know.
///
/// Lock order: names, inode, writer, gate, pages of a file, page, trims. A thread that changes pages holds the gate open. A
/// commit closes it while it takes the pages, so that each commit is a moment of the whole volume.
pub struct Core {
    pub flash: Flash,
    pub table: Table,
    pub cache: Cache,
    pub trims: Trims,
    /// For reads of many pages.
    pub buffers: Buffers,
    /// Reads that nobody waits for yet.
    pub readers: Readers,
    /// Wakes the thread that works ahead, if there is one.
    pub bell: Bell,
    /// What commits and the cleaner have done.
    pub work: Work,
    writer: Mutex<Writer>,
    gate: RwLock<()>,
    limits: Limits,
    is_read_only: bool,
    stopped: OnceLock<String>,
    /// Whether the last commit is durable and the log does not say so.
    durable_unsaid: AtomicBool,
    /// Files to which programs stored through mappings since the last commit: the next one gives them their time.
    pub(crate) stored_to: Mutex<HashSet<Ino, RandomState>>,
    /// Of files that lost their names since the volume was opened: the file before each in the list of such files, which has one direction only.
    pub(crate) before_nameless: std::sync::Mutex<HashMap<Ino, Ino, RandomState>>,
    /// Of the files whose numbers end alike: held by who makes pages of a file dirty through a mapping, until the file has counted them, and alone by who takes
    /// pages away.
    pages_of: [RwLock<()>; 64],
    /// What files can take, in units of 256 bytes. Less when segments fail.
    capacity_units: AtomicU64,
    /// What all segments of the log can hold, in the same units.
    log_units: AtomicU64,
    /// What the log holds that is needed.
    live_units: AtomicU64,
    /// What pages will need that flash has nothing of yet.
    promised_units: AtomicU64,
}

/// Limits of a volume that is open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Dirty pages at which a commit comes unasked.
    pub dirty_pages: usize,
    /// Dirty nodes at which a checkpoint comes.
    pub dirty_nodes: usize,
    /// Pages of the log at which a checkpoint comes.
    pub log_pages: u64,
    /// Free segments below which segments are cleaned.
    pub free_segments: u32,
}

/// Segments of the log that are never full of files: those of the heads, and what cleaning needs.
const SEGMENTS_KEPT: u32 = 10;

/// A commit has at most this part of the log's room in dirty pages: the rest is for the cleaner, and garbage that it cannot gain.
const DIRTY_PART_OF_ROOM: u64 = 4;

/// Dirty pages that a commit may have in any case.
const DIRTY_PAGES_MIN: usize = 16;

/// Room that one change may need.
const MARGIN_UNITS_MIN: u64 = 80 * PAGE_UNITS as u64;

impl Limits {
    /// Limits of a medium with `usable_segments` segments for the log, and of a cache with `frames` pages and
    /// `nodes` nodes.
    #[must_use]
    pub fn new(geometry: Geometry, usable_segments: u32, frames: usize, nodes: usize) -> Self {
        let pages = pages_for_files(geometry, usable_segments);
        Limits {
            dirty_pages: (frames / 4).max(4).min((pages / 8).max(4) as usize),
            dirty_nodes: (nodes / 2).max(8),
            log_pages: (geometry.pages() / 8).clamp(64, 64 << 10),
            free_segments: 6.max(geometry.segments / 64),
        }
    }
}

fn pages_for_files(geometry: Geometry, usable_segments: u32) -> u64 {
    u64::from(usable_segments.saturating_sub(SEGMENTS_KEPT)) * u64::from(geometry.pages_per_segment)
}

/// The right to change pages: the gate is open while this lives.
pub struct Change<'a> {
    core: &'a Core,
    _gate: RwLockReadGuard<'a, ()>,
    /// What is promised to this change, and to none of its pages yet.
    reserved_units: Cell<u64>,
}

impl Core {
    /// Puts the parts together.
    #[must_use]
    pub fn new(
        flash: Flash,
        table: Table,
        cache: Cache,
        writer: Writer,
        limits: Limits,
        is_read_only: bool,
    ) -> Self {
        let core = Core {
            flash,
            table,
            cache,
            trims: Trims::default(),
            buffers: Buffers::default(),
            readers: Readers::default(),
            bell: Bell::default(),
            work: Work::default(),
            writer: Mutex::new(writer),
            gate: RwLock::new(()),
            limits,
            is_read_only,
            stopped: OnceLock::new(),
            durable_unsaid: AtomicBool::new(false),
            stored_to: Mutex::default(),
            before_nameless: std::sync::Mutex::default(),
            pages_of: std::array::from_fn(|_| RwLock::new(())),
            capacity_units: AtomicU64::new(0),
            log_units: AtomicU64::new(0),
            live_units: AtomicU64::new(0),
            promised_units: AtomicU64::new(0),
        };
        core.note_room(&core.lock_writer());
        core
    }

    /// The writer, when nobody else writes.
    pub fn lock_writer(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The writer, if nobody writes.
    pub fn try_lock_writer(&self) -> Option<MutexGuard<'_, Writer>> {
        match self.writer.try_lock() {
            Ok(writer) => Some(writer),
            Err(TryLockError::Poisoned(writer)) => Some(writer.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Whether the last commit is durable and the log does not say so.
    pub fn is_durable_unsaid(&self) -> bool {
        self.durable_unsaid.load(Ordering::Relaxed)
    }

    /// Says whether it does. The thread that works ahead has the log say it once the volume rests.
    pub fn set_durable_unsaid(&self, is_unsaid: bool) {
        if !self.durable_unsaid.swap(is_unsaid, Ordering::Relaxed) && is_unsaid {
            self.bell.ring();
        }
    }

    /// Nobody takes pages away from a file, or makes it shorter, while the guard lives. The caller holds the gate open.
    pub fn keep_pages(&self, ino: Ino) -> RwLockReadGuard<'_, ()> {
        self.pages_of[ino.0 as usize % self.pages_of.len()].read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The right to take pages away from a file, and to make it shorter. The caller holds the gate open.
    pub fn take_pages(&self, ino: Ino) -> RwLockWriteGuard<'_, ()> {
        self.pages_of[ino.0 as usize % self.pages_of.len()].write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Limits.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Whether nothing may be changed.
    pub fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    /// Fails if nothing may be changed (any more).
    ///
    /// # Errors
    /// [`VolumeError::ReadOnly`], [`VolumeError::Stopped`].
    pub fn allow_changes(&self) -> Result<()> {
        match self.stopped.get() {
            Some(reason) => Err(VolumeError::Stopped(reason.clone())),
            None if self.is_read_only => Err(VolumeError::ReadOnly),
            None => Ok(()),
        }
    }

    /// Takes no more changes: what is on flash stays as it is.
    pub fn stop(&self, reason: &VolumeError) {
        // The first reason is the one that counts.
        let _ = self.stopped.set(reason.to_string());
    }

    /// Closes the gate: nobody changes pages while the guard lives.
    pub fn close_gate(&self) -> RwLockWriteGuard<'_, ()> {
        self.gate.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Commits if too many pages are dirty: what [`Core::begin`] would do, by who is going to hold a lock meanwhile for which others wait.
    ///
    /// # Errors
    /// As [`Core::begin`].
    pub fn make_way(&self) -> Result<()> {
        self.allow_changes()?;
        if !self.is_commit_due() {
            return Ok(());
        }
        let mut writer = self.lock_writer();
        // Another thread may have committed while this one waited.
        if self.is_commit_due() { self.commit_alone(&mut writer) } else { Ok(()) }
    }

    /// Begins a change of pages. Commits first if too many are dirty.
    ///
    /// # Errors
    /// As [`Core::allow_changes`], or the commit's.
    ///
    /// # Context
    /// May write. The caller holds neither the writer nor a page.
    pub fn begin(&self) -> Result<Change<'_>> {
        self.make_way()?;
        if self.is_commit_wanted() {
            self.bell.ring();
        }
        Ok(self.begin_within_commit())
    }

    /// As [`Core::begin`], by who commits: nothing is committed before.
    pub(crate) fn begin_within_commit(&self) -> Change<'_> {
        let gate = self.gate.read().unwrap_or_else(PoisonError::into_inner);
        Change { core: self, _gate: gate, reserved_units: Cell::new(0) }
    }

    /// Notes that a program stored to a file through a mapping.
    pub fn note_stored(&self, ino: Ino) {
        self.stored_to.lock().unwrap_or_else(PoisonError::into_inner).insert(ino);
    }

    /// Dirty pages at which a commit comes: fewer where the log has little room, because all of a commit is written before what it replaces is garbage.
    pub fn dirty_pages_max(&self) -> usize {
        let room = self.log_units.load(Ordering::Relaxed).saturating_sub(self.live_units());
        let pages = (room / u64::from(PAGE_UNITS) / DIRTY_PART_OF_ROOM) as usize;
        self.limits.dirty_pages.min(pages.max(DIRTY_PAGES_MIN))
    }

    /// Whether changes must wait for a commit.
    fn is_commit_due(&self) -> bool {
        self.cache.dirty() >= self.dirty_pages_max() || self.waits_for_trims()
    }

    /// Whether the thread that works ahead should commit. RAM gets scarce, and many of its pages can only leave after a commit; or most changes are new pages,
    /// as when files are written from end to end: then the device works while more of them come. Pages that change again and again are better committed late.
    pub fn is_commit_wanted(&self) -> bool {
        let dirty = self.cache.dirty();
        let are_most_new =
            || self.promised_units.load(Ordering::Relaxed) / u64::from(PAGE_UNITS) * 2 >= dirty as u64;
        dirty >= self.dirty_pages_max() / 2 && (self.cache.is_nearly_full() || are_most_new())
    }

    /// Whether the volume is full but for what was trimmed and is not free yet, also because a commit of it is under way.
    fn waits_for_trims(&self) -> bool {
        let margin = (self.capacity_units() / 20).max(MARGIN_UNITS_MIN);
        self.used_units() + margin > self.capacity_units() && !self.trims.are_applied()
    }

    /// A page in RAM; what is not there is read. `memory` is where programs have mapped its file.
    ///
    /// # Errors
    /// It could not be read.
    pub fn page(&self, key: PageKey, memory: Option<Arc<dyn PageMemory>>) -> Result<Arc<Frame>> {
        self.page_placed(key, place_in(key, memory))
    }

    /// As [`Core::page`], with its bytes where `place` has put them.
    ///
    /// # Errors
    /// It could not be read; those of `place`.
    pub fn page_placed(
        &self,
        key: PageKey,
        place: impl FnOnce(RoomPage) -> Result<Content>,
    ) -> Result<Arc<Frame>> {
        let load = |bytes: &mut PageBytes| {
            if self.trims.covers(key) {
                bytes.fill(0);
                return Ok(Loaded { is_new: true, ..Loaded::default() });
            }
            let _reading = self.flash.reading();
            let word = self.table.get(&self.flash, key.ino(), key.index())?;
            let found = self.flash.read(key, word, bytes)?;
            Ok(Loaded { patched: found.patched, is_new: word == Word::ZERO, ..Loaded::default() })
        };
        if self.cache.is_nearly_full() {
            self.bell.ring();
        }
        self.cache.get(key, load, place)
    }

    /// A page in RAM whose bytes are all going to be written: they are not read, but zeros until then.
    ///
    /// # Errors
    /// The table could not be read.
    pub fn blank_page(&self, key: PageKey) -> Result<Arc<Frame>> {
        let load = |bytes: &mut PageBytes| {
            bytes.fill(0);
            let is_new = self.trims.covers(key) || {
                let _reading = self.flash.reading();
                self.table.get(&self.flash, key.ino(), key.index())? == Word::ZERO
            };
            Ok(Loaded { is_new, is_blank: true, ..Loaded::default() })
        };
        self.cache.get(key, load, place_in(key, None))
    }

    /// Units of the log that are needed.
    pub fn live_units(&self) -> u64 {
        self.live_units.load(Ordering::Relaxed)
    }

    /// What files take and will take, in units of 256 bytes.
    pub fn used_units(&self) -> u64 {
        self.live_units() + self.promised_units.load(Ordering::Relaxed)
    }

    /// What files can take, in units of 256 bytes.
    pub fn capacity_units(&self) -> u64 {
        self.capacity_units.load(Ordering::Relaxed)
    }

    /// Whether `patches` long patches leave room to clean in: the pages that they belong to stay where they are.
    pub fn has_room_for_long_patches(&self, writer: &Writer, patches: u64) -> bool {
        let units = writer.segments.live_units() + patches * u64::from(PATCH_UNITS_LONG);
        units <= self.capacity_units() / 100 * 90
    }

    /// What only folders and tables may take, so that files can be removed from a full volume.
    pub fn kept_units(&self) -> u64 {
        self.capacity_units() / 50
    }

    /// Says how much of the log is needed now, and how much of it there can be.
    pub fn note_room(&self, writer: &Writer) {
        let pages = pages_for_files(self.flash.medium().geometry(), writer.segments.usable());
        let per_segment = u64::from(self.flash.medium().geometry().pages_per_segment);
        let log_pages = u64::from(writer.segments.usable()) * per_segment;
        self.log_units.store(log_pages * u64::from(PAGE_UNITS), Ordering::Relaxed);
        self.capacity_units.store(pages * u64::from(PAGE_UNITS) / 100 * 92, Ordering::Relaxed);
        self.live_units.store(writer.segments.live_units(), Ordering::Relaxed);
    }

    fn promise(&self, units: u64, ino: Ino) -> Result<()> {
        let before = self.promised_units.fetch_add(units, Ordering::Relaxed);
        let reserve = if is_metadata(ino) { 0 } else { self.kept_units() };
        if before + units + self.live_units() + reserve > self.capacity_units() {
            self.promised_units.fetch_sub(units, Ordering::Relaxed);
            return Err(VolumeError::NoSpace);
        }
        Ok(())
    }

    /// Gives up what was promised to a page.
    pub fn forget_promise(&self, state: &mut FrameState) {
        if std::mem::take(&mut state.is_promised) {
            self.promised_units.fetch_sub(u64::from(PAGE_UNITS), Ordering::Relaxed);
        }
    }

    /// Gives up what was promised to pages that were written.
    pub fn keep_promises(&self, pages: u64) {
        self.promised_units.fetch_sub(pages * u64::from(PAGE_UNITS), Ordering::Relaxed);
    }
}

impl Change<'_> {
    /// What is changed.
    pub fn core(&self) -> &Core {
        self.core
    }

    /// Says that a page is about to change. Flash that it will need is promised to it.
    ///
    /// # Errors
    /// [`VolumeError::NoSpace`]; the page is as it was.
    pub fn page(&self, frame: &Arc<Frame>, state: &mut FrameState) -> Result<()> {
        if state.is_new && !state.is_promised {
            let units = u64::from(PAGE_UNITS);
            match self.reserved_units.get().checked_sub(units) {
                Some(left) => self.reserved_units.set(left),
                None => self.core.promise(units, frame.key().ino())?,
            }
            state.is_promised = true;
        }
        self.core.cache.begin_change(frame, state)
    }

    /// Promises room to `pages` pages that flash has nothing of, before any of them changes.
    ///
    /// # Errors
    /// [`VolumeError::NoSpace`] if there is not enough for all.
    pub fn reserve(&self, ino: Ino, pages: u64) -> Result<()> {
        let units = pages * u64::from(PAGE_UNITS);
        self.core.promise(units, ino)?;
        self.reserved_units.set(self.reserved_units.get() + units);
        Ok(())
    }
}

impl Drop for Change<'_> {
    fn drop(&mut self) {
        self.core.promised_units.fetch_sub(self.reserved_units.get(), Ordering::Relaxed);
    }
}

fn is_metadata(ino: Ino) -> bool {
    ino <= Ino::ROOT_FOLDER
}

/// Puts a page's bytes into memory of its own, or where programs have mapped them.
fn place_in(key: PageKey, memory: Option<Arc<dyn PageMemory>>) -> impl FnOnce(RoomPage) -> Result<Content> {
    move |page| match memory {
        Some(memory) if memory.fill(key.index(), &page)? => Ok(Content::Mapped(memory)),
        _ => Ok(Content::Own(page)),
    }
}
