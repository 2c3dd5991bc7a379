//! Batches through io_uring: one system call starts and awaits as many transfers as the ring is deep.

use std::ffi::c_void;
use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, IntoRawFd};
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use io_uring::{IoUring, opcode, squeue, types};

use aquifer_sys::{Errno, descriptors};

use crate::batch::Transfer;
use crate::error::Operation;
use crate::file::own;
use crate::positional;

/// Transfers that one ring has in flight unless another depth is asked for. Flash reaches its full speed well below this.
pub(crate) const DEPTH_DEFAULT: usize = 128;

/// Rings per device; a batch that finds all of them taken waits for one. More would only share the same
/// hardware.
const RINGS_MAX: usize = 4;

/// The rings of one device. The first is made with the device, the others when batches overlap.
pub(crate) struct RingPool {
    rings: Mutex<Rings>,
    returned: Condvar,
    /// Transfers that one ring has in flight at most.
    depth: usize,
    /// The most that one ring ever had.
    in_flight_max: AtomicUsize,
    /// A forked child shares the rings' memory with its parent, so it must leave them alone.
    owner_pid: u32,
}

struct Rings {
    idle: Vec<Ring>,
    /// Rings that exist, idle or taken.
    count: usize,
}

impl RingPool {
    /// A pool with one ring; each has up to `depth` transfers in flight.
    ///
    /// # Errors
    /// What `io_uring_setup` says: ENOSYS or EPERM where the system or a seccomp filter refuses rings.
    pub(crate) fn new(depth: usize) -> io::Result<Self> {
        let rings = Rings { idle: vec![Ring::new(depth)?], count: 1 };
        Ok(RingPool {
            rings: Mutex::new(rings),
            returned: Condvar::new(),
            depth,
            in_flight_max: AtomicUsize::new(0),
            owner_pid: std::process::id(),
        })
    }

    /// Transfers that one ring has in flight at most.
    pub(crate) fn depth(&self) -> usize {
        self.depth
    }

    /// The most that one ring ever had in flight.
    pub(crate) fn in_flight_max(&self) -> usize {
        self.in_flight_max.load(Ordering::Relaxed)
    }

    /// Does what it can of the unfinished requests, and returns when none of them is in flight any more.
    pub(crate) fn run<T: Transfer>(&self, file: &File, block_bytes: usize, requests: &mut [T]) {
        let Some(mut ring) = self.take() else { return };
        let outcome = self.drive(&mut ring.0, file, block_bytes, requests);
        // A ring that failed still holds entries of this batch and must not be used again.
        self.give_back(outcome.is_ok().then_some(ring));
    }

    /// Keeps the ring full until every unfinished request has been through it once.
    ///
    /// # Errors
    /// When the ring stops working. Nothing is in flight then either, and what was not done is still unfinished.
    fn drive<T: Transfer>(
        &self,
        ring: &mut IoUring,
        file: &File,
        block_bytes: usize,
        requests: &mut [T],
    ) -> io::Result<()> {
        let mut next = 0;
        let mut pending = 0;
        loop {
            while pending < self.depth && next < requests.len() {
                pending += usize::from(push(ring, file, next, &mut requests[next]));
                next += 1;
            }
            if pending == 0 {
                return Ok(());
            }
            self.in_flight_max.fetch_max(pending, Ordering::Relaxed);
            // While more wait outside, come back as soon as a quarter of the places is free.
            let wanted = if next == requests.len() { pending } else { (pending / 4).max(1) };
            if let Err(error) = enter(ring, wanted, pending) {
                drain(ring, block_bytes, requests, pending);
                return Err(error);
            }
            pending -= reap(ring, block_bytes, requests);
        }
    }

