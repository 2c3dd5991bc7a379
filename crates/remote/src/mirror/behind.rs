//! Pages that wait for flash.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use aquifer_device::{AlignedBuffer, Device, DeviceError, WriteRequest};
use aquifer_sys::SignalsBlocked;

use super::{Counts, PAGE_BYTES, page_of};

/// Pages written to flash at once, at the most.
const BATCH_PAGES_MAX: usize = 256;

/// A bounded buffer before flash. A page is in it from the moment that its writer is told so until flash has it.
pub struct Behind {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    local: Arc<dyn Device>,
    /// Pages written to flash at once.
    batch_pages: usize,
    state: Mutex<State>,
    /// There is something to write, or no more will come.
    work: Condvar,
    /// Something was written.
    progress: Condvar,
}

struct State {
    /// Bytes of all slots.
    memory: AlignedBuffer,
    free: Vec<u32>,
    /// Pages to be written, in the order in which they came.
    queue: VecDeque<usize>,
    /// Their newest bytes.
    waiting: HashMap<usize, u32>,
    /// Pages that are being written.
    under_way: HashMap<usize, u32>,
    /// Pages that ever came to the queue, and those that flash has.
    came: u64,
    went: u64,
    stopped: Option<DeviceError>,
    is_closing: bool,
}

impl State {
    fn slot(&self, slot: u32) -> &[u8] {
        &self.memory[slot as usize * PAGE_BYTES..][..PAGE_BYTES]
    }

    fn fill(&mut self, slot: u32, bytes: &[u8]) {
        self.memory[slot as usize * PAGE_BYTES..][..PAGE_BYTES].copy_from_slice(bytes);
    }
}

impl Behind {
    /// A buffer of so many bytes before a device.
    ///
    /// # Errors
    /// No thread.
    pub fn new(local: Arc<dyn Device>, bytes: usize) -> io::Result<Behind> {
        let slots = (bytes / PAGE_BYTES).max(1);
        let batch_pages = slots.div_ceil(4).min(BATCH_PAGES_MAX);
        let state = State {
            memory: AlignedBuffer::new(slots * PAGE_BYTES),
            free: (0..slots as u32).rev().collect(),
            queue: VecDeque::with_capacity(slots),
            waiting: HashMap::with_capacity(2 * slots),
            under_way: HashMap::with_capacity(2 * batch_pages),
            came: 0,
            went: 0,
            stopped: None,
            is_closing: false,
        };
        let shared = Shared {
            local,
            batch_pages,
            state: Mutex::new(state),
            work: Condvar::new(),
            progress: Condvar::new(),
        };
        let shared = Arc::new(shared);
        let thread = std::thread::Builder::new().name("aq-mirror-flash".into()).spawn({
            let shared = Arc::clone(&shared);
            move || {
                let _signals = SignalsBlocked::new();
                shared.write_until_closed();
            }
        })?;
        Ok(Behind { shared, thread: Some(thread) })
    }

    /// RAM that it takes, its maps included.
    pub fn ram_bytes(&self) -> usize {
        let state = self.shared.lock();
        let entry_bytes = size_of::<(usize, u32)>() + 1;
        state.memory.len()
            + (state.waiting.capacity() + state.under_way.capacity()) * 8 / 7 * entry_bytes
            + state.queue.capacity() * size_of::<usize>()
            + self.shared.batch_pages * PAGE_BYTES
    }

