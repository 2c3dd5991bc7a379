//! Batches where io_uring is refused: threads that sleep between batches, and share the transfers of one with its caller.
//!
//! One batch at a time is shared. Its steps:
//! 1. The caller takes the pool. Where it is taken, the caller does its batch alone.
//! 2. It opens the batch and rings the bell. Threads join while the batch is open.
//! 3. The caller and who joined take the next transfer, until none is left.
//! 4. The caller closes the batch, so that nobody joins any more, and waits until who joined has left.
//!
//! `state` says which step it is. Nothing here allocates or locks once the threads have begun.

use std::ffi::c_void;
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering};

use aquifer_sys::futex;
use aquifer_sys::helper::Helper;

use crate::batch::Transfer;

/// Threads of one device. Each has one transfer under way, and the caller has one more.
pub(crate) const THREADS: usize = 8;

/// In `state`: a caller has the pool. Without this flag it is 0.
const TAKEN: u32 = 1 << 31;
/// In `state`: threads may join. The other bits count those that have.
const OPEN: u32 = 1 << 30;

/// The threads of one device.
#[derive(Debug)]
pub(crate) struct Workers {
    shared: Arc<Shared>,
    threads: Vec<Helper>,
    /// A forked child has none of the threads.
    owner_pid: u32,
}

#[derive(Debug, Default)]
struct Shared {
    state: AtomicU32,
    /// The open batch; it lies on the stack of its caller.
    batch: AtomicPtr<Batch<'static>>,
    /// Goes up when a batch is opened, and at the end. Threads sleep on it.
    bell: AtomicU32,
    is_ending: AtomicBool,
    /// Threads that may join a batch.
    joiners_max: AtomicU32,
    in_flight: AtomicUsize,
    in_flight_max: AtomicUsize,
}

/// Transfers that several threads do.
struct Batch<'a> {
    file: &'a File,
    block_bytes: usize,
    /// `len` requests of the type that `finish` is for.
    requests: *mut c_void,
    len: usize,
    /// The first request that nobody has taken yet.
    next: AtomicUsize,
    finish: unsafe fn(&Batch<'_>, usize, &Shared),
}

impl Workers {
    /// Starts the threads, or as many as there is room for; `None` without any.
    pub(crate) fn start() -> Option<Self> {
        let shared = Arc::new(Shared::default());
        let start = |_| {
            let shared = Arc::clone(&shared);
            Helper::start_spare(c"aquifer-flash", move || shared.serve()).ok()
        };
        let threads: Vec<_> = (0..THREADS).map_while(start).collect();
        shared.joiners_max.store(threads.len() as u32, Ordering::Relaxed);
        (!threads.is_empty()).then(|| Workers { shared, threads, owner_pid: std::process::id() })
    }

    /// Makes batches have at most `depth` transfers in flight, as far as there are threads for that.
    pub(crate) fn set_depth(&self, depth: usize) {
        let joiners_max = depth.saturating_sub(1).min(self.threads.len());
        self.shared.joiners_max.store(joiners_max as u32, Ordering::Relaxed);
        self.shared.in_flight_max.store(0, Ordering::Relaxed);
    }

    /// Transfers that a shared batch has in flight at most.
    pub(crate) fn depth(&self) -> usize {
        self.shared.joiners_max.load(Ordering::Relaxed) as usize + 1
    }

    /// The most transfers that a shared batch ever had in flight.
    pub(crate) fn in_flight_max(&self) -> usize {
        self.shared.in_flight_max.load(Ordering::Relaxed)
    }

    /// Does all unfinished requests; `false` if none was begun, because the threads are at another batch or the parent's.
    pub(crate) fn run<T: Transfer>(&self, file: &File, block_bytes: usize, requests: &mut [T]) -> bool {
        let shared = &*self.shared;
        if std::process::id() != self.owner_pid || !shared.take() {
            return false;
        }
        let len = requests.len();
        let requests = requests.as_mut_ptr().cast();
        let batch =
            Batch { file, block_bytes, requests, len, next: AtomicUsize::new(0), finish: finish::<T> };
        let opened = shared.open(&batch);
        batch.work(shared);
        drop(opened);
        true
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        if std::process::id() != self.owner_pid {
            return;
        }
        self.shared.is_ending.store(true, Ordering::Release);
        self.shared.ring(u32::MAX);
        for thread in self.threads.drain(..) {
            thread.join();
        }
    }
}

