//! Segments, heads and reads of one log.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

use aquifer_base::LogAddress;
use aquifer_base::limits::OS_PAGE_BYTES;
use aquifer_device::{Device, DeviceError, WriteRequest};

use crate::error::{AppendError, ReadError, StopError};
use crate::geometry::{Geometry, SegmentId};
use crate::head::Head;
use crate::open_segment::WriteBuffer;
use crate::readers::{IsGone, Readers};
use crate::record::{Kind, RecordId, find_record, lone_record_bytes};
use crate::segment::{SegmentTable, State};
use crate::sums::Sums;
use crate::whole;

/// Which of the two ends of the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HeadKind {
    /// What is written for the first time.
    Fresh,
    /// What the cleaner moved.
    Survivor,
}

/// Segments that are open at once: each head has one for each kind of record.
const OPEN_SEGMENTS: u32 = 6;

/// Blocks of RAM that a log takes at most: one for each open segment. It takes none for a kind of record that it does not have.
pub const BUFFERED_BLOCKS: usize = OPEN_SEGMENTS as usize;

/// RAM for each whole page that the device has room for.
pub const SUM_BYTES: usize = 4;

/// Free segments that only cleaning may use.
pub fn reserve_segments(segments: u32) -> u32 {
    (segments / 128).clamp(3, 8)
}

/// Segments of other classes that each head may have begun and set aside; none in small logs, where they would be too
/// large a part.
pub(crate) fn waiting_segments(segments: u32) -> usize {
    (segments / 256).min(4) as usize
}

