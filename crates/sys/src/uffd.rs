//! userfaultfd: page faults resolved by the program itself.
//!
//! A registered page that is absent does not become a page of zeros when it is touched. With
//! [`Features::SIGBUS`] the toucher gets a signal and resolves the fault in its handler; without it
//! the toucher sleeps and a handler thread reads an [`Event`]. Both resolve it by
//! [`Userfaultfd::copy`] and its siblings. Write protection works the same way.
//!
//! Ranges begin and end on OS-page boundaries everywhere.

mod abi;
mod event;
mod features;

pub use event::{Event, Ready};
pub use features::Features;

use core::ffi::{c_int, c_ulong};
use core::ptr;

use crate::descriptors;
use crate::errno::{Errno, Result};
use crate::spin::yield_processor;

/// A descriptor through which page faults of registered ranges are resolved. Closed on drop, which
/// also unregisters its ranges.
///
/// A forked child inherits the descriptor, but it keeps acting on the parent's memory; the child's
/// copies of the ranges are registered nowhere and read as zeros unless `MADV_DONTFORK` keeps them
/// out. Closed on exec.
#[derive(Debug)]
pub struct Userfaultfd {
    fd: c_int,
    /// Whether the ranges are those of another process, which may keep calls on them from ever being done.
    is_of_other: bool,
}

impl Userfaultfd {
    /// Opens a descriptor for faults in user mode, which needs no privilege: a system call that
    /// touches an absent page fails with `EFAULT`.
    ///
    /// # Errors
    /// `ENOSYS` or `EPERM` if userfaultfd is missing or forbidden, `EINVAL` if the kernel lacks one
    /// of the `wanted` features.
    ///
    /// # Context
    /// Signal-safe.
    pub fn open(wanted: Features) -> Result<Userfaultfd> {
        Userfaultfd::new(abi::USER_MODE_ONLY)?.with_features(wanted)
    }

    /// Opens a descriptor that handles faults inside system calls as well. Needs
    /// `vm.unprivileged_userfaultfd=1`, `CAP_SYS_PTRACE` or access to `/dev/userfaultfd`.
    ///
    /// # Errors
    /// As [`Userfaultfd::open`]; `EPERM` or `EACCES` without the privilege.
    pub fn open_full(wanted: Features) -> Result<Userfaultfd> {
        Userfaultfd::new(0)?.with_features(wanted)
    }

    /// The features this kernel has.
    ///
    /// # Errors
    /// `ENOSYS` or `EPERM` if userfaultfd is missing or forbidden.
    pub fn supported() -> Result<Features> {
        Userfaultfd::new(abi::USER_MODE_ONLY)?.shake_hands(Features::NONE)
    }

    /// The descriptor, for `poll` or for passing it on; it stays owned by this value.
    pub fn raw_fd(&self) -> c_int {
        self.fd
    }

    /// Makes this value, which a forked child inherited and which acts on its parent's memory, the child's own: what was
    /// registered in the parent can be registered anew.
    ///
    /// # Errors
    /// As [`Userfaultfd::open`].
    ///
    /// # Context
    /// Signal-safe.
    pub fn renew_in_child(&self, wanted: Features) -> Result<()> {
        let own = Userfaultfd::open(wanted)?;
        // SAFETY: both descriptors are ours; the inherited one is closed in this process only. The system call itself: a
        // program's own `dup3` may be one that spares our descriptors.
        let returned = unsafe { libc::syscall(libc::SYS_dup3, own.fd, self.fd, libc::O_CLOEXEC) };
        Errno::check(returned).map(drop)
    }

    /// By the system call, or by the device where that is refused: profiles of containers refuse the call, which knows no rights, and leave the
    /// device to whom it was given. The error is that of the call.
    fn new(mode: c_int) -> Result<Userfaultfd> {
        Userfaultfd::from_syscall(mode).or_else(|error| Userfaultfd::from_device(mode).map_err(|_| error))
    }

    fn from_syscall(mode: c_int) -> Result<Userfaultfd> {
        // SAFETY: plain numbers.
        let returned = unsafe { libc::syscall(libc::SYS_userfaultfd, OPEN_FLAGS | mode) };
        Errno::check(returned).map(|fd| Userfaultfd::own(fd as c_int))
    }

    fn own(fd: c_int) -> Userfaultfd {
        Userfaultfd { fd: descriptors::own(fd), is_of_other: false }
    }