    /// Takes a page. Waits while there is no room.
    ///
    /// # Errors
    /// Flash failed: nothing more is taken, and what is here stays here.
    pub fn put(&self, page: usize, bytes: &[u8]) -> Result<(), DeviceError> {
        let mut state = self.shared.lock();
        loop {
            if let Some(error) = state.stopped {
                return Err(error);
            }
            if let Some(slot) = state.waiting.get(&page).copied() {
                state.fill(slot, bytes);
                return Ok(());
            }
            let Some(slot) = state.free.pop() else {
                state = self.shared.progress.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            state.fill(slot, bytes);
            state.waiting.insert(page, slot);
            state.queue.push_back(page);
            state.came += 1;
            self.shared.work.notify_one();
            return Ok(());
        }
    }

    /// The newest bytes of a page, if flash may not have them.
    fn get(&self, page: usize, bytes: &mut [u8]) -> bool {
        let state = self.shared.lock();
        let slot = state.waiting.get(&page).or_else(|| state.under_way.get(&page));
        slot.map(|slot| bytes.copy_from_slice(state.slot(*slot))).is_some()
    }

    /// Reads pages that buffer or flash have: each from the buffer, or else from flash, which has it if the buffer has not.
    ///
    /// # Errors
    /// Flash cannot be read.
    pub fn read(&self, offset: u64, buf: &mut [u8], counts: &Counts) -> Result<(), DeviceError> {
        let mut missing = 0..0;
        for at in (0..buf.len()).step_by(PAGE_BYTES) {
            let page = page_of(offset) + at / PAGE_BYTES;
            if self.get(page, &mut buf[at..at + PAGE_BYTES]) {
                counts.buffer_reads.fetch_add(1, Relaxed);
                self.read_flash(offset + missing.start as u64, &mut buf[missing], counts)?;
                missing = at + PAGE_BYTES..at + PAGE_BYTES;
            } else {
                missing.end = at + PAGE_BYTES;
            }
        }
        self.read_flash(offset + missing.start as u64, &mut buf[missing], counts)
    }

    fn read_flash(&self, offset: u64, buf: &mut [u8], counts: &Counts) -> Result<(), DeviceError> {
        counts.flash_reads.fetch_add((buf.len() / PAGE_BYTES) as u64, Relaxed);
        self.shared.local.read_at(offset, buf)
    }

    /// Waits until flash has all that came before.
    ///
    /// # Errors
    /// Flash failed.
    pub fn flush(&self) -> Result<(), DeviceError> {
        let mut state = self.shared.lock();
        let came = state.came;
        while state.went < came {
            if let Some(error) = state.stopped {
                return Err(error);
            }
            state = self.shared.progress.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.stopped.map_or(Ok(()), Err)
    }
}

impl Drop for Behind {
    fn drop(&mut self) {
        self.shared.lock().is_closing = true;
        self.shared.work.notify_one();
        if let Some(thread) = self.thread.take() {
            // It ends when all is written, or flash has failed, which was said to those who asked.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_until_closed(&self) {
        let mut buffer = AlignedBuffer::new(self.batch_pages * PAGE_BYTES);
        let mut pages = Vec::with_capacity(self.batch_pages);
        while self.take_batch(&mut pages, &mut buffer) {
            let outcome = self.write_batch(&pages, &buffer);
            let mut state = self.lock();
            match outcome {
                Ok(()) => {
                    state.went += pages.len() as u64;
                    for page in &pages {
                        let slot = state.under_way.remove(page).expect("it was under way");
                        state.free.push(slot);
                    }
                }
                Err(error) => state.stopped = Some(error),
            }
            drop(state);
            self.progress.notify_all();
        }
    }

    /// Takes the oldest pages, in the order of the device; `false` when there will be none.
    fn take_batch(&self, pages: &mut Vec<usize>, buffer: &mut [u8]) -> bool {
        let mut state = self.lock();
        while state.queue.is_empty() && !state.is_closing {
            state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.queue.is_empty() || state.stopped.is_some() {
            return false;
        }
        pages.clear();
        let count = state.queue.len().min(self.batch_pages);
        pages.extend(state.queue.drain(..count));
        pages.sort_unstable();
        for (page, bytes) in pages.iter().zip(buffer.chunks_exact_mut(PAGE_BYTES)) {
            let slot = state.waiting.remove(page).expect("what is in the queue waits");
            bytes.copy_from_slice(state.slot(slot));
            state.under_way.insert(*page, slot);
        }
        true
    }

    fn write_batch(&self, pages: &[usize], buffer: &[u8]) -> Result<(), DeviceError> {
        let mut requests = Vec::new();
        let mut at = 0;
        for run in pages.chunk_by(|before, after| before + 1 == *after) {
            let bytes = run.len() * PAGE_BYTES;
            requests.push(WriteRequest::new(run[0] as u64 * PAGE_BYTES as u64, &buffer[at..at + bytes]));
            at += bytes;
        }
        self.local.write_batch(&mut requests);
        requests.iter().try_for_each(|request| request.result)
    }
}