/// A log on a device.
pub struct Log {
    device: Arc<dyn Device>,
    geometry: Geometry,
    segments: SegmentTable,
    sums: Sums,
    buffers: [WriteBuffer; BUFFERED_BLOCKS],
    free: Mutex<Vec<SegmentId>>,
    readers: Mutex<Readers>,
    freed: Condvar,
    wanted: Condvar,
    seals: AtomicU32,
    /// The writer waits for a free segment.
    is_waited_for: AtomicBool,
    stopped: OnceLock<StopError>,
    closing: AtomicBool,
    io_errors: AtomicU64,
    write_depth: AtomicUsize,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Log {
    /// An empty log over the whole of `device`, with its two heads: fresh writes, survivors.
    pub fn new(device: Arc<dyn Device>, geometry: Geometry) -> (Arc<Self>, Head, Head) {
        let log = Arc::new(Self {
            segments: SegmentTable::new(geometry.segments),
            sums: Sums::new(geometry.segments),
            buffers: std::array::from_fn(|_| WriteBuffer::new()),
            free: Mutex::new((0..geometry.segments).rev().map(SegmentId).collect()),
            readers: Mutex::default(),
            freed: Condvar::new(),
            wanted: Condvar::new(),
            seals: AtomicU32::new(0),
            is_waited_for: AtomicBool::new(false),
            stopped: OnceLock::new(),
            closing: AtomicBool::new(false),
            io_errors: AtomicU64::new(0),
            write_depth: AtomicUsize::new(1),
            device,
            geometry,
        });
        let fresh = Head::new(log.clone(), HeadKind::Fresh);
        let survivor = Head::new(log.clone(), HeadKind::Survivor);
        (log, fresh, survivor)
    }

    /// Sizes.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Per-segment state.
    pub fn segments(&self) -> &SegmentTable {
        &self.segments
    }

    /// The device below.
    pub fn device(&self) -> &dyn Device {
        &*self.device
    }

    pub(crate) fn sums(&self) -> &Sums {
        &self.sums
    }

    /// RAM of what is known of the segments and of the whole pages in them.
    pub fn metadata_bytes(&self) -> usize {
        self.segments.ram_bytes() + self.segments.len() as usize * 4 + self.sums.ram_bytes()
    }

    /// RAM that the log takes: metadata and write buffers.
    pub fn ram_bytes(&self) -> usize {
        self.metadata_bytes() + self.buffers.iter().map(WriteBuffer::ram_bytes).sum::<usize>()
    }

    /// Bytes of records that may be live at once so that cleaning can always go on, when no page is larger than
    /// `page_bytes`.
    ///
    /// Some segments are open and the reserve is kept free. A block is left empty from where the largest page does
    /// not fit. Of the rest a thirty-second stays garbage for the cleaner to win.
    pub fn usable_bytes(&self, page_bytes: usize) -> u64 {
        let kept = u64::from(reserve_segments(self.geometry.segments) + OPEN_SEGMENTS);
        let capacity = self.geometry.capacity_bytes() - kept * self.geometry.segment_bytes as u64;
        let block = self.geometry.block_bytes as u64;
        capacity / block * (block - lone_record_bytes(page_bytes) as u64) / 32 * 31
    }

    /// Whether cleaning can go on however many begun segments are set aside.
    pub(crate) fn has_segments_to_spare(&self) -> bool {
        let aside = 2 * waiting_segments(self.geometry.segments) * self.geometry.segment_bytes;
        self.segments.live_bytes_total() + aside as u64 <= self.usable_bytes(OS_PAGE_BYTES)
    }

    /// Device errors seen so far, reads included.
    pub fn io_errors(&self) -> u64 {
        self.io_errors.load(Ordering::Relaxed)
    }

    /// The error that stopped writing, if one did.
    pub fn stopped(&self) -> Option<StopError> {
        self.stopped.get().copied()
    }

    /// Seals since the log was made: the clock of segment ages.
    pub fn now(&self) -> u32 {
        self.seals.load(Ordering::Relaxed)
    }

    /// A record of `bytes` at `address` is not needed any more.
    pub fn release(&self, address: LogAddress, bytes: usize) {
        if let Some(segment) = self.geometry.segment_of(address) {
            self.segments.subtract_live(segment, bytes as u32);
        }
    }

    /// Device bytes that must be read to have the `span_bytes` of records at `address`.
    pub fn device_range(&self, address: LogAddress, span_bytes: usize) -> Range<u64> {
        let unit = self.device.block_bytes() as u64;
        let offset = address.offset_bytes();
        let span = span_bytes.min(self.geometry.bytes_left_in_block(address)) as u64;
        offset / unit * unit..(offset + span).next_multiple_of(unit)
    }

    /// Finds record `id` among the records in the `span_bytes` from `address` and returns where in
    /// `scratch` its payload stands. `scratch` is aligned to and has room for [`Log::device_range`].
    ///
    /// # Errors
    /// [`ReadError::Mismatch`] is also the answer when the cleaner moved the record meanwhile: look the
    /// address up again, and only if it is unchanged the bytes are damaged.
    ///
    /// # Context
    /// Runs in fault handlers. Blocks on the device.
    pub fn read_in_fault(
        &self,
        address: LogAddress,
        span_bytes: usize,
        id: RecordId,
        scratch: &mut [u8],
    ) -> Result<Range<usize>, ReadError> {
        let range = self.device_range(address, span_bytes);
        if let Some(found) = self.read_buffered_in_fault(address, span_bytes, id, scratch) {
            return found;
        }
        let len = (range.end - range.start) as usize;
        self.device.read_at(range.start, &mut scratch[..len]).inspect_err(|_| self.count_io_error())?;
        self.find_in_fault(address, id, &scratch[..len])
    }

    /// The same from the write buffers alone; `None` if they do not hold the address.
    pub fn read_buffered_in_fault(
        &self,
        address: LogAddress,
        span_bytes: usize,
        id: RecordId,
        scratch: &mut [u8],
    ) -> Option<Result<Range<usize>, ReadError>> {
        let out = &mut scratch[..span_bytes];
        let held = self.buffers.iter().any(|buffer| buffer.read_in_fault(address.offset_bytes(), out));
        held.then(|| self.find_from(address, id, out, 0))
    }

    /// Finds `id` in `bytes` that were read from [`Log::device_range`] of `address`.
    pub fn find_in_fault(
        &self,
        address: LogAddress,
        id: RecordId,
        bytes: &[u8],
    ) -> Result<Range<usize>, ReadError> {
        let skip = (address.offset_bytes() % self.device.block_bytes() as u64) as usize;
        self.find_from(address, id, bytes, skip)
    }

    fn find_from(
        &self,
        address: LogAddress,
        id: RecordId,
        bytes: &[u8],
        skip: usize,
    ) -> Result<Range<usize>, ReadError> {
        let mismatch = ReadError::Mismatch { address, wanted: id };
        let segment = self.geometry.segment_of(address).ok_or(mismatch)?;
        let seed = self.segments.seed(segment);
        if id.kind == Kind::Whole {
            let page = bytes.get(skip..skip + OS_PAGE_BYTES).ok_or(mismatch)?;
            let is_intact = self.sums.get(&self.geometry, address) == Some(whole::sum(seed, id, page));
            return if is_intact { Ok(skip..skip + OS_PAGE_BYTES) } else { Err(mismatch) };
        }
        let (at, len) = bytes.get(skip..).and_then(|b| find_record(b, seed, id)).ok_or(mismatch)?;
        let start = skip + at + crate::record::HEADER_BYTES;
        Ok(start..start + len)
    }

    /// Notes a device error.
    pub fn count_io_error(&self) {
        self.io_errors.fetch_add(1, Ordering::Relaxed);
    }

    /// Free segments now.
    pub fn free_segments(&self) -> u32 {
        locked(&self.free).len() as u32
    }

    /// Waits until free segments fall below `low`, or the log closes or stops; returns whether to clean.
    pub fn wait_until_cleaning_is_wanted(&self, low: u32) -> bool {
        let mut free = locked(&self.free);
        while free.len() as u32 >= low && self.check_running().is_ok() {
            free = self.wanted.wait(free).unwrap_or_else(PoisonError::into_inner);
        }
        self.check_running().is_ok()
    }

    /// Makes every wait on the log return.
    pub fn close(&self) {
        self.closing.store(true, Ordering::Release);
        self.wake_all();
    }

    pub(crate) fn write_buffer(&self, head: HeadKind, kind: Kind) -> &WriteBuffer {
        let of_head = match head {
            HeadKind::Fresh => 0,
            HeadKind::Survivor => 3,
        };
        let of_kind = match kind {
            Kind::Page => 0,
            Kind::Leaf => 1,
            Kind::Whole => 2,
        };
        &self.buffers[of_head + of_kind]
    }

    pub(crate) fn check_running(&self) -> Result<(), AppendError> {
        match self.stopped.get() {
            Some(&error) => Err(AppendError::Stopped(error)),
            None if self.closing.load(Ordering::Acquire) => Err(AppendError::Closing),
            None => Ok(()),
        }
    }

    /// Sets the number of parts in which a block is written to the device at once. Some devices need more
    /// than one write at a time for their full speed. 0 counts as 1.
    pub fn set_write_depth(&self, parts: usize) {
        self.write_depth.store(parts.max(1), Ordering::Relaxed);
    }

    pub(crate) fn write(&self, offset: u64, block: &[u8]) -> Result<(), AppendError> {
        self.write_parts(offset, block).map_err(|error| {
            self.count_io_error();
            self.stop(error.into());
            AppendError::Stopped(error.into())
        })
    }

    fn write_parts(&self, offset: u64, block: &[u8]) -> Result<(), DeviceError> {
        let parts = self.write_depth.load(Ordering::Relaxed);
        if parts == 1 {
            return self.device.write_at(offset, block);
        }
        let part_bytes = block.len().div_ceil(parts).next_multiple_of(self.device.block_bytes());
        let requests = block.chunks(part_bytes).zip(0..);
        let mut requests: Vec<_> =
            requests.map(|(part, at)| WriteRequest::new(offset + at * part_bytes as u64, part)).collect();
        self.device.write_batch(&mut requests);
        requests.into_iter().try_for_each(|request| request.result)
    }

    /// Every wait for room ends with the first error that the log was stopped with.
    fn stop(&self, error: StopError) {
        let _ = self.stopped.set(error);
        self.wake_all();
    }

    /// Stops the log if its writer waits for room that the retired segments would have. To be called when no segment can be
    /// cleaned now.
    pub fn stop_if_retired_segments_lack(&self) {
        // In this order: a writer that was given a segment may not have woken up yet.
        let is_short = self.free_segments() <= reserve_segments(self.geometry.segments);
        if !is_short || !self.is_waited_for.load(Ordering::Acquire) {
            return;
        }
        let segments = self.segments.in_state(State::Retired).count() as u32;
        if segments > 0 {
            self.stop(StopError::Retired { segments });
        }
    }

    fn wake_all(&self) {
        // The lock is taken so that nobody is between its check and its wait.
        let _free = locked(&self.free);
        self.freed.notify_all();
        self.wanted.notify_all();
    }

    pub(crate) fn seal(&self, segment: SegmentId) {
        let now = self.seals.fetch_add(1, Ordering::Relaxed) + 1;
        self.segments.seal(segment, now);
    }

    pub(crate) fn open_segment(&self, head: HeadKind, kind: Kind) -> Result<SegmentId, AppendError> {
        let readers = locked(&self.readers).last();
        let reserve = if head == HeadKind::Fresh { reserve_segments(self.geometry.segments) } else { 0 };
        let mut free = locked(&self.free);
        self.wanted.notify_all();
        while free.len() as u32 <= reserve {
            if head == HeadKind::Survivor {
                return Err(AppendError::Full);
            }
            self.check_running()?;
            self.is_waited_for.store(true, Ordering::Release);
            free = self.freed.wait(free).unwrap_or_else(PoisonError::into_inner);
        }
        if head == HeadKind::Fresh {
            self.is_waited_for.store(false, Ordering::Release);
        }
        let segment = free.pop().expect("more segments are free than the reserve");
        self.segments.next_generation(segment, kind);
        self.segments.set_opened_for(segment, readers);
        self.segments.set_state(segment, State::Open);
        Ok(segment)
    }

    pub(crate) fn free_segment(&self, segment: SegmentId) {
        self.segments.set_state(segment, State::Free);
        let opened = self.segments.opened_for(segment);
        if !locked(&self.readers).keep(segment, opened) {
            self.queue_free([segment]);
        }
    }

    fn queue_free(&self, segments: impl IntoIterator<Item = SegmentId>) {
        let mut free = locked(&self.free);
        for segment in segments {
            // Queued at the far end: a freed segment is reused as late as possible, so that readers that
            // still hold its address find the old record and need not look again.
            free.insert(0, segment);
        }
        self.freed.notify_all();
    }

    /// From now on segments that are freed are kept until somebody else who reads the log as it is now, is gone.
    pub fn keep_for(&self, is_gone: IsGone) {
        locked(&self.readers).add(is_gone);
    }

    /// Frees what was kept for readers who are gone; if room is short, also what the others may read. They see that it is
    /// not theirs any more by its checksums. Returns whether anything was freed.
    pub fn review_readers(&self) -> bool {
        let is_short = self.free_segments() <= reserve_segments(self.geometry.segments) + 1;
        let unread = {
            let mut readers = locked(&self.readers);
            if readers.kept() == 0 {
                return false;
            }
            let unread = readers.take_unread();
            if unread.is_empty() && is_short { readers.take_all() } else { unread }
        };
        let any = !unread.is_empty();
        self.queue_free(unread);
        any
    }
}
