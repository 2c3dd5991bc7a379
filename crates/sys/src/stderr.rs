//! Lines on standard error.
//!
//! A program may close it, and the next file that it opens gets the number: a line would then be in the program's data, or in its talk with another
//! one. So standard error is what it was when it was noted, and beside that a file that is appended to, as logs are.

use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};

use crate::descriptors;
use crate::errno::Errno;

/// Nothing is kept.
const NONE: i32 = -1;

static IS_NOTED: AtomicBool = AtomicBool::new(false);
/// Device and inode of what it was.
static NOTED: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];
/// The process that noted it, or its forked child.
static PROCESS: AtomicI32 = AtomicI32::new(0);
/// Another number for it.
static KEPT: AtomicI32 = AtomicI32::new(NONE);

/// What has the number now is standard error. Signal-safe.
pub fn note() {
    let [device, inode] = status().map_or([0; 2], |status| identity(&status));
    NOTED[0].store(device, Ordering::Relaxed);
    NOTED[1].store(inode, Ordering::Relaxed);
    own_process();
    IS_NOTED.store(true, Ordering::Release);
}

/// As [`note`], by a process that has given the number to something else. Not by a child that shares its parent's memory until it is another
/// program (`vfork`): the parent's standard error stays what it is. Signal-safe.
pub fn note_change() {
    // SAFETY: no arguments.
    if PROCESS.load(Ordering::Relaxed) == unsafe { libc::getpid() } {
        note();
    }
}

/// In a forked child: what it knows is its own from now on. Signal-safe.
pub fn own_process() {
    // SAFETY: no arguments.
    PROCESS.store(unsafe { libc::getpid() }, Ordering::Relaxed);
}

/// As [`note`], unless that was done.
pub fn note_once() {
    if !IS_NOTED.load(Ordering::Acquire) {
        note();
    }
}

/// Keeps it open by another number, for lines that are written after the program has closed it. Its reader sees no end before the process
/// ends.
pub fn keep() {
    if KEPT.load(Ordering::Relaxed) == NONE && is_itself() {
        // SAFETY: plain numbers.
        let copy = unsafe { libc::syscall(libc::SYS_fcntl, libc::STDERR_FILENO, libc::F_DUPFD_CLOEXEC, 3) };
        if copy >= 0 {
            KEPT.store(descriptors::own(copy as i32), Ordering::Relaxed);
        }
    }
}

/// Writes `bytes` as they are; what cannot be written is dropped.
///
/// # Context
/// May block if standard error is a full pipe. Signal-safe.
pub fn write(bytes: &[u8]) {
    let number = if is_itself() { libc::STDERR_FILENO } else { KEPT.load(Ordering::Relaxed) };
    let mut rest = bytes;
    while number != NONE && !rest.is_empty() {
        // SAFETY: the kernel reads at most `rest.len()` bytes of `rest`.
        let returned = unsafe { libc::write(number, rest.as_ptr().cast(), rest.len()) };
        match Errno::check(returned as i64) {
            Ok(0) => return,
            Ok(written) => rest = &rest[written..],
            Err(Errno::EINTR) => {}
            Err(_) => return,
        }
    }
}

/// Whether the number is still that of standard error.
fn is_itself() -> bool {
    let Some(status) = status() else { return false };
    let noted = [NOTED[0].load(Ordering::Relaxed), NOTED[1].load(Ordering::Relaxed)];
    if !IS_NOTED.load(Ordering::Acquire) || identity(&status) == noted {
        return true;
    }
    // SAFETY: plain numbers.
    let flags = unsafe { libc::syscall(libc::SYS_fcntl, libc::STDERR_FILENO, libc::F_GETFL) } as i32;
    status.st_mode & libc::S_IFMT == libc::S_IFREG && flags >= 0 && flags & libc::O_APPEND != 0
}

fn status() -> Option<libc::stat> {
    let mut status = MaybeUninit::uninit();
    // SAFETY: the kernel writes a structure of that type.
    let outcome = unsafe { libc::fstat(libc::STDERR_FILENO, status.as_mut_ptr()) };
    // SAFETY: it was written.
    (outcome == 0).then(|| unsafe { status.assume_init() })
}

fn identity(status: &libc::stat) -> [u64; 2] {
    [status.st_dev, status.st_ino]
}