    fn from_device(mode: c_int) -> Result<Userfaultfd> {
        let (path, flags) = (c"/dev/userfaultfd".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC);
        // SAFETY: the path is a NUL-terminated literal. The system calls themselves: a program may have functions of its own of these names.
        let device = unsafe { libc::syscall(libc::SYS_openat, libc::AT_FDCWD, path, flags) };
        let device = Errno::check(device)? as c_int;
        // SAFETY: the argument of this request is a number.
        let returned = unsafe {
            libc::syscall(libc::SYS_ioctl, device, abi::IOC_NEW as c_ulong, (OPEN_FLAGS | mode) as c_ulong)
        };
        let outcome = Errno::check(returned).map(|fd| Userfaultfd::own(fd as c_int));
        // SAFETY: opened above and used nowhere else.
        unsafe { libc::syscall(libc::SYS_close, device) };
        outcome
    }

    fn with_features(self, wanted: Features) -> Result<Userfaultfd> {
        self.shake_hands(wanted).map(|_| self)
    }

    /// Agrees on the features; a descriptor does nothing before, and does this once.
    fn shake_hands(&self, wanted: Features) -> Result<Features> {
        let mut api = abi::Api { api: abi::API, features: wanted.0, ioctls: 0 };
        // SAFETY: the request and its structure belong together; no memory of others is touched.
        unsafe { self.ioctl(abi::IOC_API, &mut api) }?;
        Ok(Features(api.features))
    }

    /// # Safety
    /// `T` is the structure of `request`, and the caller answers for the ranges in it.
    unsafe fn ioctl<T>(&self, request: u32, argument: &mut T) -> Result<()> {
        // SAFETY: the structure is as long as the request says, and lives for the call.
        let returned = unsafe { libc::ioctl(self.fd, request as libc::Ioctl, ptr::from_mut(argument)) };
        Errno::check(i64::from(returned)).map(drop)
    }
}

impl Drop for Userfaultfd {
    fn drop(&mut self) {
        descriptors::close(self.fd);
    }
}

/// Calls on ranges of another process that are repeated because that process changes its mappings.
const ATTEMPTS_MAX: u64 = 1000;

/// The descriptor never blocks a reader, so that a handler thread can serve several.
const OPEN_FLAGS: c_int = libc::O_CLOEXEC | libc::O_NONBLOCK;

/// The calls on ranges. They do not block on I/O, and are signal-safe.
impl Userfaultfd {
    /// Hands faults on absent pages of a range, and with `write_protect` those on write-protected
    /// ones, to this descriptor.
    ///
    /// # Safety
    /// The caller owns the range, which is anonymous memory, and somebody will resolve its faults.
    ///
    /// # Errors
    /// `EINVAL` for a range that is not whole pages of one kind of memory, `EBUSY` if another
    /// descriptor has it, `ENOMEM` if nothing is mapped there.
    pub unsafe fn register(&self, start: *mut u8, len: usize, write_protect: bool) -> Result<()> {
        let wp = if write_protect { abi::REGISTER_WP } else { 0 };
        let mode = abi::REGISTER_MISSING | wp;
        let mut register = abi::Register { range: range(start, len), mode, ioctls: 0 };
        // SAFETY: request and structure belong together; the caller answers for the range.
        unsafe { self.ioctl(abi::IOC_REGISTER, &mut register) }
    }

    /// Hands faults on pages of shared memory to this descriptor: on those that are absent, and with `is_tracked` also on those that are there
    /// and not mapped here, and on write-protected ones.
    ///
    /// # Safety
    /// The caller owns the range, which is a mapping of [`crate::memory::SharedMemory`], and somebody will resolve its faults.
    ///
    /// # Errors
    /// As [`Userfaultfd::register`].
    pub unsafe fn register_shared(&self, start: *mut u8, len: usize, is_tracked: bool) -> Result<()> {
        let tracking = if is_tracked { abi::REGISTER_MINOR | abi::REGISTER_WP } else { 0 };
        let mode = abi::REGISTER_MISSING | tracking;
        let mut register = abi::Register { range: range(start, len), mode, ioctls: 0 };
        // SAFETY: request and structure belong together; the caller answers for the range.
        unsafe { self.ioctl(abi::IOC_REGISTER, &mut register) }
    }

