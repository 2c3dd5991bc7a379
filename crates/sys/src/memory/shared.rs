//! Memory that has no name and can be mapped by several processes.

use core::ffi::c_int;
use core::ptr;

use super::range::{MappedRange, map_memory};
use crate::descriptors;
use crate::errno::{Errno, Result};

/// A file in memory: pages that were never written take none. Closed on drop; it stays while anybody has it mapped or open.
#[derive(Debug)]
pub struct SharedMemory {
    fd: c_int,
}

/// Neither shorter nor longer.
const FIXED: c_int = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW;

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

impl Protection {
    fn for_shared(self) -> (c_int, c_int) {
        match self {
            Protection::Read => (libc::PROT_READ, libc::MAP_SHARED),
            Protection::Write => (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED),
            Protection::CopyOnWrite => (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE),
            Protection::ReadPrivately => (libc::PROT_READ, libc::MAP_PRIVATE),
        }
    }
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
        memory.set_len(len)?;
        Ok(memory)
    }

    /// New memory whose length nobody can change any more, so that no access within it ever raises SIGBUS in another process.
    ///
    /// # Errors
    /// As [`SharedMemory::new`].
    pub fn of_fixed_len(len: u64) -> Result<SharedMemory> {
        let memory = Self::without_len()?;
        memory.fix_len(len)?;
        Ok(memory)
    }

    /// Memory of no length, until [`SharedMemory::fix_len`].
    ///
    /// # Errors
    /// As [`SharedMemory::new`].
    pub fn without_len() -> Result<SharedMemory> {
        let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
        // SAFETY: the name is a NUL-terminated literal.
        let fd = unsafe { libc::syscall(libc::SYS_memfd_create, c"aquifer".as_ptr(), flags) };
        Ok(SharedMemory::own(Errno::check(fd)? as c_int))
    }

    /// Gives memory that was made [`SharedMemory::without_len`] its length, which nobody can change from then on.
    ///
    /// # Errors
    /// `EPERM` if it has one already.
    pub fn fix_len(&self, len: u64) -> Result<()> {
        self.set_len(len)?;
        // SAFETY: plain numbers.
        let sealed = unsafe { libc::fcntl(self.fd, libc::F_ADD_SEALS, FIXED | libc::F_SEAL_SEAL) };
        Errno::check(i64::from(sealed)).map(drop)
    }

    /// Its length, if nobody can change it: for memory that came from another process.
    ///
    /// # Errors
    /// `EINVAL` if it can be changed, or is no such memory.
    pub fn fixed_len(&self) -> Result<u64> {
        // SAFETY: plain numbers.
        let seals = Errno::check(i64::from(unsafe { libc::fcntl(self.fd, libc::F_GET_SEALS) }))? as c_int;
        if seals & FIXED != FIXED {
            return Err(Errno::EINVAL);
        }
        self.status().map(|status| status.st_size as u64)
    }

    /// Takes over a descriptor of such memory that another process has sent.
    ///
    /// # Safety
    /// The descriptor is open and nobody else's.
    pub unsafe fn from_raw_fd(fd: c_int) -> SharedMemory {
        SharedMemory::own(fd)
    }

    fn own(fd: c_int) -> SharedMemory {
        SharedMemory { fd: descriptors::own(fd) }
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

    /// Makes it longer or shorter. Accesses behind its end raise SIGBUS.
    ///
    /// # Errors
    /// `EFBIG` for a length that cannot be.
    pub fn set_len(&self, len: u64) -> Result<()> {
        // SAFETY: plain numbers.
        Errno::check(i64::from(unsafe { libc::ftruncate(self.fd, len as libc::off_t) })).map(drop)
    }

    /// Sets the users that may open it anew through `/proc`: a mode as of `chmod`.
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
        self.allocate(libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE, offset, len)
    }

    /// Makes absent pages of a range present, as zeros; those that are there stay as they are.
    ///
    /// # Errors
    /// `ENOSPC` or `ENOMEM` when the system has no memory.
    pub fn make_present(&self, offset: u64, len: u64) -> Result<()> {
        self.allocate(libc::FALLOC_FL_KEEP_SIZE, offset, len)
    }

    fn allocate(&self, mode: c_int, offset: u64, len: u64) -> Result<()> {
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

    /// Bytes of RAM that its pages take.
    ///
    /// # Errors
    /// The kernel's.
    pub fn taken_bytes(&self) -> Result<u64> {
        /// What a file's blocks are counted in.
        const BLOCK_BYTES: u64 = 512;
        self.status().map(|status| status.st_blocks as u64 * BLOCK_BYTES)
    }

    /// The first range of present pages from `offset` on: where it begins, and where the next hole does. `None` if there is none.
    ///
    /// # Errors
    /// The kernel's.
    pub fn present_from(&self, offset: u64) -> Result<Option<(u64, u64)>> {
        let seek = |offset: u64, whence| {
            // SAFETY: plain numbers.
            Errno::check(unsafe { libc::lseek(self.fd, offset as libc::off_t, whence) })
        };
        match seek(offset, libc::SEEK_DATA) {
            Ok(start) => Ok(Some((start as u64, seek(start as u64, libc::SEEK_HOLE)? as u64))),
            Err(Errno(libc::ENXIO)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn status(&self) -> Result<libc::stat> {
        let mut status = core::mem::MaybeUninit::<libc::stat>::zeroed();
        // SAFETY: the kernel fills what is its size; zeros are a value too.
        unsafe {
            Errno::check(i64::from(libc::fstat(self.fd, status.as_mut_ptr())))?;
            Ok(status.assume_init())
        }
    }

    /// Maps a range, which a forked child will not have.
    ///
    /// # Errors
    /// `ENOMEM` when there is no address space; `EACCES` for stores into memory that is open for reading alone.
    pub fn map(&self, offset: u64, len: usize, access: Protection) -> Result<MappedRange> {
        let (protection, sharing) = access.for_shared();
        // SAFETY: the kernel chooses a free place, so no mapping in use is touched.
        let base = unsafe { map_memory(ptr::null_mut(), len, protection, sharing, self.fd, offset) }?;
        // SAFETY: the mapping is new.
        Ok(unsafe { MappedRange::own(base, len) })
    }

    /// Shows a range of this memory where another range of addresses is, in the same moment for all threads. What that showed before is gone.
    ///
    /// # Safety
    /// Nobody holds a reference into the range.
    ///
    /// # Errors
    /// `ENOMEM` if the process has too many mappings; what was mapped may be gone.
    pub unsafe fn replace(&self, range: &MappedRange, offset: u64, access: Protection) -> Result<()> {
        let (protection, sharing) = access.for_shared();
        let flags = sharing | libc::MAP_FIXED;
        // SAFETY: the range is mapped, its owner keeps it, and nobody looks into it.
        unsafe { map_memory(range.base(), range.len(), protection, flags, self.fd, offset) }.map(drop)
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        descriptors::close(self.fd);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::page_size;

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
    fn addresses_show_other_memory_from_one_moment_on() {
        let page = page_size();
        let range = MappedRange::of_own_memory(2 * page, true).expect("map");
        let memory = SharedMemory::new(0).expect("memory");
        memory.set_len(1 << 40).expect("length");
        memory.write_at(1 << 30, b"abc").expect("write");
        // SAFETY: the range is mapped, and looked at through raw pointers only.
        unsafe {
            range.base().add(1).write(9);
            memory.replace(&range, 1 << 30, Protection::Write).expect("replace");
            assert_eq!(range.base().add(1).read(), b'b');
            range.base().add(2).write(b'x');
        }
        let mut bytes = [0; 3];
        memory.read_at(1 << 30, &mut bytes).expect("read");
        assert_eq!(&bytes, b"abx");
    }

    #[test]
    fn fixed_memory_keeps_its_length_and_gives_its_pages_back() {
        let memory = SharedMemory::of_fixed_len(8192).expect("memory");
        assert_eq!(memory.set_len(4096), Err(Errno(libc::EPERM)));
        assert_eq!(memory.set_len(16384), Err(Errno(libc::EPERM)));
        assert_eq!(memory.duplicate().expect("duplicate").fixed_len(), Ok(8192));
        memory.write_at(5, b"abc").expect("write");
        memory.punch(0, 8192).expect("punch");
        let mut bytes = [9; 3];
        memory.read_at(5, &mut bytes).expect("read");
        assert_eq!(bytes, [0; 3]);
        assert_eq!(SharedMemory::new(4096).expect("memory").fixed_len(), Err(Errno::EINVAL));
    }

    #[test]
    fn what_is_read_only_cannot_be_mapped_for_stores() {
        let memory = SharedMemory::new(4096).expect("memory").read_only().expect("read only");
        assert_eq!(memory.map(0, 4096, Protection::Write).unwrap_err(), Errno(libc::EACCES));
        assert_eq!(memory.write_at(0, b"a"), Err(Errno(libc::EBADF)));
        memory.map(0, 4096, Protection::Read).expect("map");
    }
}
