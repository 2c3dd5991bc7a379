//! Memory that has no name and can be mapped by several processes.

use core::ffi::c_int;
use core::ptr;

use super::page_size;
use crate::descriptors;
use crate::errno::{Errno, Result};

/// A file in memory: pages that were never written take none. Closed on drop; it stays while anybody has it mapped or open.
#[derive(Debug)]
pub struct SharedMemory {
    fd: c_int,
}

/// What a mapping may be used for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Protection {
    /// Loads.
    Read,
    /// Loads and stores, which others see.
    Write,
    /// Loads and stores, which nobody else sees.
    CopyOnWrite,
    /// Loads, from memory that is open for reading alone. A userfaultfd takes a mapping of such memory only if it is private.
    ReadPrivately,
}

impl SharedMemory {
    /// New memory of `len` bytes.
    ///
    /// # Errors
    /// `EMFILE` or `ENFILE` when there are too many descriptors, `EFBIG` for a length that cannot be.
    pub fn new(len: u64) -> Result<SharedMemory> {
        // SAFETY: the name is a NUL-terminated literal.
        let fd = unsafe { libc::syscall(libc::SYS_memfd_create, c"aquifer".as_ptr(), libc::MFD_CLOEXEC) };
        let memory = SharedMemory::own(Errno::check(fd)? as c_int);
        // SAFETY: plain numbers.
        Errno::check(i64::from(unsafe { libc::ftruncate(memory.fd, len as libc::off_t) }))?;
        Ok(memory)
    }

    /// Takes over a descriptor of such memory that another process has sent.
    ///
    /// # Safety
    /// The descriptor is open and nobody else's.
    pub unsafe fn from_raw_fd(fd: c_int) -> SharedMemory {
        SharedMemory::own(fd)
    }

    fn own(fd: c_int) -> SharedMemory {
        descriptors::note(fd);
        SharedMemory { fd }
    }

    /// The descriptor, for sending it; it stays owned by this value.
    pub fn raw_fd(&self) -> c_int {
        self.fd
    }

    /// Another descriptor of the same memory, for the same use.
    ///
    /// # Errors
    /// `EMFILE` when there are too many descriptors.
    pub fn duplicate(&self) -> Result<SharedMemory> {
        // SAFETY: plain numbers.
        let fd = unsafe { libc::fcntl(self.fd, libc::F_DUPFD_CLOEXEC, 0) };
        Errno::check(i64::from(fd)).map(|fd| SharedMemory::own(fd as c_int))
    }

    /// Another descriptor of the same memory, through which nobody can write.
    ///
    /// # Errors
    /// `ENOENT` without `/proc`; `EMFILE` when there are too many descriptors.
    pub fn read_only(&self) -> Result<SharedMemory> {
        let mut path = *b"/proc/self/fd/##########\0";
        let digits_at = 14;
        let mut number = self.fd as u32;
        let mut digits = [0u8; 10];
        let mut count = 0;
        while count == 0 || number > 0 {
            digits[count] = b'0' + (number % 10) as u8;
            number /= 10;
            count += 1;
        }
        for (nth, digit) in digits[..count].iter().rev().enumerate() {
            path[digits_at + nth] = *digit;
        }
        path[digits_at + count] = 0;
        // SAFETY: the path ends with NUL.
        let fd = unsafe { libc::open(path.as_ptr().cast(), libc::O_RDONLY | libc::O_CLOEXEC) };
        Errno::check(i64::from(fd)).map(|fd| SharedMemory::own(fd as c_int))
    }

    /// Who may open it anew through `/proc`: a mode as of `chmod`.
    ///
    /// # Errors
    /// The kernel's.
    pub fn set_mode(&self, mode: u32) -> Result<()> {
        // SAFETY: plain numbers.
        Errno::check(i64::from(unsafe { libc::fchmod(self.fd, mode as libc::mode_t) })).map(drop)
    }

