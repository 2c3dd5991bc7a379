//! The system calls on open files that the standard library does not wrap.

use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;

/// `BLKDISCARD` of `linux/fs.h`, which is `_IO(0x12, 119)`.
const BLKDISCARD: libc::Ioctl = 0x1277;
/// Types of file systems, of `linux/magic.h`.
const TMPFS_MAGIC: u32 = 0x0102_1994;
const RAMFS_MAGIC: u32 = 0x8584_58F6;

/// Turns a -1 into the error that it stands for.
fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Repeats a call while signals interrupt it.
fn uninterrupted(mut call: impl FnMut() -> libc::c_int) -> io::Result<libc::c_int> {
    loop {
        match check(call()) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// Takes the file for this process alone, or fails with EWOULDBLOCK. The lock goes with
/// [`unlock`], or when the last copy of the descriptor is closed, which a forked child may hold.
pub(crate) fn lock_exclusive(file: &File) -> io::Result<()> {
    // SAFETY: a call on an open descriptor; no memory is passed.
    uninterrupted(|| unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) })?;
    Ok(())
}

/// Gives the file up for all who hold a copy of its descriptor. Nothing happens where there is no lock.
pub(super) fn unlock(file: &File) {
    // SAFETY: a call on an open descriptor; no memory is passed.
    unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_UN) };
}

/// Reserves the first `len_bytes` bytes of the file and makes it at least that long.
pub(super) fn allocate(file: &File, len_bytes: u64) -> io::Result<()> {
    let len = libc::off64_t::try_from(len_bytes).map_err(|_| io::Error::from_raw_os_error(libc::EFBIG))?;
    // SAFETY: a call on an open descriptor; no memory is passed.
    uninterrupted(|| unsafe { libc::fallocate64(file.as_raw_fd(), 0, 0, len) })?;
    Ok(())
}

/// Bypasses the page cache, or uses it again.
pub(super) fn set_direct(file: &File, direct: bool) -> io::Result<()> {
    // SAFETY: a call on an open descriptor; no memory is passed.
    let flags = check(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETFL) })?;
    let flags = if direct { flags | libc::O_DIRECT } else { flags & !libc::O_DIRECT };
    // SAFETY: as above.
    check(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFL, flags) })?;
    Ok(())
}

/// What direct I/O needs its offsets, lengths and memory to be multiples of: `Some(0)` where the file cannot
/// be read directly, `None` where the file system does not say.
pub(super) fn direct_alignment(file: &File) -> Option<u32> {
    let mut status = MaybeUninit::<libc::statx>::zeroed();
    // SAFETY: the path is an empty C string, so that the call is about the descriptor; `status` is large
    // enough.
    let result = unsafe {
        libc::statx(
            file.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH,
            libc::STATX_DIOALIGN,
            status.as_mut_ptr(),
        )
    };
    // SAFETY: all fields are integers, for which the zeros from above are values too.
    let status = unsafe { status.assume_init() };
    if result != 0 || status.stx_mask & libc::STATX_DIOALIGN == 0 {
        return None;
    }
    Some(match (status.stx_dio_mem_align, status.stx_dio_offset_align) {
        (_, 0) => 0,
        (memory, offset) => memory.max(offset),
    })
}

/// Whether the file lives in memory. Such file systems accept the flag for direct I/O and ignore it.
pub(super) fn is_in_memory(file: &File) -> bool {
    let mut status = MaybeUninit::<libc::statfs64>::zeroed();
    // SAFETY: `status` is large enough for what the call writes.
    let result = unsafe { libc::fstatfs64(file.as_raw_fd(), status.as_mut_ptr()) };
    // SAFETY: all fields are integers, for which the zeros from above are values too.
    let status = unsafe { status.assume_init() };
    result == 0 && status.f_type == libc::TMPFS_MAGIC
}

/// Bytes that the file system under `file` could still give to an ordinary user; 0 when it does not say.
pub(super) fn available_bytes(file: &File) -> u64 {
    let mut status = MaybeUninit::<libc::statvfs64>::zeroed();
    // SAFETY: `status` is large enough for what the call writes.
    let result = unsafe { libc::fstatvfs64(file.as_raw_fd(), status.as_mut_ptr()) };
    // SAFETY: all fields are integers, for which the zeros from above are values too.
    let status = unsafe { status.assume_init() };
    if result == 0 { status.f_bavail.saturating_mul(status.f_frsize) } else { 0 }
}

/// Whether the file system under `file` is memory itself, as tmpfs is.
pub(super) fn is_memory(file: &File) -> bool {
    let mut status = MaybeUninit::<libc::statfs64>::zeroed();
    // SAFETY: `status` is large enough for what the call writes.
    let result = unsafe { libc::fstatfs64(file.as_raw_fd(), status.as_mut_ptr()) };
    // SAFETY: all fields are integers, for which the zeros from above are values too.
    let status = unsafe { status.assume_init() };
    result == 0 && [TMPFS_MAGIC, RAMFS_MAGIC].contains(&(status.f_type as u32))
}

/// Tells the page cache not to read ahead. Only a hint, so that its failure does not matter.
pub(super) fn expect_random_reads(file: &File) {
    // SAFETY: a call on an open descriptor; no memory is passed.
    unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_RANDOM) };
}

/// The logical block of a block device.
pub(super) fn sector_bytes(file: &File) -> io::Result<usize> {
    let mut sector: libc::c_int = 0;
    // SAFETY: this request writes one int.
    check(unsafe { libc::ioctl(file.as_raw_fd(), libc::BLKSSZGET, &raw mut sector) })?;
    usize::try_from(sector).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))
}

/// Tells a block device that it may forget a range.
pub(super) fn discard_blocks(file: &File, offset: u64, len_bytes: u64) -> io::Result<()> {
    let range = [offset, len_bytes];
    // SAFETY: this request reads two 64-bit numbers.
    uninterrupted(|| unsafe { libc::ioctl(file.as_raw_fd(), BLKDISCARD, range.as_ptr()) })?;
    Ok(())
}

/// Gives a range of a file back to its file system; it reads as zeros afterwards.
pub(crate) fn punch_hole(file: &File, offset: u64, len_bytes: u64) -> io::Result<()> {
    let wide = |value| libc::off64_t::try_from(value).map_err(|_| io::Error::from_raw_os_error(libc::EFBIG));
    let (offset, len_bytes) = (wide(offset)?, wide(len_bytes)?);
    let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    // SAFETY: a call on an open descriptor; no memory is passed.
    uninterrupted(|| unsafe { libc::fallocate64(file.as_raw_fd(), mode, offset, len_bytes) })?;
    Ok(())
}