impl Shared {
    /// What a thread does until the end.
    fn serve(&self) {
        loop {
            let rung = self.bell.load(Ordering::Acquire);
            if self.is_ending.load(Ordering::Acquire) {
                return;
            }
            if self.join() {
                // SAFETY: the batch lives until its caller has closed it and all that joined have left.
                let batch = unsafe { &*self.batch.load(Ordering::Relaxed) };
                batch.work(self);
                self.leave();
            }
            // Interrupted or rung meanwhile: the loop looks again.
            let _ = futex::wait(&self.bell, rung, None);
        }
    }

    fn ring(&self, count: u32) {
        self.bell.fetch_add(1, Ordering::Release);
        futex::wake(&self.bell, count);
    }

    fn take(&self) -> bool {
        self.state.compare_exchange(0, TAKEN, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Lets threads join. The caller has taken the pool; the batch is closed when what is returned is dropped, which waits.
    fn open<'a>(&'a self, batch: &'a Batch<'_>) -> Opened<'a> {
        self.batch.store(std::ptr::from_ref(batch).cast_mut().cast(), Ordering::Relaxed);
        self.state.store(TAKEN | OPEN, Ordering::Release);
        let opened = Opened(self);
        let joiners = self.joiners_max.load(Ordering::Relaxed).min(batch.len.saturating_sub(1) as u32);
        if joiners > 0 {
            self.ring(joiners);
        }
        opened
    }

    fn join(&self) -> bool {
        let joined = |state| {
            let is_possible =
                state & OPEN != 0 && state & !(TAKEN | OPEN) < self.joiners_max.load(Ordering::Relaxed);
            is_possible.then_some(state + 1)
        };
        self.state.fetch_update(Ordering::Acquire, Ordering::Relaxed, joined).is_ok()
    }

    fn leave(&self) {
        if self.state.fetch_sub(1, Ordering::Release) == TAKEN + 1 {
            // It was the last, and the caller waits for it.
            futex::wake(&self.state, 1);
        }
    }
}

/// A batch that threads may join.
struct Opened<'a>(&'a Shared);

impl Drop for Opened<'_> {
    fn drop(&mut self) {
        let state = &self.0.state;
        let mut seen = state.fetch_and(!OPEN, Ordering::Acquire) & !OPEN;
        while seen != TAKEN {
            // Interrupted or changed meanwhile: the loop looks again.
            let _ = futex::wait(state, seen, None);
            seen = state.load(Ordering::Acquire);
        }
        state.store(0, Ordering::Release);
    }
}

impl Batch<'_> {
    /// Does transfers until none is left to take.
    fn work(&self, shared: &Shared) {
        loop {
            let index = self.next.fetch_add(1, Ordering::Relaxed);
            if index >= self.len {
                return;
            }
            // SAFETY: the index is in bounds and was taken once; `run` chose the function for the type of the requests.
            unsafe { (self.finish)(self, index, shared) };
        }
    }
}

