//! The segment that a head fills with records of one kind.

use std::sync::atomic::{AtomicU64, Ordering};

use aquifer_base::{AllocationClass, LogAddress};
use aquifer_device::AlignedBuffer;
use aquifer_sys::rwspin::RwSpinLock;

use crate::error::AppendError;
use crate::geometry::SegmentId;
use crate::log::{HeadKind, Log, waiting_segments};
use crate::record::{Kind, MARKER_BYTES, RecordId, record_bytes, write_marker, write_record};
use crate::whole;

const NO_BLOCK: u64 = u64::MAX;

/// The block being filled or written; it serves reads until the device has it.
pub(crate) struct WriteBuffer {
    /// Device offset of the block, or [`NO_BLOCK`]. Changes only under the write lock of `bytes`.
    start: AtomicU64,
    bytes: RwSpinLock<AlignedBuffer>,
}

impl WriteBuffer {
    /// A buffer that has no memory until it is used: few heaps have records of every kind.
    pub(crate) fn new() -> Self {
        Self { start: AtomicU64::new(NO_BLOCK), bytes: RwSpinLock::new(AlignedBuffer::new(0)) }
    }

    /// RAM that it takes.
    pub(crate) fn ram_bytes(&self) -> usize {
        self.bytes.read().len()
    }

    /// An empty block, which will stand at `start`.
    fn begin(&self, start: u64, block_bytes: usize) {
        let mut block = self.bytes.write();
        if block.is_empty() {
            *block = AlignedBuffer::new(block_bytes);
        } else {
            block.fill(0);
        }
        self.start.store(start, Ordering::Release);
    }

    /// Copies what stands at device offset `offset` into `out`, up to the end of the block, and returns
    /// whether this block holds it.
    pub(crate) fn read_in_fault(&self, offset: u64, out: &mut [u8]) -> bool {
        let holds = |start: u64, len: usize| offset >= start && offset - start < len as u64;
        let start = self.start.load(Ordering::Acquire);
        if start == NO_BLOCK || offset < start {
            return false;
        }
        let bytes = self.bytes.read();
        let start = self.start.load(Ordering::Acquire);
        if start == NO_BLOCK || !holds(start, bytes.len()) {
            return false;
        }
        let at = (offset - start) as usize;
        let len = out.len().min(bytes.len() - at);
        out[..len].copy_from_slice(&bytes[at..at + len]);
        out[len..].fill(0);
        true
    }
}

/// A segment that has blocks left to fill.
struct Unfilled {
    segment: SegmentId,
    /// The block that is filled now or next.
    block: usize,
    class: AllocationClass,
}

/// One segment at a time, filled block by block; those of other classes wait meanwhile.
pub(crate) struct OpenSegment {
    head: HeadKind,
    kind: Kind,
    /// Of the records to come.
    class: AllocationClass,
    present: Option<Unfilled>,
    /// Longest set aside first; at most [`waiting_segments`].
    waiting: Vec<Unfilled>,
    used_in_block: usize,
    /// Whose records come next in the block without a marker.
    owner: Option<u32>,
}

impl OpenSegment {
    pub(crate) const fn new(head: HeadKind, kind: Kind) -> Self {
        Self {
            head,
            kind,
            class: AllocationClass::DEFAULT,
            present: None,
            waiting: Vec::new(),
            used_in_block: 0,
            owner: None,
        }
    }