    /// Maps pages of shared memory that are there, and wakes who waits for them.
    ///
    /// # Safety
    /// The range is the caller's, registered by [`Userfaultfd::register_shared`] with tracking.
    ///
    /// # Errors
    /// `EEXIST` if a page is mapped already, `EFAULT` if one is not there.
    pub unsafe fn map_present(&self, start: *mut u8, len: usize, write_protect: bool) -> Result<()> {
        let mode = if write_protect { abi::CONTINUE_WP } else { 0 };
        self.until_done(len, |at| {
            let range = range(start.wrapping_add(at), len - at);
            let mut step = abi::Zero { range, mode, done: 0 };
            // SAFETY: request and structure belong together; the caller answers for the range.
            (unsafe { self.ioctl(abi::IOC_CONTINUE, &mut step) }, step.done)
        })
    }

    /// Makes accesses to absent pages raise SIGBUS, and wakes who waits for them. Needs [`Features::POISON`].
    ///
    /// # Safety
    /// The range is the caller's and registered.
    ///
    /// # Errors
    /// `EEXIST` if a page is mapped.
    pub unsafe fn poison(&self, start: *mut u8, len: usize) -> Result<()> {
        self.until_done(len, |at| {
            let range = range(start.wrapping_add(at), len - at);
            let mut step = abi::Zero { range, mode: 0, done: 0 };
            // SAFETY: request and structure belong together; the caller answers for the range.
            (unsafe { self.ioctl(abi::IOC_POISON, &mut step) }, step.done)
        })
    }

    /// Takes over a descriptor that another process has sent: faults of that process, and calls on its ranges. No call waits for that process: where it keeps
    /// the kernel from changing its memory, because it has not read messages of its own, calls fail with `EAGAIN` after some attempts.
    ///
    /// # Safety
    /// The descriptor is open, nobody else's, and its features were agreed on.
    pub unsafe fn from_raw_fd(fd: c_int) -> Userfaultfd {
        let mut taken = Userfaultfd::own(fd);
        taken.is_of_other = true;
        taken
    }

    /// As [`until_done`]; no call waits for another process.
    fn until_done(&self, len: usize, step: impl FnMut(usize) -> (Result<()>, i64)) -> Result<()> {
        self.as_far(len, step).1
    }

    /// The same, and how much was done.
    fn as_far(&self, len: usize, step: impl FnMut(usize) -> (Result<()>, i64)) -> (usize, Result<()>) {
        until_done(len, if self.is_of_other { ATTEMPTS_MAX } else { u64::MAX }, step)
    }

    /// Takes a range away from this descriptor: absent pages read as zeros again, protection ends.
    ///
    /// # Safety
    /// The caller owns the range, and no absent page of it stands for data.
    ///
    /// # Errors
    /// `EINVAL` for a range that is not whole mapped pages.
    pub unsafe fn unregister(&self, start: *mut u8, len: usize) -> Result<()> {
        // SAFETY: request and structure belong together; the caller answers for the range.
        unsafe { self.ioctl(abi::IOC_UNREGISTER, &mut range(start, len)) }
    }

    /// Fills absent pages with a copy of `src`, each page at once for all other threads, and wakes
    /// who waits for them.
    ///
    /// # Safety
    /// `dst` lies in a registered range of the caller; `src` is readable for `len` bytes.
    ///
    /// # Errors
    /// `EEXIST` if a page is present already: the pages before it are filled, it and those after it
    /// are not touched. `ENOENT` if the range is not registered, `EFAULT` if `src` is not readable.
    pub unsafe fn copy(&self, dst: *mut u8, src: *const u8, len: usize, write_protect: bool) -> Result<()> {
        // SAFETY: passed on to the caller.
        unsafe { self.copy_as_far(dst, src, len, write_protect) }.1
    }

    /// As [`Userfaultfd::copy`]; also how many bytes are there now, all of them or whole pages.
    ///
    /// # Safety
    /// As there.
    pub unsafe fn copy_as_far(
        &self,
        dst: *mut u8,
        src: *const u8,
        len: usize,
        write_protect: bool,
    ) -> (usize, Result<()>) {
        let mode = if write_protect { abi::COPY_WP } else { 0 };
        self.as_far(len, |at| {
            let (dst, src) = ((dst as usize + at) as u64, (src as usize + at) as u64);
            let mut copy = abi::Copy { dst, src, len: (len - at) as u64, mode, done: 0 };
            // SAFETY: request and structure belong together; the caller answers for the ranges.
            (unsafe { self.ioctl(abi::IOC_COPY, &mut copy) }, copy.done)
        })
    }