    /// An idle ring, or `None` when the system has become unwilling to make one.
    fn take(&self) -> Option<Ring> {
        if std::process::id() != self.owner_pid {
            return None;
        }
        let mut rings = self.lock();
        loop {
            if let Some(ring) = rings.idle.pop() {
                return Some(ring);
            }
            if rings.count < RINGS_MAX {
                if let Ok(ring) = Ring::new(self.depth) {
                    rings.count += 1;
                    return Some(ring);
                }
                if rings.count == 0 {
                    return None;
                }
            }
            rings = self.returned.wait(rings).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn give_back(&self, ring: Option<Ring>) {
        let mut rings = self.lock();
        match ring {
            Some(ring) => rings.idle.push(ring),
            None => rings.count -= 1,
        }
        drop(rings);
        self.returned.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, Rings> {
        self.rings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for RingPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RingPool").field("count", &self.lock().count).finish_non_exhaustive()
    }
}

/// A ring whose completions wait for the thread that collects them instead of interrupting it.
struct Ring(IoUring);

impl Ring {
    fn new(depth: usize) -> io::Result<Self> {
        let made: IoUring = IoUring::builder().setup_coop_taskrun().build(depth as u32)?;
        // SAFETY: the ring is open until the end of this function.
        let fd = own(unsafe { BorrowedFd::borrow_raw(made.as_raw_fd()) }.try_clone_to_owned()?);
        // SAFETY: another descriptor of the same ring, which nobody has used.
        unsafe { IoUring::from_fd(fd.into_raw_fd(), made.params().clone()) }.map(Self)
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        descriptors::forget(self.0.as_raw_fd());
    }
}

/// Whether this system or a seccomp filter refuses rings to this process, which costs less to ask than [`try_ring`].
pub(crate) fn is_refused() -> bool {
    let nowhere = ptr::null_mut::<c_void>();
    // SAFETY: no ring is made without an address for its parameters.
    let answer = unsafe { libc::syscall(libc::SYS_io_uring_setup, 1, nowhere) };
    answer < 0 && Errno::last() != Errno::EFAULT
}

/// Whether the system gives this process a ring. Without one, the system calls of a batch are shared by threads.
///
/// # Errors
/// What `io_uring_setup` says: ENOSYS or EPERM where the system or a seccomp filter refuses rings.
pub fn try_ring() -> io::Result<()> {
    Ring::new(1).map(drop)
}

/// Puts request number `index` in the submission queue; false when it is finished or does not fit an entry.
fn push<T: Transfer>(ring: &mut IoUring, file: &File, index: usize, request: &mut T) -> bool {
    let Some(done) = request.unfinished() else { return false };
    let Ok(len_bytes) = u32::try_from(request.memory().len()) else { return false };
    debug_assert_eq!(done, 0, "a request goes through the ring once");
    let (offset, address, fd) = (request.offset(), request.address(), types::Fd(file.as_raw_fd()));
    let entry: squeue::Entry = match T::OPERATION {
        Operation::Write => opcode::Write::new(fd, address, len_bytes).offset(offset).build(),
        _ => opcode::Read::new(fd, address, len_bytes).offset(offset).build(),
    };
    // SAFETY: the memory is borrowed by the request, and `drive` returns only when no entry is in flight; the
    // file is borrowed for as long.
    unsafe { ring.submission().push(&entry.user_data(index as u64)) }.is_ok()
}

/// Submits what is queued and waits for `wanted` completions, or fewer when a signal comes.
fn enter(ring: &mut IoUring, wanted: usize, pending: usize) -> io::Result<()> {
    match ring.submit_and_wait(wanted) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
        // The kernel is short of memory or of completion entries: what is in flight will free some.
        Err(error)
            if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EBUSY))
                && pending > ring.submission().len() =>
        {
            Ok(())
        }
        Err(error) => Err(error),
    }
}

/// Takes all completions that are there and notes their outcomes; returns how many.
fn reap<T: Transfer>(ring: &mut IoUring, block_bytes: usize, requests: &mut [T]) -> usize {
    let mut reaped = 0;
    for completion in ring.completion() {
        note(&mut requests[completion.user_data() as usize], completion.result(), block_bytes);
        reaped += 1;
    }
    reaped
}

/// Notes what the kernel said. Whatever can be tried again stays unfinished.
fn note<T: Transfer>(request: &mut T, outcome: i32, block_bytes: usize) {
    let len_bytes = request.memory().len();
    match usize::try_from(outcome) {
        Ok(moved) if moved == len_bytes => request.set_result(Ok(())),
        Ok(moved) => request.set_unfinished(moved / block_bytes * block_bytes),
        Err(_) if matches!(-outcome, libc::EINTR | libc::EAGAIN) => {}
        Err(_) => {
            let error = positional::failure(T::OPERATION, request.offset(), len_bytes, -outcome);
            request.set_result(Err(error));
        }
    }
}

