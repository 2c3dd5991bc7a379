//! Page faults resolved by the program itself where there is no userfaultfd, as SSDAlloc did in 2011: absent pages are inaccessible, and who touches
//! one gets SIGSEGV.
//!
//! A page gets its bytes while it is inaccessible, through `/proc/self/mem`, which looks at who owns memory and not at how it is protected; so it is at once there for all
//! threads. Each change of access is a call of its own, and pages that are accessible otherwise than their neighbours are mappings of their own, of which
//! the kernel gives a process 65,530 (`vm.max_map_count`).
//!
//! Ranges begin and end on OS-page boundaries everywhere.

use core::ffi::c_int;

use crate::descriptors;
use crate::errno::{Errno, Result};
use crate::memory::{Presence, Reservation, access, page_size};

/// Makes pages of a range accessible, or inaccessible. What is said of forked children holds for [`Presence`], too.
pub struct Fence {
    /// Of this process.
    memory: c_int,
    presence: Presence,
}

impl Fence {
    /// Opens the process's memory.
    ///
    /// # Errors
    /// `ENOENT` without `/proc`, `EACCES`, `EIO` or `EFAULT` where the kernel lets nobody write to protected memory through it.
    pub fn open() -> Result<Fence> {
        let fence = Fence { memory: descriptors::own(open_memory()?), presence: Presence::new() };
        if !fence.presence.has_page_map() {
            return Err(Errno::ENOENT);
        }
        fence.is_possible().map(|()| fence)
    }

    /// Tries it on a page of its own.
    fn is_possible(&self) -> Result<()> {
        let page = Reservation::new(page_size(), page_size())?;
        // SAFETY: the page is this function's.
        unsafe {
            self.hide(page.base(), page.len())?;
            self.write(page.base(), [1].as_ptr(), 1)?;
            access(page.base(), page.len(), libc::PROT_READ)?;
            if page.base().read_volatile() == 1 { Ok(()) } else { Err(Errno::EFAULT) }
        }
    }

    /// Makes this value, which a forked child inherited and which is of its parent's memory, the child's own.
    ///
    /// # Errors
    /// The kernel's.
    ///
    /// # Context
    /// Signal-safe.
    pub fn renew_in_child(&self) -> Result<()> {
        let own = open_memory()?;
        // SAFETY: both descriptors are ours. The system calls themselves: a program's own may be such that spare our descriptors.
        unsafe {
            let returned = libc::syscall(libc::SYS_dup3, own, self.memory, libc::O_CLOEXEC);
            libc::syscall(libc::SYS_close, own);
            Errno::check(returned)?;
        }
        self.presence.renew_in_child()
    }

    /// Makes pages inaccessible, whether they have bytes or not. When the call returns, no access to them is under way on any processor.
    ///
    /// # Safety
    /// The range is the caller's, and somebody resolves its faults.
    ///
    /// # Errors
    /// `ENOMEM` if the process has too many mappings.
    pub unsafe fn hide(&self, start: *mut u8, len: usize) -> Result<()> {
        // SAFETY: passed on to the caller.
        unsafe { access(start, len, libc::PROT_NONE) }
    }

    /// Makes pages accessible that have bytes, for reading or for writing too.
    ///
    /// # Safety
    /// As [`Fence::hide`].
    ///
    /// # Errors
    /// As [`Fence::hide`].
    pub unsafe fn show(&self, start: *mut u8, len: usize, write_protect: bool) -> Result<()> {
        let write = if write_protect { 0 } else { libc::PROT_WRITE };
        // SAFETY: passed on to the caller.
        unsafe { access(start, len, libc::PROT_READ | write) }
    }

    /// Fills an absent page with a copy of `src`, and makes it accessible.
    ///
    /// # Safety
    /// As [`Fence::hide`]; `src` is readable for a page.
    ///
    /// # Errors
    /// `EEXIST` if the page has bytes; it is as before. `ENOMEM` if the process has too many mappings, or no memory: the page is inaccessible, and may have
    /// the bytes.
    pub unsafe fn copy(&self, dst: *mut u8, src: *const u8, write_protect: bool) -> Result<()> {
        let (mut present, len) = ([0], page_size());
        // SAFETY: passed on to the caller.
        unsafe {
            self.presence.look(dst, &mut present)?;
            if present[0] != 0 {
                return Err(Errno::EEXIST);
            }
            self.write(dst, src, len)?;
            self.show(dst, len, write_protect)
        }
    }

