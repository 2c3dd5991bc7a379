//! The segment that a head fills with records of one kind.

use std::sync::atomic::{AtomicU64, Ordering};

use aquifer_base::LogAddress;
use aquifer_device::AlignedBuffer;
use aquifer_sys::rwspin::RwSpinLock;

use crate::error::AppendError;
use crate::geometry::SegmentId;
use crate::log::{HeadKind, Log};
use crate::record::{Kind, MARKER_BYTES, RecordId, record_bytes, write_marker, write_record};

const NO_BLOCK: u64 = u64::MAX;

/// The block being filled or written; it serves reads until the device has it.
pub(crate) struct WriteBuffer {
    /// Device offset of the block, or [`NO_BLOCK`]. Changes only under the write lock of `bytes`.
    start: AtomicU64,
    bytes: RwSpinLock<AlignedBuffer>,
}

impl WriteBuffer {
    pub(crate) fn new(block_bytes: usize) -> Self {
        Self { start: AtomicU64::new(NO_BLOCK), bytes: RwSpinLock::new(AlignedBuffer::new(block_bytes)) }
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

/// At most one segment at a time, filled block by block.
pub(crate) struct OpenSegment {
    head: HeadKind,
    kind: Kind,
    segment: Option<SegmentId>,
    block_in_segment: usize,
    used_in_block: usize,
    /// Whose records come next in the block without a marker.
    owner: Option<u32>,
}

impl OpenSegment {
    pub(crate) const fn new(head: HeadKind, kind: Kind) -> Self {
        Self { head, kind, segment: None, block_in_segment: 0, used_in_block: 0, owner: None }
    }

    fn buffer<'a>(&self, log: &'a Log) -> &'a WriteBuffer {
        log.write_buffer(self.head, self.kind)
    }

    pub(crate) fn make_room(&mut self, log: &Log, bytes: usize) -> Result<(), AppendError> {
        let geometry = *log.geometry();
        assert!(
            bytes <= geometry.block_bytes,
            "{bytes} bytes do not fit a block of {}",
            geometry.block_bytes
        );
        log.check_running()?;
        if self.segment.is_some() && self.used_in_block + bytes <= geometry.block_bytes {
            return Ok(());
        }
        self.write_block(log)?;
        let segment = match self.segment {
            Some(segment) if (self.block_in_segment + 1) * geometry.block_bytes < geometry.segment_bytes => {
                self.block_in_segment += 1;
                segment
            }
            full => {
                if let Some(full) = full {
                    self.forget_block(log);
                    log.seal(full);
                    self.segment = None;
                }
                self.block_in_segment = 0;
                log.open_segment(self.head, self.kind)?
            }
        };
        self.segment = Some(segment);
        let start = geometry.segment_offset(segment) + (self.block_in_segment * geometry.block_bytes) as u64;
        let mut block = self.buffer(log).bytes.write();
        block.fill(0);
        self.buffer(log).start.store(start, Ordering::Release);
        drop(block);
        self.used_in_block = 0;
        self.owner = None;
        Ok(())
    }

    pub(crate) fn room_bytes(&self, log: &Log) -> usize {
        if self.segment.is_some() { log.geometry().block_bytes - self.used_in_block } else { 0 }
    }

    pub(crate) fn append(&mut self, log: &Log, id: RecordId, payload: &[u8]) -> LogAddress {
        let total = record_bytes(payload.len());
        let segment = self.segment.expect("make_room opened a segment");
        let seed = log.segments().seed(segment);
        let mut at = self.used_in_block;
        let mut block = self.buffer(log).bytes.write();
        if self.owner != Some(id.owner()) {
            write_marker(&mut block[at..], id.owner());
            at += MARKER_BYTES;
        }
        write_record(&mut block[at..at + total], seed, id, payload);
        drop(block);
        self.owner = Some(id.owner());
        self.used_in_block = at + total;
        log.segments().add_live(segment, total as u32);
        LogAddress::from_offset(self.buffer(log).start.load(Ordering::Relaxed) + at as u64)
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
        if self.segment.is_none() || self.used_in_block == 0 {
            return Ok(());
        }
        let start = self.buffer(log).start.load(Ordering::Relaxed);
        let block = self.buffer(log).bytes.read();
        log.write(start, &block)
    }
}
