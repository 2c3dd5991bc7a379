//! Where the program's code is: the executable lines of `/proc/self/maps`.
//!
//! They are noted with the first sample, then with samples that come a while later if they have changed, and when the
//! program ends. So they are known however it ends, and what was loaded late is not forgotten.

use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use crate::profile::reservoir::Reservoir;

/// Time between two looks at least.
const PERIOD: Duration = Duration::from_millis(100);
/// Looks take one part in this many of the time at most.
const SHARE: u64 = 100;
/// Digits of a process's number, and the blank behind.
const PREFIX_BYTES: usize = 11;
/// Bytes of the buffer for lines.
const BUFFER_BYTES: usize = 4096;

/// What was noted last.
pub struct Modules {
    /// A thread is looking.
    busy: AtomicBool,
    /// The process that has noted: after a fork it is another.
    process: AtomicU32,
    /// When the next look is due.
    due_ns: AtomicU64,
    /// Of the lines.
    hash: AtomicU64,
}

impl Modules {
    /// Nothing was noted.
    pub const fn new() -> Self {
        Self {
            busy: AtomicBool::new(false),
            process: AtomicU32::new(0),
            due_ns: AtomicU64::new(0),
            hash: AtomicU64::new(0),
        }
    }

    /// Notes the modules of this process if they may have changed, or with `now` in any case.
    pub fn note_in_fault(&self, reservoir: &Reservoir, process: u32, now: bool) {
        let began = monotonic_ns();
        let is_due = now
            || self.process.load(Ordering::Relaxed) != process
            || began >= self.due_ns.load(Ordering::Relaxed);
        // Left busy by a thread that was looking when another one forked, it stays so in the child.
        if !is_due || self.busy.swap(true, Ordering::Acquire) {
            return;
        }
        let (bytes, hash) = measure(process);
        let is_new = self.process.swap(process, Ordering::Relaxed) != process
            || self.hash.load(Ordering::Relaxed) != hash;
        if is_new && let Some(room) = reservoir.module_room_in_fault(bytes) {
            write(process, room, bytes);
        }
        self.hash.store(hash, Ordering::Relaxed);
        let ended = monotonic_ns();
        let pause = (PERIOD.as_nanos() as u64).max(ended.saturating_sub(began) * SHARE);
        self.due_ns.store(ended + pause, Ordering::Relaxed);
        self.busy.store(false, Ordering::Release);
    }
}

/// Length and hash of the lines.
fn measure(process: u32) -> (usize, u64) {
    let (mut bytes, mut hash) = (0, 0xCBF2_9CE4_8422_2325);
    for_each_executable_in_fault(process, &mut |part| {
        bytes += part.len();
        // FNV-1a.
        hash = part.iter().fold(hash, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01B3));
    });
    (bytes, hash)
}

/// Writes the lines to `room`, which has as many `bytes`.
fn write(process: u32, room: *mut u8, bytes: usize) {
    let mut at = 0;
    for_each_executable_in_fault(process, &mut |part| {
        let len = part.len().min(bytes - at);
        // SAFETY: the room has that many bytes behind `at`, and was reserved for this.
        unsafe { std::ptr::copy_nonoverlapping(part.as_ptr(), room.add(at), len) };
        at += len;
    });
}

/// Calls `each` with the parts of each line in turn: the process, the line, its end.
fn for_each_executable_in_fault(process: u32, each: &mut dyn FnMut(&[u8])) {
    let mut digits = [b' '; PREFIX_BYTES];
    let (mut at, mut rest) = (PREFIX_BYTES - 1, process);
    while at > 0 {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    for_each_line_in_fault(c"/proc/self/maps", &mut |line| {
        if is_executable(line) {
            each(&digits[at..]);
            each(line);
            each(b"\n");
        }
    });
}

/// Whether the line is as in `55d0-55d1 r-xp 0000 ...`.
fn is_executable(line: &[u8]) -> bool {
    let access = line.iter().position(|&byte| byte == b' ').and_then(|at| line.get(at + 1..));
    access.and_then(|access| access.get(2)) == Some(&b'x')
}

fn monotonic_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the time is on this stack.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Calls `each` with every line of the kernel's file at `path`, without its end. Lines that are longer than any path are left out.
fn for_each_line_in_fault(path: &CStr, each: &mut dyn FnMut(&[u8])) {
    let flags = libc::O_RDONLY | libc::O_CLOEXEC;
    // SAFETY: the path ends with a zero byte.
    let fd = unsafe { libc::syscall(libc::SYS_openat, libc::AT_FDCWD, path.as_ptr(), flags) };
    if fd < 0 {
        return;
    }
    let mut buffer = [0; BUFFER_BYTES];
    let mut filled = 0;
    loop {
        let room = &mut buffer[filled..];
        // SAFETY: the kernel writes at most as many bytes as there is room for.
        let got = unsafe { libc::syscall(libc::SYS_read, fd, room.as_mut_ptr(), room.len()) };
        let Some(got) = usize::try_from(got).ok().filter(|got| *got > 0) else { break };
        filled += got;
        let mut rest = &buffer[..filled];
        while let Some(end) = rest.iter().position(|&byte| byte == b'\n') {
            each(&rest[..end]);
            rest = &rest[end + 1..];
        }
        let left = rest.len();
        buffer.copy_within(filled - left..filled, 0);
        // A line that fills the buffer would leave no room to read.
        filled = if left < BUFFER_BYTES { left } else { 0 };
    }
    // SAFETY: opened above, and used nowhere else.
    unsafe { libc::syscall(libc::SYS_close, fd) };
}