    /// # Safety
    /// The range is the caller's.
    unsafe fn write(&self, dst: *mut u8, src: *const u8, len: usize) -> Result<()> {
        let mut done = 0;
        while done < len {
            // SAFETY: passed on to the caller.
            let returned = unsafe {
                let (to, from) = (dst.addr() + done, src.add(done));
                libc::syscall(libc::SYS_pwrite64, self.memory, from, len - done, to)
            };
            match Errno::check(returned) {
                Ok(0) => return Err(Errno::EFAULT),
                Ok(written) => done += written,
                Err(Errno::EINTR) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl Drop for Fence {
    fn drop(&mut self) {
        descriptors::close(self.memory);
    }
}

fn open_memory() -> Result<c_int> {
    let (path, flags) = (c"/proc/self/mem".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC);
    // SAFETY: the path is a NUL-terminated literal. The system call itself: a program's own `open` may be one that asks us.
    let returned = unsafe { libc::syscall(libc::SYS_openat, libc::AT_FDCWD, path, flags) };
    Errno::check(returned).map(|fd| fd as c_int)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{Advice, advise};
    use crate::testing::{died_of, ended_well, in_child};

    fn read_in_child(page: *mut u8) -> i32 {
        in_child(|| {
            // SAFETY: the page is mapped; where it is inaccessible, the child ends.
            unsafe {
                libc::signal(libc::SIGSEGV, libc::SIG_DFL);
                i32::from(page.read_volatile() != 7)
            }
        })
    }

    #[test]
    fn pages_have_their_bytes_when_they_become_accessible() {
        let (fence, page) = (Fence::open().expect("fence"), page_size());
        let memory = Reservation::new(3 * page, page).expect("reserve");
        let bytes = vec![7; page];
        let (first, second) = (memory.base(), memory.base().wrapping_add(page));
        // SAFETY: the range is the test's.
        unsafe {
            fence.hide(first, memory.len()).expect("hide");
            assert!(died_of(read_in_child(second), libc::SIGSEGV));
            fence.copy(second, bytes.as_ptr(), true).expect("copy");
            assert!(ended_well(read_in_child(second)) && died_of(read_in_child(first), libc::SIGSEGV));
            assert_eq!(fence.copy(second, bytes.as_ptr(), true), Err(Errno::EEXIST));
            let written = in_child(|| {
                libc::signal(libc::SIGSEGV, libc::SIG_DFL);
                second.write_volatile(1);
                0
            });
            assert!(died_of(written, libc::SIGSEGV), "it is write-protected");
            fence.show(second, page, false).expect("show");
            second.write_volatile(9);
            fence.hide(second, page).expect("hide");
            advise(second, page, Advice::DontNeed).expect("discard");
            fence.copy(second, bytes.as_ptr(), false).expect("copy");
            assert_eq!(second.add(page - 1).read_volatile(), 7);
        }
    }

    #[test]
    fn a_child_has_one_of_its_own() {
        let (fence, page) = (Fence::open().expect("fence"), page_size());
        let memory = Reservation::new(page, page).expect("reserve");
        let bytes = vec![7; page];
        // SAFETY: the range is the test's, in the child its copy.
        let status = in_child(|| unsafe {
            let is_done = fence.renew_in_child().is_ok()
                && fence.hide(memory.base(), page).is_ok()
                && fence.copy(memory.base(), bytes.as_ptr(), false).is_ok();
            i32::from(!is_done || memory.base().read_volatile() != 7)
        });
        assert!(ended_well(status), "{status:#x}");
        // SAFETY: the range is the test's.
        assert_eq!(unsafe { memory.base().read_volatile() }, 0, "the parent's is as it was");
    }
}