/// Does a request of the batch, unless it is done.
///
/// # Safety
/// The requests are of type `T`, `index` is one of them, and nobody else has that.
unsafe fn finish<T: Transfer>(batch: &Batch<'_>, index: usize, shared: &Shared) {
    // SAFETY: the caller says so, and who borrowed all of them waits for the batch.
    let request = unsafe { &mut *batch.requests.cast::<T>().add(index) };
    let Some(done) = request.unfinished() else { return };
    let in_flight = shared.in_flight.fetch_add(1, Ordering::Relaxed) + 1;
    shared.in_flight_max.fetch_max(in_flight, Ordering::Relaxed);
    request.finish(batch.file, done, batch.block_bytes);
    shared.in_flight.fetch_sub(1, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{ReadRequest, WriteRequest};
    use crate::error::{DeviceError, Operation};
    use std::os::unix::fs::FileExt;
    use std::sync::Barrier;

    const BLOCK_BYTES: usize = 512;
    const COUNT: usize = 300;

    /// A file whose every block holds its number.
    fn numbered() -> File {
        let file = tempfile::tempfile().unwrap();
        (0..COUNT).for_each(|at| file.write_all_at(&block(at), (at * BLOCK_BYTES) as u64).unwrap());
        file
    }

    fn block(number: usize) -> [u8; BLOCK_BYTES] {
        let mut block = [number as u8; BLOCK_BYTES];
        block[..8].copy_from_slice(&number.to_le_bytes());
        block
    }

    /// Reads of all blocks, backwards, that nobody has begun.
    fn reads(memory: &mut [[u8; BLOCK_BYTES]]) -> Vec<ReadRequest<'_>> {
        let offsets = (0..memory.len() as u64).rev().map(|at| at * BLOCK_BYTES as u64);
        let mut reads: Vec<_> =
            offsets.zip(memory).map(|(offset, buf)| ReadRequest::new(offset, buf)).collect();
        reads.iter_mut().for_each(|read| read.set_unfinished(0));
        reads
    }

    fn are_right(memory: &[[u8; BLOCK_BYTES]]) -> bool {
        memory.iter().rev().enumerate().all(|(number, bytes)| *bytes == block(number))
    }

    /// As [`Transfer`] says; counts how often it is done, for long enough that others come along.
    struct Counted<'a> {
        inner: ReadRequest<'a>,
        times: usize,
        threads: &'a std::sync::Mutex<std::collections::HashSet<u32>>,
    }

    impl Transfer for Counted<'_> {
        const OPERATION: Operation = Operation::Read;

        fn offset(&self) -> u64 {
            self.inner.offset()
        }

        fn memory(&self) -> &[u8] {
            self.inner.memory()
        }

        fn result(&self) -> Result<(), DeviceError> {
            self.inner.result()
        }

        fn set_result(&mut self, result: Result<(), DeviceError>) {
            self.inner.set_result(result);
        }

        fn finish(&mut self, file: &File, done: usize, block_bytes: usize) {
            self.times += 1;
            self.threads.lock().unwrap().insert(aquifer_sys::process::thread_id());
            std::thread::sleep(std::time::Duration::from_micros(300));
            self.inner.finish(file, done, block_bytes);
        }

        fn address(&mut self) -> *mut u8 {
            self.inner.address()
        }
    }

    #[test]
    fn each_transfer_is_done_once_by_as_many_threads_as_are_allowed() {
        let (file, workers) = (numbered(), Workers::start().unwrap());
        assert_eq!(workers.depth(), THREADS + 1);
        for (asked, depth) in [(1000, THREADS + 1), (3, 3), (1, 1), (0, 1)] {
            workers.set_depth(asked);
            assert_eq!(workers.depth(), depth);
            let mut memory = vec![[0xFF; BLOCK_BYTES]; COUNT];
            let threads = std::sync::Mutex::default();
            let counted = |inner| Counted { inner, times: 0, threads: &threads };
            let mut requests: Vec<_> = reads(&mut memory).into_iter().map(counted).collect();
            requests[7].set_result(Ok(()));
            assert!(workers.run(&file, BLOCK_BYTES, &mut requests));
            let times = |at| usize::from(at != 7);
            assert!((0..COUNT).all(|at| requests[at].times == times(at) && requests[at].result() == Ok(())));
            drop(requests);
            assert_eq!(memory[7], [0xFF; BLOCK_BYTES], "it was done before");
            memory[7] = block(COUNT - 1 - 7);
            assert!(are_right(&memory));
            let least = depth.min(2);
            assert!((least..=depth).contains(&workers.in_flight_max()));
            assert!((least..=depth).contains(&threads.into_inner().unwrap().len()));
        }
    }

    #[test]
    fn what_fails_is_told_of_that_transfer() {
        let (file, workers) = (numbered(), Workers::start().unwrap());
        let mut memory = vec![[0; BLOCK_BYTES]; COUNT];
        let mut requests = reads(&mut memory);
        let end = (COUNT * BLOCK_BYTES) as u64;
        requests[3].offset = end;
        requests[200].offset = u64::MAX / 2 + 1;
        assert!(workers.run(&file, BLOCK_BYTES, &mut requests));
        let short = DeviceError::ShortTransfer {
            operation: Operation::Read,
            offset: end,
            wanted: BLOCK_BYTES,
            got: 0,
        };
        assert_eq!(requests[3].result, Err(short));
        assert!(matches!(requests[200].result, Err(DeviceError::Io { errno: libc::EINVAL, .. })));
        let failed = requests.iter().filter(|request| request.result.is_err()).count();
        assert_eq!(failed, 2);
    }

    #[test]
    fn several_callers_have_their_own_bytes() {
        let (file, workers) = (numbered(), Workers::start().unwrap());
        let (callers, rounds) = (4, 100);
        let (begin, shared) = (Barrier::new(callers), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..callers {
                scope.spawn(|| {
                    begin.wait();
                    for _ in 0..rounds {
                        let mut memory = vec![[0; BLOCK_BYTES]; COUNT];
                        let mut requests = reads(&mut memory);
                        if workers.run(&file, BLOCK_BYTES, &mut requests) {
                            assert!(requests.iter().all(|request| request.result.is_ok()));
                            assert!(are_right(&memory));
                            shared.fetch_add(1, Ordering::Relaxed);
                        } else {
                            assert!(requests.iter().all(|request| request.unfinished() == Some(0)));
                        }
                    }
                });
            }
        });
        // The first has nobody in its way; how often others are depends on who has a processor.
        assert!((1..=callers * rounds).contains(&shared.into_inner()));
        assert_eq!(workers.shared.state.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn writes_reach_the_file() {
        let (file, workers) = (tempfile::tempfile().unwrap(), Workers::start().unwrap());
        let written: Vec<_> = (0..COUNT).map(block).collect();
        let mut writes: Vec<_> =
            (0..).zip(&written).map(|(at, buf)| WriteRequest::new(at * BLOCK_BYTES as u64, buf)).collect();
        writes.iter_mut().for_each(|write| write.set_unfinished(0));
        assert!(workers.run(&file, BLOCK_BYTES, &mut writes));
        assert!(writes.iter().all(|write| write.result.is_ok()));
        let mut memory = vec![[0; BLOCK_BYTES]; COUNT];
        assert!(workers.run(&file, BLOCK_BYTES, &mut reads(&mut memory)));
        assert!(are_right(&memory));
    }

    #[test]
    fn a_forked_child_has_no_threads_and_does_not_wait_for_them() {
        let (file, workers) = (numbered(), Workers::start().unwrap());
        let mut memory = vec![[0; BLOCK_BYTES]; COUNT];
        let mut requests = reads(&mut memory);
        // SAFETY: the child allocates nothing, and ends without unwinding.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let is_shared = workers.run(&file, BLOCK_BYTES, &mut requests);
            let is_untouched = requests.iter().all(|request| request.unfinished() == Some(0));
            // SAFETY: leaves without running anything of the parent's.
            unsafe { libc::_exit(i32::from(is_shared || !is_untouched)) };
        }
        let mut status = 0;
        // SAFETY: waits for the child from above; `status` is an int.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "status {status:#x}");
        assert!(workers.run(&file, BLOCK_BYTES, &mut requests), "the parent's threads still work");
        drop(requests);
        assert!(are_right(&memory));
    }

    /// Other tests have workers too, so it looks at its own: they are the only ones that wait for this bell.
    #[test]
    fn the_end_waits_for_the_threads() {
        let workers = Workers::start().unwrap();
        let shared = Arc::clone(&workers.shared);
        assert_eq!((workers.threads.len(), Arc::strong_count(&shared)), (THREADS, THREADS + 2));
        drop(workers);
        assert_eq!(Arc::strong_count(&shared), 1);
    }
}