    /// Makes absent pages read as zeros, without memory of their own until they are written.
    ///
    /// # Safety
    /// As [`Userfaultfd::copy`], without a source.
    ///
    /// # Errors
    /// As [`Userfaultfd::copy`].
    pub unsafe fn zero(&self, dst: *mut u8, len: usize) -> Result<()> {
        self.until_done(len, |at| {
            let range = range(dst.wrapping_add(at), len - at);
            let mut zero = abi::Zero { range, mode: 0, done: 0 };
            // SAFETY: request and structure belong together; the caller answers for the range.
            (unsafe { self.ioctl(abi::IOC_ZERO, &mut zero) }, zero.done)
        })
    }

    /// Moves the pages of `src` to the absent pages at `dst`, without copying; those of `src` are
    /// absent afterwards. Needs [`Features::MOVE`].
    ///
    /// # Safety
    /// Both ranges belong to the caller, `dst` is registered, and nobody relies on the bytes of
    /// `src`.
    ///
    /// # Errors
    /// `EEXIST` if a page of `dst` is present, `ENOENT` if one of `src` is absent, `EBUSY` if one
    /// is pinned or shared with a child. The pages before it are moved.
    pub unsafe fn move_pages(&self, dst: *mut u8, src: *mut u8, len: usize) -> Result<()> {
        self.until_done(len, |at| {
            let (dst, src) = ((dst as usize + at) as u64, (src as usize + at) as u64);
            let mut step = abi::Move { dst, src, len: (len - at) as u64, mode: 0, done: 0 };
            // SAFETY: request and structure belong together; the caller answers for the ranges.
            (unsafe { self.ioctl(abi::IOC_MOVE, &mut step) }, step.done)
        })
    }

    /// Protects the present pages of a range against writing, or ends that and wakes who waits.
    /// When the call that protects returns, no write to the pages is under way on any processor.
    ///
    /// # Safety
    /// The range is the caller's, registered with `write_protect`, and somebody resolves its faults.
    ///
    /// # Errors
    /// `ENOENT` if the range is not registered so.
    pub unsafe fn write_protect(&self, start: *mut u8, len: usize, on: bool) -> Result<()> {
        let mode = if on { abi::WRITE_PROTECT_ON } else { 0 };
        self.until_done(len, |_| {
            let mut protect = abi::WriteProtect { range: range(start, len), mode };
            // SAFETY: request and structure belong together; the caller answers for the range.
            (unsafe { self.ioctl(abi::IOC_WRITE_PROTECT, &mut protect) }, 0)
        })
    }

    /// Wakes the threads that sleep on faults in a range; they try again.
    ///
    /// # Errors
    /// `EINVAL` for a range that is not whole pages.
    pub fn wake(&self, start: *mut u8, len: usize) -> Result<()> {
        // SAFETY: request and structure belong together; the call changes no memory.
        unsafe { self.ioctl(abi::IOC_WAKE, &mut range(start, len)) }
    }
}

fn range(start: *mut u8, len: usize) -> abi::Range {
    abi::Range { start: start as u64, len: len as u64 }
}

/// Repeats a call that the kernel may cut short with `EAGAIN`, because another thread changes the
/// process's mappings; `step` begins at an offset and returns the bytes done. After `attempts_max`
/// attempts that did nothing, the outcome is `EAGAIN`.
fn until_done(
    len: usize,
    attempts_max: u64,
    mut step: impl FnMut(usize) -> (Result<()>, i64),
) -> (usize, Result<()>) {
    let (mut at, mut attempts) = (0, 0);
    while at < len {
        match step(at) {
            (Err(Errno::EAGAIN), done) if done > 0 => at += done as usize,
            (Err(Errno::EAGAIN), _) => {
                attempts += 1;
                if attempts >= attempts_max {
                    return (at, Err(Errno::EAGAIN));
                }
                yield_processor();
            }
            (Ok(()), _) => break,
            (refused, _) => return (at, refused),
        }
    }
    (len, Ok(()))
}

#[cfg(test)]
mod tests;
