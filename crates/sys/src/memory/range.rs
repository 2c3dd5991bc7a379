//! Mapped addresses.

use core::ffi::c_int;
use core::ptr;

use super::{Advice, Protection, SharedMemory, advise, page_size};
use crate::errno::{Errno, Result};

/// A mapped range of addresses, which a forked child does not have. Unmapped on drop, when no user of the
/// addresses may be left.
#[derive(Debug)]
pub struct MappedRange {
    base: *mut u8,
    len: usize,
}

// SAFETY: the value is the ownership of a range of addresses; it gives out raw pointers only.
unsafe impl Send for MappedRange {}
// SAFETY: as above; `&MappedRange` can only read the two numbers.
unsafe impl Sync for MappedRange {}

impl MappedRange {
    /// Maps memory of this process alone, of which no page is there yet; for loads, or for stores too.
    ///
    /// # Errors
    /// `ENOMEM` when there is no address space.
    pub fn of_own_memory(len: usize, is_writable: bool) -> Result<MappedRange> {
        let protection = libc::PROT_READ | if is_writable { libc::PROT_WRITE } else { 0 };
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: the kernel chooses a free place, so no mapping in use is touched.
        let base = unsafe { map_memory(ptr::null_mut(), len, protection, flags, -1, 0) }?;
        // SAFETY: the mapping is new.
        let range = unsafe { MappedRange::own(base, len) };
        // SAFETY: as above.
        match unsafe { advise(range.base, range.len, Advice::NoHugePage) } {
            Err(error) if error != Errno::EINVAL => Err(error),
            _ => Ok(range),
        }
    }

    /// Takes over a mapping of `len` bytes, or up to a page more.
    ///
    /// # Safety
    /// The range is mapped and nobody else's.
    pub(super) unsafe fn own(base: *mut u8, len: usize) -> MappedRange {
        MappedRange { base, len: len.next_multiple_of(page_size()) }
    }

    /// The first byte.
    pub fn base(&self) -> *mut u8 {
        self.base
    }

    /// The length in bytes, a multiple of the OS page.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Makes every access to the range raise SIGBUS from now on: what was there is gone.
    ///
    /// # Safety
    /// Nobody holds a reference into the range.
    ///
    /// # Errors
    /// `ENOMEM` if the process has too many mappings, `EMFILE` with too many descriptors.
    pub unsafe fn revoke(&self) -> Result<()> {
        let nothing = SharedMemory::new(0)?;
        // Pages behind the end of a file raise SIGBUS. A store where only loads are allowed would raise SIGSEGV.
        // SAFETY: the caller's condition.
        unsafe { nothing.replace(self, 0, Protection::Write) }
    }
}

impl Drop for MappedRange {
    fn drop(&mut self) {
        // SAFETY: the mapping owns the range, and its users are gone (see the type).
        unsafe { libc::syscall(libc::SYS_munmap, self.base, self.len) };
    }
}

/// Maps memory, anywhere or with `MAP_FIXED` at `base`; a forked child will not have it.
///
/// # Safety
/// With `MAP_FIXED` the range is the caller's, and nobody looks into it.
///
/// # Errors
/// The kernel's. Nothing is left mapped that was not before, but with `MAP_FIXED` what was may be gone.
pub(super) unsafe fn map_memory(
    base: *mut u8,
    len: usize,
    protection: c_int,
    flags: c_int,
    fd: c_int,
    offset: u64,
) -> Result<*mut u8> {
    let (flags, offset) = (flags | libc::MAP_NORESERVE, offset as libc::off_t);
    // SAFETY: the caller answers for a range that is in use; any other is free.
    let mapped = unsafe { libc::syscall(libc::SYS_mmap, base, len, protection, flags, fd, offset) };
    let mapped = Errno::check(mapped).map(ptr::with_exposed_provenance_mut)?;
    // SAFETY: the mapping was just made.
    let advised = unsafe { advise(mapped, len.next_multiple_of(page_size()), Advice::DontFork) };
    if advised.is_err() && base.is_null() {
        // SAFETY: as above.
        unsafe { libc::syscall(libc::SYS_munmap, mapped, len) };
    }
    advised.map(|()| mapped)
}