    fn buffer<'a>(&self, log: &'a Log) -> &'a WriteBuffer {
        log.write_buffer(self.head, self.kind)
    }

    pub(crate) fn set_class(&mut self, class: AllocationClass) {
        self.class = class;
    }

    pub(crate) fn make_room(&mut self, log: &Log, bytes: usize) -> Result<(), AppendError> {
        let geometry = *log.geometry();
        let first = geometry.block_start(self.kind);
        assert!(
            first + bytes <= geometry.block_bytes,
            "{bytes} bytes do not fit a block of {}",
            geometry.block_bytes
        );
        log.check_running()?;
        if self.present.is_some() && self.used_in_block + bytes <= geometry.block_bytes {
            return Ok(());
        }
        self.write_block(log)?;
        self.set_aside(log);
        let next = self.take_up(log)?;
        let start = geometry.segment_offset(next.segment) + (next.block * geometry.block_bytes) as u64;
        self.present = Some(next);
        self.buffer(log).begin(start, geometry.block_bytes);
        self.used_in_block = first;
        self.owner = None;
        Ok(())
    }

    /// Seals the present segment if it is full, else puts it behind those that wait.
    fn set_aside(&mut self, log: &Log) {
        let Some(mut present) = self.present.take() else { return };
        let geometry = log.geometry();
        present.block += 1;
        if present.block * geometry.block_bytes < geometry.segment_bytes {
            self.waiting.push(present);
        } else {
            self.forget_block(log);
            log.seal(present.segment);
        }
    }

    /// The segment to fill next: one of the class, a new one, or, when the log has none to spare, what another class began.
    fn take_up(&mut self, log: &Log) -> Result<Unfilled, AppendError> {
        if let Some(own) = self.waiting.iter().position(|waiting| waiting.class == self.class) {
            return Ok(self.waiting.remove(own));
        }
        let may_open = self.waiting.is_empty()
            || self.waiting.len() <= waiting_segments(log.geometry().segments) && log.has_segments_to_spare();
        let opened = match may_open {
            true => log.open_segment(self.head, self.kind),
            false => Err(AppendError::Full),
        };
        match opened {
            Ok(segment) => Ok(Unfilled { segment, block: 0, class: self.class }),
            Err(AppendError::Full) if !self.waiting.is_empty() => {
                Ok(Unfilled { class: self.class, ..self.waiting.remove(0) })
            }
            Err(error) => Err(error),
        }
    }

    pub(crate) fn room_bytes(&self, log: &Log) -> usize {
        if self.present.is_some() { log.geometry().block_bytes - self.used_in_block } else { 0 }
    }

    pub(crate) fn append(&mut self, log: &Log, id: RecordId, payload: &[u8]) -> LogAddress {
        let total = record_bytes(payload.len());
        let segment = self.present.as_ref().expect("make_room opened a segment").segment;
        let seed = log.segments().seed(segment);
        let mut at = self.used_in_block;
        let mut block = self.buffer(log).bytes.write();
        let start = self.buffer(log).start.load(Ordering::Relaxed);
        if self.kind == Kind::Whole {
            let sum = whole::write_page(&mut block, at, seed, id, payload);
            log.sums().set(log.geometry(), LogAddress::from_offset(start + at as u64), sum);
        } else {
            if self.owner != Some(id.owner()) {
                write_marker(&mut block[at..], id.owner());
                at += MARKER_BYTES;
            }
            write_record(&mut block[at..at + total], seed, id, payload);
        }
        drop(block);
        self.owner = Some(id.owner());
        self.used_in_block = at + total;
        log.segments().add_live(segment, total as u32);
        LogAddress::from_offset(start + at as u64)
    }

    /// The device has the block now. A buffer that went on claiming it would answer for what another head
    /// writes there, once the segment has been cleaned.
    fn forget_block(&self, log: &Log) {
        let block = self.buffer(log).bytes.write();
        self.buffer(log).start.store(NO_BLOCK, Ordering::Release);
        drop(block);
    }

    /// Hands the present block to the device. It keeps serving reads until the next block replaces it.
    fn write_block(&mut self, log: &Log) -> Result<(), AppendError> {
        if self.present.is_none() || self.used_in_block == log.geometry().block_start(self.kind) {
            return Ok(());
        }
        let start = self.buffer(log).start.load(Ordering::Relaxed);
        let block = self.buffer(log).bytes.read();
        log.write(start, &block)
    }
}
