//! Long transfers, of which each part is in place while the kernel works on it.
//!
//! A program must not notice the parts. So a call goes on until everything is done where the kernel would: writing to
//! anything that is a stream of bytes, and reading from files. What has limits, a datagram, is never divided.

use aquifer_sys::ErrnoGuard;
use libc::iovec;

use crate::place::{Place, Way};
use crate::route::is_managed_address;

/// Bytes that are in place at a time.
pub const PART_BYTES: usize = 1 << 20;
/// Buffers that one call may have (`IOV_MAX`).
const LIST_MAX: usize = 1024;

/// How bytes go through a file descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// All that are asked for, at once.
    File,
    /// As they come.
    Stream,
    /// In messages that have limits.
    Messages,
}

impl Kind {
    /// That of an open file.
    pub fn of(fd: i32) -> Self {
        let _errno = ErrnoGuard::new();
        let (mut kind, mut len) = (0i32, size_of::<i32>() as u32);
        // SAFETY: zeros are a valid stat, and the kernel fills in both.
        unsafe {
            let mut stat: libc::stat = std::mem::zeroed();
            if libc::fstat(fd, &raw mut stat) != 0 {
                return Self::Messages;
            }
            match stat.st_mode & libc::S_IFMT {
                libc::S_IFREG | libc::S_IFBLK | libc::S_IFCHR => Self::File,
                libc::S_IFSOCK => {
                    let kind = (&raw mut kind).cast();
                    libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_TYPE, kind, &raw mut len);
                    if *kind.cast::<i32>() == libc::SOCK_STREAM { Self::Stream } else { Self::Messages }
                }
                _ => Self::Stream,
            }
        }
    }

    /// Whether a call goes on when a part was moved as a whole.
    fn goes_on(self, way: Way, waits: bool) -> bool {
        match self {
            Self::File => true,
            Self::Stream => way == Way::Out || waits,
            Self::Messages => false,
        }
    }
}

/// How one call moves its bytes.
#[derive(Clone, Copy, Debug)]
pub struct Manner {
    /// Which way.
    pub way: Way,
    /// Input is waited for until there is as much as was asked for.
    pub waits: bool,
}

impl Manner {
    /// Into memory.
    pub const IN: Self = Self { way: Way::In, waits: false };
    /// Out of memory.
    pub const OUT: Self = Self { way: Way::Out, waits: false };
}

/// Calls `call(at, bytes)` with how much was done before, and the bytes of the next part, until all `bytes` are done or it
/// moves less. `kind` is asked only for what is longer than a part.
fn in_parts(
    manner: Manner,
    bytes: usize,
    kind: impl FnOnce() -> Kind,
    mut call: impl FnMut(usize, usize) -> isize,
) -> isize {
    if bytes <= PART_BYTES {
        return call(0, bytes);
    }
    let kind = kind();
    if kind == Kind::Messages {
        return call(0, bytes);
    }
    let mut done = 0;
    loop {
        let part = (bytes - done).min(PART_BYTES);
        let moved = call(done, part);
        if moved < 0 {
            return if done > 0 { done as isize } else { moved };
        }
        done += moved as usize;
        if (moved as usize) < part || done >= bytes || !kind.goes_on(manner.way, manner.waits) {
            return done as isize;
        }
    }
}

/// Runs `call(pointer, at, bytes)` on a buffer that is in place, as often as it takes.
pub fn transfer(
    manner: Manner,
    kind: impl FnOnce() -> Kind,
    address: usize,
    bytes: usize,
    mut call: impl FnMut(*mut u8, usize, usize) -> isize,
) -> isize {
    if !is_managed_address(address) {
        return call(address as *mut u8, 0, bytes);
    }
    in_parts(manner, bytes, kind, |at, part| {
        let mut place = Place::new(manner.way, address + at, part);
        let moved = call(place.address(), at, part);
        place.arrived(moved.max(0) as usize);
        moved
    })
}

/// As [`transfer`], of the `count` buffers of a list: `call(list, count, at)`.
///
/// # Safety
/// `list` is NULL or has that many buffers.
pub unsafe fn transfer_list(
    manner: Manner,
    kind: impl FnOnce() -> Kind,
    list: *const iovec,
    count: usize,
    mut call: impl FnMut(*const iovec, usize, usize) -> isize,
) -> isize {
    if list.is_null() || count > LIST_MAX {
        return call(list, count, 0);
    }
    // SAFETY: the caller says so.
    let buffers = unsafe { std::slice::from_raw_parts(list, count) };
    let is_managed = is_managed_address(list as usize)
        || buffers.iter().any(|buffer| is_managed_address(buffer.iov_base as usize) && buffer.iov_len > 0);
    let bytes = buffers.iter().try_fold(0usize, |sum, buffer| sum.checked_add(buffer.iov_len));
    let Some(bytes) = bytes.filter(|&bytes| is_managed && bytes <= isize::MAX as usize) else {
        return call(list, count, 0);
    };
    in_parts(manner, bytes, kind, |at, part| {
        let mut places = places(manner.way, buffers, at, part);
        let list: Vec<iovec> = places
            .iter_mut()
            .map(|(place, bytes)| iovec { iov_base: place.address().cast(), iov_len: *bytes })
            .collect();
        let moved = call(list.as_ptr(), list.len(), at);
        let mut left = moved.max(0) as usize;
        for (place, bytes) in &places {
            let here = left.min(*bytes);
            place.arrived(here);
            left -= here;
        }
        moved
    })
}

/// The places of `part` bytes behind the first `at` bytes of the buffers.
fn places(way: Way, buffers: &[iovec], at: usize, part: usize) -> Vec<(Place, usize)> {
    let (mut skip, mut left) = (at, part);
    let mut places = Vec::with_capacity(buffers.len());
    for buffer in buffers {
        let skipped = skip.min(buffer.iov_len);
        skip -= skipped;
        let bytes = (buffer.iov_len - skipped).min(left);
        if bytes > 0 {
            places.push((Place::new(way, buffer.iov_base as usize + skipped, bytes), bytes));
            left -= bytes;
        }
    }
    places
}
