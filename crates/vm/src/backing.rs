//! Where the bytes of pages are that are not in RAM: the leaves, and the log below.
//!
//! | file | noun |
//! |---|---|
//! | `attention` | what the writer is wanted for, and when it gets nowhere |

mod attention;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use aquifer_base::limits::OS_PAGE_BYTES;
use aquifer_base::{AllocationClass, LeafId, PageId};
use aquifer_cache::Class;
use aquifer_log::{Log, ReadError, RecordId};
use aquifer_map::{LeafTable, Leaves, Place};
use aquifer_sys::Errno;

use crate::bell::Bell;
use crate::counters::Durations;
use crate::error::FaultError;
use attention::Trouble;

pub(crate) use attention::WriterWait;

/// No page.
const NONE: u64 = u64::MAX;

/// Bytes of a leaf's pages, and the class of slots that holds them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PageSize {
    pub(crate) bytes: usize,
    pub(crate) class: Class,
}

impl PageSize {
    pub(crate) fn is_whole(self) -> bool {
        self.class == Class::WHOLE
    }
}

/// The leaves and the log of one heap.
pub(crate) struct Backing {
    log: Arc<Log>,
    leaves: Leaves,
    table: Arc<LeafTable>,
    /// A leaf has another class of objects than the default.
    has_classes: AtomicBool,
    /// Leaves that were taken back.
    taken_back: AtomicU64,
    /// The writer's.
    bell: Bell,
    /// It was rung for what has to be written, not for compression alone.
    has_to_write: AtomicBool,
    /// A page that must be written back before a fault can go on.
    urgent: AtomicU64,
    trouble: Trouble,
    read_durations: Durations,
}

impl Backing {
    /// An empty heap over `log`; `arena_bytes` are for leaves in RAM.
    ///
    /// # Errors
    /// The kernel refused the address space.
    pub(crate) fn new(log: Arc<Log>, table: Arc<LeafTable>, arena_bytes: usize) -> Result<Self, Errno> {
        Ok(Self {
            leaves: Leaves::new(log.clone(), table.clone(), arena_bytes)?,
            log,
            table,
            has_classes: AtomicBool::new(false),
            taken_back: AtomicU64::new(0),
            bell: Bell::new(),
            has_to_write: AtomicBool::new(false),
            urgent: AtomicU64::new(NONE),
            trouble: Trouble::new(),
            read_durations: Durations::default(),
        })
    }

    /// The log below.
    pub(crate) fn log(&self) -> &Log {
        &self.log
    }

    /// The directory of leaves.
    pub(crate) fn leaves(&self) -> &Leaves {
        &self.leaves
    }

    /// How long reads from the log took.
    pub(crate) fn read_durations(&self) -> &Durations {
        &self.read_durations
    }

    // ---- What leaves hold ----------------------------------------------------

    /// The size of a leaf's pages; `None` if it is not given out. It stays as it is while an entry of the leaf is held.
    pub(crate) fn size_of(&self, leaf: LeafId) -> Option<PageSize> {
        let bytes = self.leaves.page_bytes(leaf);
        Class::for_bytes(bytes).filter(|_| bytes > 0).map(|class| PageSize { bytes, class })
    }

    /// The leaf is not given out any more.
    pub(crate) fn take_back(&self, leaf: LeafId) {
        // Counts before the size changes, so that a thread that sees the new size sees the count.
        self.taken_back.fetch_add(1, Ordering::AcqRel);
        self.leaves.set_page_bytes(leaf, 0);
    }

    /// How many leaves were taken back so far, or are about to be.
    pub(crate) fn taken_back(&self) -> u64 {
        self.taken_back.load(Ordering::Acquire)
    }

    /// Whether the bytes of `page` fill it.
    pub(crate) fn is_whole(&self, page: PageId) -> bool {
        self.leaves.page_bytes(page.leaf()) == OS_PAGE_BYTES
    }

    /// Whether a leaf ever had another class than the default.
    pub(crate) fn has_classes(&self) -> bool {
        self.has_classes.load(Ordering::Relaxed)
    }

    /// The class of the objects that a leaf holds.
    pub(crate) fn class_of(&self, leaf: LeafId) -> AllocationClass {
        if !self.has_classes() {
            return AllocationClass::DEFAULT;
        }
        AllocationClass(self.table.row(leaf).class.load(Ordering::Relaxed))
    }

    /// The leaf holds objects of `class` from now on.
    pub(crate) fn set_class(&self, leaf: LeafId, class: AllocationClass) {
        if self.class_of(leaf) != class {
            self.has_classes.store(true, Ordering::Relaxed);
            self.table.row(leaf).class.store(class.0, Ordering::Relaxed);
        }
    }

