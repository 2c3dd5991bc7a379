//! Pages that outlive their unmapping.

use core::sync::atomic::{AtomicU8, Ordering};

use super::{Advice, Reservation, advise, page_size};
use crate::descriptors;
use crate::errno::{Errno, Result};

/// A pipe that takes hold of pages of the process, and gives their bytes out later.
///
/// The kernel keeps the pages themselves in the pipe and not a copy (`vmsplice`). So a page that is held, and
/// then discarded with [`Discarder::discard`](super::Discarder::discard), is read from the pipe with every
/// write that was made before it was unmapped, and no write can come after that. This excludes writers
/// from any number of scattered pages with the one TLB shootdown of the discard, where write-protecting them
/// takes a call and a shootdown each.
///
/// The pages must be anonymous, written (or filled by userfaultfd) and not shared with a forked child: a write to the
/// zero page or to a shared page moves it elsewhere, and the pipe would keep the old one.
#[derive(Debug)]
pub struct PagePipe {
    reader: libc::c_int,
    writer: libc::c_int,
}

impl PagePipe {
    /// A pipe that holds up to `pages` pages.
    ///
    /// # Errors
    /// The kernel's: `EMFILE` without descriptors, `EPERM` if the user's pipes are too large together
    /// (`/proc/sys/fs/pipe-user-pages-soft`), whatever it answers where `vmsplice` is forbidden; `EINVAL` if
    /// it does not keep the pages themselves.
    ///
    /// # Context
    /// Tries it on a page of its own; meant for the start of the program.
    pub fn new(pages: usize) -> Result<PagePipe> {
        let mut ends = [-1; 2];
        // SAFETY: the kernel writes the two descriptors.
        let returned = unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC | libc::O_NONBLOCK) };
        Errno::check(i64::from(returned))?;
        let [reader, writer] = ends.map(descriptors::own);
        let pipe = PagePipe { reader, writer };
        let bytes = (pages * page_size()) as libc::c_int;
        // SAFETY: plain numbers.
        Errno::check(i64::from(unsafe { libc::fcntl(pipe.writer, libc::F_SETPIPE_SZ, bytes) }))?;
        if pipe.keeps_pages()? { Ok(pipe) } else { Err(Errno::EINVAL) }
    }

    /// Takes hold of the pages that `parts` lie in, each part within one page. They are read in this order, each
    /// part with the bytes it has when its page is unmapped, or when it is read if that comes first.
    ///
    /// # Safety
    /// The parts are mapped and stay so until this returns.
    ///
    /// # Errors
    /// The kernel's; nothing is held then.
    pub unsafe fn hold(&self, parts: &[libc::iovec]) -> Result<()> {
        let wanted: usize = parts.iter().map(|part| part.iov_len).sum();
        let held = loop {
            let (first, count) = (parts.as_ptr(), parts.len());
            // SAFETY: the kernel reads `parts` and takes references to pages that the caller keeps mapped.
            let held = unsafe { libc::vmsplice(self.writer, first, count, libc::SPLICE_F_NONBLOCK) };
            match Errno::check(held as i64) {
                Err(Errno::EINTR) => {}
                outcome => break outcome?,
            }
        };
        if held == wanted {
            return Ok(());
        }
        self.let_go(held);
        Err(Errno::EAGAIN)
    }

    /// Reads the next `out.len()` bytes of what is held, and lets go of the pages that end there.
    ///
    /// # Errors
    /// The kernel's; `EAGAIN` if less is held.
    pub fn read(&self, out: &mut [u8]) -> Result<()> {
        let mut rest = out;
        while !rest.is_empty() {
            // SAFETY: `rest` is writable memory of that length.
            let read = unsafe { libc::read(self.reader, rest.as_mut_ptr().cast(), rest.len()) };
            match Errno::check(read as i64) {
                Err(Errno::EINTR) => {}
                Ok(0) => return Err(Errno::EAGAIN),
                outcome => rest = &mut rest[outcome?..],
            }
        }
        Ok(())
    }

    fn let_go(&self, held: usize) {
        let mut rest = held;
        let mut scratch = [0; 512];
        while rest > 0 {
            let part = rest.min(scratch.len());
            if self.read(&mut scratch[..part]).is_err() {
                return;
            }
            rest -= part;
        }
    }

    /// Whether a write between holding a page and discarding it comes out of the pipe.
    fn keeps_pages(&self) -> Result<bool> {
        let page = Reservation::new(page_size(), page_size())?;
        // SAFETY: the page belongs to this function.
        unsafe { advise(page.base(), page.len(), Advice::DontFork)? };
        // SAFETY: the first byte of a mapped page that nobody else knows.
        let byte = unsafe { AtomicU8::from_ptr(page.base()) };
        byte.store(1, Ordering::Relaxed);
        let part = libc::iovec { iov_base: page.base().cast(), iov_len: 1 };
        // SAFETY: the page is mapped until the end of the function.
        unsafe { self.hold(&[part])? };
        byte.store(2, Ordering::SeqCst);
        // SAFETY: the page belongs to this function and its bytes are not needed there.
        unsafe { advise(page.base(), page.len(), Advice::DontNeed)? };
        let mut out = [0];
        self.read(&mut out)?;
        Ok(out == [2])
    }
}