/// Copies bytes out of memory of this process that may not be there: that is an error, and no signal.
///
/// # Errors
/// `EFAULT` if a part of it is absent.
///
/// # Context
/// Signal-safe.
pub fn read_if_present(start: *const u8, bytes: &mut [u8]) -> Result<()> {
    read_all_if_present(&mut [(start, bytes)])
}

/// Places that are read with one call of the system.
const READ_AT_ONCE: usize = 64;

/// As [`read_if_present`], from several places.
///
/// # Errors
/// As [`read_if_present`], if one of the places is not there.
pub fn read_all_if_present(parts: &mut [(*const u8, &mut [u8])]) -> Result<()> {
    let nowhere = libc::iovec { iov_base: core::ptr::null_mut(), iov_len: 0 };
    for parts in parts.chunks_mut(READ_AT_ONCE) {
        let (mut from, mut to) = ([nowhere; READ_AT_ONCE], [nowhere; READ_AT_ONCE]);
        let mut len = 0;
        for (nth, (start, bytes)) in parts.iter_mut().enumerate() {
            from[nth] = libc::iovec { iov_base: start.cast_mut().cast(), iov_len: bytes.len() };
            to[nth] = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
            len += bytes.len();
        }
        let (count, to, from) = (parts.len() as libc::c_ulong, to.as_ptr(), from.as_ptr());
        // SAFETY: the kernel checks the sources; the targets are the slices.
        let got = unsafe { libc::process_vm_readv(libc::getpid(), to, count, from, count, 0) };
        match Errno::check(got as i64) {
            Ok(got) if got == len => {}
            Ok(_) => return Err(Errno(libc::EFAULT)),
            // A filter of system calls forbids it.
            Err(Errno(libc::EPERM | libc::ENOSYS)) => {
                parts.iter_mut().try_for_each(|(start, bytes)| read_by_file(*start, bytes))?;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// As [`read_if_present`], through `/proc`.
fn read_by_file(start: *const u8, bytes: &mut [u8]) -> Result<()> {
    // SAFETY: the path is a NUL-terminated literal.
    let fd = unsafe { libc::open(c"/proc/self/mem".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) };
    Errno::check(i64::from(fd))?;
    // SAFETY: the kernel checks the source; the target is the slice.
    let got = unsafe { libc::pread(fd, bytes.as_mut_ptr().cast(), bytes.len(), start as libc::off_t) };
    let outcome = Errno::check(got as i64);
    // SAFETY: opened above and used nowhere else.
    unsafe { libc::close(fd) };
    if outcome? == bytes.len() { Ok(()) } else { Err(Errno(libc::EFAULT)) }
}

#[cfg(test)]
mod tests {
    use core::mem::ManuallyDrop;

    use super::*;

    #[test]
    fn memory_that_is_not_there_is_an_error() {
        let page = page_size();
        for read in [read_if_present, read_by_file] {
            let range = MappedRange::of_own_memory(3 * page, true).expect("map");
            let mut bytes = [0; 8];
            // SAFETY: the range is the test's.
            unsafe { range.base().write_bytes(7, 3 * page) };
            read(range.base().wrapping_add(page - 4), &mut bytes).expect("read");
            assert_eq!(bytes, [7; 8]);
            // What other threads map must not come to where memory is to be absent: the range stays.
            let last =
                // SAFETY: the page is a part of the range, and the range alone unmaps it.
                ManuallyDrop::new(unsafe { MappedRange::own(range.base().wrapping_add(2 * page), page) });
            // SAFETY: the range is the test's.
            unsafe { last.revoke() }.expect("revoke");
            read(last.base().wrapping_sub(8), &mut bytes).expect("read");
            assert!(read(last.base().wrapping_sub(4), &mut bytes).is_err());
            assert!(read(last.base(), &mut bytes).is_err());
        }
    }
}
