//! Pages that wait for flash.

mod chunk;

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use aquifer_device::{Device, DeviceError};
use aquifer_sys::helper;
use foldhash::fast::FixedState;

use super::{Counts, PAGE_BYTES, page_of};
use chunk::Chunk;

/// Pages written to flash at once, at the most.
const CHUNK_PAGES_MAX: usize = 256;
/// One is written while others are filled.
const CHUNKS_MIN: usize = 4;

/// A bounded buffer before flash. A page is in it from the moment that its writer is told so until flash has it.
///
/// Pages come to an open chunk. It is closed when it is full, or when flash has nothing else to do; closed ones are written in the order in which they were opened, so
/// the newest bytes of a page are the last to reach flash.
pub struct Behind {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    local: Arc<dyn Device>,
    state: Mutex<State>,
    /// There is something to write, or no more will come.
    work: Condvar,
    /// Something was written.
    progress: Condvar,
}

struct State {
    open: Option<Arc<Chunk>>,
    /// The first one may be under way. None of them changes any more.
    closed: VecDeque<Arc<Chunk>>,
    spare: Vec<Arc<Chunk>>,
    /// Where the newest bytes of each page are.
    newest: HashMap<usize, Spot, FixedState>,
    /// Chunks that flash has.
    written: u64,
    /// Pages that ever came to a chunk, and those that flash has.
    came: u64,
    went: u64,
    /// The thread sleeps, and must be woken.
    is_idle: bool,
    stopped: Option<DeviceError>,
    is_closing: bool,
}

/// A place in a chunk: the how manieth one that was opened, from 0, and its how manieth page.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Spot {
    chunk: u64,
    nth: u32,
}

impl State {
    /// Number of the chunk that is open, or that will be next.
    fn open_number(&self) -> u64 {
        self.written + self.closed.len() as u64
    }

    fn bytes(&self, spot: Spot) -> &[u8] {
        let closed = self.closed.get((spot.chunk - self.written) as usize);
        let chunk = closed.or(self.open.as_ref()).expect("a spot is of a chunk that is not written yet");
        chunk.bytes(spot.nth as usize)
    }

    /// Takes pages until there is no room, and says how many. Flash is told by the caller.
    fn take(&mut self, first: usize, bytes: &[u8]) -> usize {
        for (nth, bytes) in bytes.chunks_exact(PAGE_BYTES).enumerate() {
            if !self.take_page(first + nth, bytes) {
                return nth;
            }
        }
        bytes.len() / PAGE_BYTES
    }

    fn take_page(&mut self, page: usize, bytes: &[u8]) -> bool {
        let open_number = self.open_number();
        if let Some(spot) = self.newest.get(&page)
            && spot.chunk == open_number
        {
            let nth = spot.nth as usize;
            self.open().expect("a spot is of it").replace(nth, bytes);
            return true;
        }
        let Some(open) = self.open() else { return false };
        let nth = open.push(page, bytes) as u32;
        if open.is_full() {
            self.close();
        }
        self.newest.insert(page, Spot { chunk: open_number, nth });
        self.came += 1;
        true
    }

    /// The open chunk; none if all are closed.
    fn open(&mut self) -> Option<&mut Chunk> {
        if self.open.is_none() {
            self.open = self.spare.pop();
        }
        self.open.as_mut().map(|open| Arc::get_mut(open).expect("an open chunk has one owner"))
    }

    fn close(&mut self) {
        self.closed.extend(self.open.take());
    }

    /// Flash has a chunk, the oldest one.
    fn end(&mut self, chunk: Arc<Chunk>) {
        let number = self.written;
        for (nth, page) in chunk.pages().iter().enumerate() {
            if self.newest.get(page) == Some(&Spot { chunk: number, nth: nth as u32 }) {
                self.newest.remove(page);
            }
        }
        self.went += chunk.pages().len() as u64;
        self.written += 1;
        self.closed.pop_front();
        let mut chunk = chunk;
        Arc::get_mut(&mut chunk).expect("it was the last other owner").empty();
        self.spare.push(chunk);
    }
}