impl Drop for PagePipe {
    fn drop(&mut self) {
        for end in [self.reader, self.writer] {
            descriptors::close(end);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Discarder;
    use core::sync::atomic::{AtomicBool, AtomicU64};

    const PAGES: usize = 64;

    fn pipe_or_skip() -> Option<PagePipe> {
        PagePipe::new(PAGES).inspect_err(|error| eprintln!("skipped: vmsplice: {error}")).ok()
    }

    /// A part of every second page, and the pages themselves.
    fn parts(memory: &Reservation, len: usize) -> (Vec<libc::iovec>, Vec<libc::iovec>) {
        let at = |n: usize, len| libc::iovec {
            iov_base: memory.base().wrapping_add(2 * n * page_size()).cast(),
            iov_len: len,
        };
        (0..PAGES).map(|n| (at(n, len), at(n, page_size()))).unzip()
    }

    #[test]
    fn bytes_outlive_their_pages() {
        let Some(pipe) = pipe_or_skip() else { return };
        let memory = Reservation::new(2 * PAGES * page_size(), page_size()).expect("reserve");
        // Other tests fork.
        // SAFETY: the test owns the reservation.
        unsafe { advise(memory.base(), memory.len(), Advice::DontFork).expect("dontfork") };
        for len in [1, 100, page_size()] {
            let (parts, pages) = parts(&memory, len);
            let mut out = vec![0; len];
            // SAFETY: the test owns the reservation and looks at it through raw pointers only.
            unsafe {
                (0..PAGES).for_each(|n| parts[n].iov_base.cast::<u8>().write_bytes(n as u8, len));
                pipe.hold(&parts).expect("hold");
                (0..PAGES).for_each(|n| parts[n].iov_base.cast::<u8>().write_bytes(n as u8 + 1, len));
                Discarder::new().discard(&pages).expect("discard");
            }
            for n in 0..PAGES {
                pipe.read(&mut out).expect("read");
                assert!(out.iter().all(|&byte| byte == n as u8 + 1), "page {n} of {len} bytes");
            }
            assert_eq!(pipe.read(&mut out), Err(Errno::EAGAIN));
        }
    }

    #[test]
    fn no_write_of_another_thread_is_lost() {
        const ROUNDS: u64 = 20_000;
        let Some(pipe) = pipe_or_skip() else { return };
        let memory = Reservation::new(page_size(), page_size()).expect("reserve");
        // Other tests fork.
        // SAFETY: the test owns the reservation.
        unsafe { advise(memory.base(), memory.len(), Advice::DontFork).expect("dontfork") };
        // SAFETY: a word of a mapped page that is used only as this atomic.
        let word = unsafe { AtomicU64::from_ptr(memory.base().cast()) };
        let part = [libc::iovec { iov_base: memory.base().cast(), iov_len: 8 }];
        let page = [libc::iovec { iov_base: memory.base().cast(), iov_len: page_size() }];
        let (stop, discarder) = (AtomicBool::new(false), Discarder::new());
        let mut sum = 0;
        let added = std::thread::scope(|scope| {
            let adder = scope.spawn(|| {
                let mut added = 0u64;
                while !stop.load(Ordering::Relaxed) {
                    word.fetch_add(1, Ordering::Relaxed);
                    added += 1;
                }
                added
            });
            for _ in 0..ROUNDS {
                let mut out = [0; 8];
                // A write and no read, which would map the zero page.
                word.fetch_add(1, Ordering::Relaxed);
                // SAFETY: the page is the test's; what was counted in it is taken along.
                unsafe {
                    pipe.hold(&part).expect("hold");
                    discarder.discard(&page).expect("discard");
                }
                pipe.read(&mut out).expect("read");
                sum += u64::from_ne_bytes(out);
            }
            stop.store(true, Ordering::Relaxed);
            adder.join().expect("join")
        });
        assert_eq!(sum + word.load(Ordering::Relaxed), added + ROUNDS);
    }

    #[test]
    fn what_cannot_be_held_whole_is_not_held() {
        let Some(pipe) = pipe_or_skip() else { return };
        let memory = Reservation::new(2 * PAGES * page_size(), page_size()).expect("reserve");
        // SAFETY: the test owns the reservation.
        unsafe { memory.base().write_bytes(5, memory.len()) };
        let (mut parts, _) = parts(&memory, 10);
        parts.push(parts[0]);
        // SAFETY: all parts are mapped; the last one's address is refused by the kernel.
        let (too_many, nowhere) = unsafe {
            let too_many = pipe.hold(&parts);
            parts.truncate(3);
            parts[2].iov_base = 16 as *mut libc::c_void;
            (too_many, pipe.hold(&parts))
        };
        assert_eq!((too_many, nowhere), (Err(Errno::EAGAIN), Err(Errno::EAGAIN)));
        assert_eq!(pipe.read(&mut [0]), Err(Errno::EAGAIN));
    }
}