/// Waits without the ring's help until the kernel has let go of all memory of this batch. Entries that it
/// never took from the submission queue do not count.
fn drain<T: Transfer>(ring: &mut IoUring, block_bytes: usize, requests: &mut [T], pending: usize) {
    let mut in_flight = pending - ring.submission().len();
    while in_flight > 0 {
        in_flight -= reap(ring, block_bytes, requests);
        std::thread::yield_now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{ReadRequest, WriteRequest};
    use crate::error::DeviceError;

    #[test]
    fn what_can_be_tried_again_stays_unfinished() {
        let mut memory = [0; 2048];
        let mut request = ReadRequest::new(0, &mut memory);
        request.set_unfinished(0);
        for (outcome, done) in [(-libc::EINTR, 0), (-libc::EAGAIN, 0), (0, 0), (1024, 1024), (1500, 1024)] {
            note(&mut request, outcome, 512);
            assert_eq!(request.unfinished(), Some(done), "{outcome}");
        }
        note(&mut request, 2048, 512);
        assert_eq!(request.result, Ok(()));
    }

    #[test]
    fn errors_keep_their_number() {
        let memory = [0; 512];
        let mut request = WriteRequest::new(512, &memory);
        note(&mut request, -libc::EIO, 512);
        let expected =
            DeviceError::Io { operation: Operation::Write, offset: 512, len_bytes: 512, errno: libc::EIO };
        assert_eq!(request.result, Err(expected));
        note(&mut request, -libc::ENOSPC, 512);
        assert_eq!(request.result, Err(DeviceError::Full { offset: 512, len_bytes: 512 }));
    }

    /// Without the loop that finishes what a ring leaves undone.
    #[test]
    fn a_ring_alone_does_a_batch_longer_than_itself() {
        let Ok(pool) = RingPool::new(DEPTH_DEFAULT) else {
            println!("SKIPPED a_ring_alone_does_a_batch_longer_than_itself: this system refuses io_uring");
            return;
        };
        let file = tempfile::tempfile().unwrap();
        let count = 3 * DEPTH_DEFAULT + 1;
        let written: Vec<_> = (0..count).map(|index| [index as u8; 512]).collect();
        let mut writes: Vec<_> =
            written.iter().zip(0..).map(|(buf, index)| WriteRequest::new(index * 512, buf)).collect();
        writes.iter_mut().for_each(|request| request.set_unfinished(0));
        writes[7].result = Ok(());
        pool.run(&file, 512, &mut writes);
        assert!(writes.iter().all(|request| request.result.is_ok()));
        let mut memory = vec![[0xFF; 512]; count];
        let mut reads: Vec<_> =
            memory.iter_mut().zip(0..).map(|(buf, index)| ReadRequest::new(index * 512, buf)).collect();
        reads.iter_mut().for_each(|request| request.set_unfinished(0));
        pool.run(&file, 512, &mut reads);
        assert!(reads.iter().all(|request| request.result.is_ok()));
        let holes = |index: usize| if index == 7 { [0; 512] } else { written[index] };
        assert!((0..count).all(|index| memory[index] == holes(index)), "what was finished is not written");
    }

    #[test]
    fn rings_are_refused_where_none_can_be_made() {
        match try_ring() {
            Ok(()) => assert!(!is_refused()),
            Err(error) => assert!(is_refused() || error.kind() == io::ErrorKind::OutOfMemory, "{error}"),
        }
    }

    #[test]
    fn a_forked_child_gets_no_ring() {
        let Ok(mut pool) = RingPool::new(DEPTH_DEFAULT) else {
            println!("SKIPPED a_forked_child_gets_no_ring: this system refuses io_uring");
            return;
        };
        pool.owner_pid = 0;
        assert!(pool.take().is_none());
    }

    #[test]
    fn a_failed_ring_is_replaced() {
        let Ok(pool) = RingPool::new(DEPTH_DEFAULT) else {
            println!("SKIPPED a_failed_ring_is_replaced: this system refuses io_uring");
            return;
        };
        let ring = pool.take();
        assert!(ring.is_some());
        pool.give_back(None);
        assert_eq!(pool.lock().count, 0);
        assert!(pool.take().is_some());
    }
}