    /// Fills `bytes` from `offset`; what was never written is zeros.
    ///
    /// # Errors
    /// The kernel's; `EIO` behind the end.
    pub fn read_at(&self, offset: u64, bytes: &mut [u8]) -> Result<()> {
        let mut done = 0;
        while done < bytes.len() {
            let rest = &mut bytes[done..];
            // SAFETY: the rest of the buffer is as long as is said.
            let got = unsafe {
                libc::pread(
                    self.fd,
                    rest.as_mut_ptr().cast(),
                    rest.len(),
                    (offset + done as u64) as libc::off_t,
                )
            };
            match Errno::check(got as i64) {
                Ok(0) => return Err(Errno(libc::EIO)),
                Ok(got) => done += got,
                Err(Errno::EINTR) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Writes `bytes` at `offset`. Whole pages become present at once: nobody sees a part.
    ///
    /// # Errors
    /// `ENOSPC` or `ENOMEM` when the system has no memory.
    pub fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let mut done = 0;
        while done < bytes.len() {
            let rest = &bytes[done..];
            // SAFETY: the rest of the buffer is as long as is said.
            let put = unsafe {
                libc::pwrite(self.fd, rest.as_ptr().cast(), rest.len(), (offset + done as u64) as libc::off_t)
            };
            match Errno::check(put as i64) {
                Ok(put) => done += put,
                Err(Errno::EINTR) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Gives the pages of a range back to the system, and takes them away from everybody who has them mapped.
    ///
    /// # Errors
    /// The kernel's.
    pub fn punch(&self, offset: u64, len: u64) -> Result<()> {
        let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        loop {
            let (offset, len) = (offset as libc::off_t, len as libc::off_t);
            // SAFETY: plain numbers.
            let returned = unsafe { libc::fallocate(self.fd, mode, offset, len) };
            match Errno::check(i64::from(returned)) {
                Err(Errno::EINTR) => {}
                outcome => return outcome.map(drop),
            }
        }
    }

    /// Maps a range, which a forked child will not have.
    ///
    /// # Errors
    /// `ENOMEM` when there is no address space; `EACCES` for stores into memory that is open for reading alone.
    pub fn map(&self, offset: u64, len: usize, access: Protection) -> Result<SharedMapping> {
        let (protection, sharing) = match access {
            Protection::Read => (libc::PROT_READ, libc::MAP_SHARED),
            Protection::Write => (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED),
            Protection::CopyOnWrite => (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE),
            Protection::ReadPrivately => (libc::PROT_READ, libc::MAP_PRIVATE),
        };
        let (anywhere, flags) = (ptr::null_mut::<u8>(), sharing | libc::MAP_NORESERVE);
        // SAFETY: the kernel chooses a free place, so no mapping in use is touched.
        let base = unsafe {
            libc::syscall(libc::SYS_mmap, anywhere, len, protection, flags, self.fd, offset as libc::off_t)
        };
        let base = Errno::check(base).map(ptr::with_exposed_provenance_mut)?;
        let mapping = SharedMapping { base, len: len.next_multiple_of(page_size()) };
        // SAFETY: the mapping was just made.
        unsafe { super::advise(base, mapping.len, super::Advice::DontFork) }?;
        Ok(mapping)
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        descriptors::close(self.fd);
    }
}

/// A mapped range of [`SharedMemory`]. Unmapped on drop; whoever uses the addresses must be gone by then.
#[derive(Debug)]
pub struct SharedMapping {
    base: *mut u8,
    len: usize,
}

// SAFETY: the value is the ownership of a range of addresses; it gives out raw pointers only.
unsafe impl Send for SharedMapping {}
// SAFETY: as above; `&SharedMapping` can only read the two numbers.
unsafe impl Sync for SharedMapping {}

impl SharedMapping {
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
        let (base, len, fd) = (self.base, self.len, nothing.fd);
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_FIXED);
        // SAFETY: the range is ours; pages behind the end of a file raise SIGBUS.
        let mapped = unsafe { libc::syscall(libc::SYS_mmap, base, len, protection, flags, fd, 0) };
        Errno::check(mapped).map(drop)
    }
}

impl Drop for SharedMapping {
    fn drop(&mut self) {
        // SAFETY: the mapping owns the range, and its users are gone (see the type).
        unsafe { libc::syscall(libc::SYS_munmap, self.base, self.len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_seen_by_all_mappings() {
        let memory = SharedMemory::new(1 << 40).expect("memory");
        let page = page_size();
        let shared = memory.map(0, 2 * page, Protection::Write).expect("map");
        let private = memory.map(0, 2 * page, Protection::CopyOnWrite).expect("map");
        memory.write_at(5, b"abc").expect("write");
        // SAFETY: both ranges are mapped for as long as this takes.
        unsafe {
            assert_eq!(shared.base().add(6).read(), b'b');
            private.base().add(6).write(b'x');
            assert_eq!(shared.base().add(6).read(), b'b');
            shared.base().add(7).write(b'y');
        }
        let mut bytes = [0; 3];
        memory.read_at(5, &mut bytes).expect("read");
        assert_eq!(&bytes, b"aby");
        memory.punch(0, page as u64).expect("punch");
        // SAFETY: as above.
        unsafe {
            assert_eq!((shared.base().add(6).read(), private.base().add(6).read()), (0, b'x'));
        }
    }

    #[test]
    fn what_is_read_only_cannot_be_mapped_for_stores() {
        let memory = SharedMemory::new(4096).expect("memory").read_only().expect("read only");
        assert_eq!(memory.map(0, 4096, Protection::Write).unwrap_err(), Errno(libc::EACCES));
        assert_eq!(memory.write_at(0, b"a"), Err(Errno(libc::EBADF)));
        memory.map(0, 4096, Protection::Read).expect("map");
    }
}