    // ---- Where bytes are -----------------------------------------------------

    /// Where the newest logged version of `page` is.
    ///
    /// # Errors
    /// The leaf cannot be read.
    pub(crate) fn locate_in_fault(&self, page: PageId, scratch: &mut [u8]) -> Result<Place, FaultError> {
        self.leaves.locate_in_fault(page, scratch).map_err(|error| FaultError::from_read(page, error))
    }

    /// Where in `scratch` the `len` bytes of the newest logged version of `page` are now; `None` if they are zeros. `on_flash` is called
    /// before they are read.
    ///
    /// # Errors
    /// They cannot be read, or are damaged.
    pub(crate) fn read_in_fault(
        &self,
        page: PageId,
        len: usize,
        scratch: &mut [u8],
        on_flash: impl FnOnce(),
    ) -> Result<Option<Range<usize>>, FaultError> {
        let id = RecordId::of_page(page.0, len);
        let (mut tried, mut on_flash) = (None, Some(on_flash));
        loop {
            let place = self.locate_in_fault(page, scratch)?;
            let Some(address) = place.address() else { return Ok(None) };
            if let Some(on_flash) = on_flash.take() {
                on_flash();
            }
            let began = Instant::now();
            let read = self.log.read_in_fault(address, place.span_bytes(len), id, scratch);
            self.read_durations.add(began.elapsed());
            match read {
                Ok(range) if range.len() == len => return Ok(Some(range)),
                // The cleaner may have moved the record between the two looks; the same place twice is damage.
                Ok(_) | Err(ReadError::Mismatch { .. }) if tried != Some(place) => {
                    tried = Some::<Place>(place)
                }
                Ok(_) => return Err(FaultError::Damaged { page, address }),
                Err(error) => return Err(FaultError::from_read(page, error)),
            }
        }
    }

    // ---- The writer's attention ----------------------------------------------

    /// Lets the writer make a pass. Cheap when it is running anyway.
    pub(crate) fn want_writer(&self) {
        self.has_to_write.store(true, Ordering::Release);
        self.bell.ring();
    }

    /// As [`Backing::want_writer`], only to compress pages: it looks for nothing to write.
    pub(crate) fn want_compressor(&self) {
        self.bell.ring();
    }

    /// Whether the writer is to look for pages to write, since this was asked last.
    pub(crate) fn take_has_to_write(&self) -> bool {
        self.has_to_write.swap(false, Ordering::Acquire)
    }

    /// Waits until the writer is wanted, or `is_over`.
    pub(crate) fn wait_until_writer_is_wanted(&self, is_over: impl Fn() -> bool) {
        self.bell.wait(is_over);
    }

    /// As [`Backing::wait_until_writer_is_wanted`], for `timeout_ns` at most; whether it is wanted.
    pub(crate) fn wait_for_writer_to_be_wanted(&self, timeout_ns: u64, is_over: impl Fn() -> bool) -> bool {
        self.bell.wait_for(timeout_ns, is_over)
    }

    /// A page must be written back before a fault can go on.
    pub(crate) fn want_written(&self, page: PageId) {
        self.urgent.store(page.0, Ordering::Release);
    }

    /// Takes the page that must be written back.
    pub(crate) fn take_wanted(&self) -> Option<PageId> {
        let page = self.urgent.swap(NONE, Ordering::AcqRel);
        (page != NONE).then_some(PageId(page))
    }

    /// A pass of the writer ended; with an error if a leaf could not be read and nothing at all was written.
    pub(crate) fn note_pass(&self, error: Option<ReadError>) {
        self.trouble.note_pass(error);
    }

    /// # Errors
    /// Nothing, `page` either, can be written back any more.
    pub(crate) fn check_writable(&self, page: PageId) -> Result<(), FaultError> {
        self.log.stopped().map_or(Ok(()), |error| Err(FaultError::Stopped { page, error }))
    }

    /// Has the writer make a pass, for a fault that cannot go on before that; to be called again until it can.
    ///
    /// # Errors
    /// Nothing can be written back any more.
    pub(crate) fn wait_for_writer_in_fault(
        &self,
        page: PageId,
        wait: &mut WriterWait,
    ) -> Result<(), FaultError> {
        self.check_writable(page)?;
        if let Some(error) = self.trouble.since_in_fault(wait) {
            return Err(FaultError::from_read(page, error));
        }
        self.want_writer();
        Ok(())
    }
}