impl Behind {
    /// A buffer of `bytes` in front of the device `local`.
    ///
    /// # Errors
    /// No thread.
    pub fn new(local: Arc<dyn Device>, bytes: usize) -> io::Result<Behind> {
        let slots = (bytes / PAGE_BYTES).max(1);
        let chunk_pages = slots.div_ceil(CHUNKS_MIN).min(CHUNK_PAGES_MAX);
        let chunks = (slots / chunk_pages).max(1);
        let state = State {
            open: None,
            closed: VecDeque::with_capacity(chunks),
            spare: (0..chunks).map(|_| Arc::new(Chunk::new(chunk_pages))).collect(),
            newest: HashMap::with_capacity_and_hasher(2 * slots, FixedState::default()),
            written: 0,
            came: 0,
            went: 0,
            is_idle: false,
            stopped: None,
            is_closing: false,
        };
        let (state, work, progress) = (Mutex::new(state), Condvar::new(), Condvar::new());
        let shared = Arc::new(Shared { local, state, work, progress });
        let thread = std::thread::Builder::new().name("aq-far-flash".into()).spawn({
            let shared = Arc::clone(&shared);
            move || helper::serve(|| shared.write_until_closed())
        })?;
        Ok(Behind { shared, thread: Some(thread) })
    }

    /// RAM that it takes, its maps included.
    pub fn ram_bytes(&self) -> usize {
        let state = self.shared.lock();
        let chunks = state.spare.iter().chain(&state.closed).chain(&state.open);
        let entry_bytes = size_of::<(usize, Spot)>() + 1;
        chunks.map(|chunk| chunk.ram_bytes()).sum::<usize>() + state.newest.capacity() * 8 / 7 * entry_bytes
    }

    /// Takes pages that follow each other. Waits while there is no room.
    ///
    /// # Errors
    /// Flash failed: nothing more is taken, and what is here stays here.
    pub fn put(&self, first: usize, bytes: &[u8]) -> Result<(), DeviceError> {
        let mut state = self.shared.lock();
        let mut taken = 0;
        while taken < bytes.len() / PAGE_BYTES {
            let (came, now) = self.put_some(state, first + taken, &bytes[taken * PAGE_BYTES..])?;
            taken += came;
            state = now;
            if came == 0 {
                state = self.shared.progress.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
        Ok(())
    }

    /// Takes as many of these pages as there is room for, from the first on, and says how many. Does not wait.
    ///
    /// # Errors
    /// As [`Behind::put`].
    pub fn try_put(&self, first: usize, bytes: &[u8]) -> Result<usize, DeviceError> {
        self.put_some(self.shared.lock(), first, bytes).map(|(taken, _)| taken)
    }

    fn put_some<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        first: usize,
        bytes: &[u8],
    ) -> Result<(usize, MutexGuard<'a, State>), DeviceError> {
        if let Some(error) = state.stopped {
            return Err(error);
        }
        let taken = state.take(first, bytes);
        if taken > 0 && std::mem::take(&mut state.is_idle) {
            self.shared.work.notify_one();
        }
        Ok((taken, state))
    }

    /// The newest bytes of a page, if flash may not have them.
    fn get(&self, page: usize, bytes: &mut [u8]) -> bool {
        let state = self.shared.lock();
        state.newest.get(&page).map(|spot| bytes.copy_from_slice(state.bytes(*spot))).is_some()
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
        while let Some(chunk) = self.oldest() {
            let outcome = chunk.write(&*self.local);
            let mut state = self.lock();
            match outcome {
                Ok(()) => state.end(chunk),
                Err(error) => state.stopped = Some(error),
            }
            drop(state);
            self.progress.notify_all();
        }
    }

    /// The oldest chunk, closed; none when there will be none.
    fn oldest(&self) -> Option<Arc<Chunk>> {
        let mut state = self.lock();
        loop {
            if state.stopped.is_some() {
                return None;
            }
            if state.closed.is_empty() {
                state.close();
            }
            if let Some(chunk) = state.closed.front() {
                return Some(Arc::clone(chunk));
            }
            if state.is_closing {
                return None;
            }
            state.is_idle = true;
            state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}
