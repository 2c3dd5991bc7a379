//! Writes around the pages that the kernel keeps of a file.
//!
//! A program that opened a file with `O_DIRECT` writes around these pages. The kernel drops them before it sends the write, and once more after it if the
//! program waits for the write. After a write that the program does not wait for (`io_submit`, io_uring) the kernel does not: a page that another program
//! brought meanwhile would stay as it was. So the kernel is asked to drop the pages when the volume has the bytes, and before the program hears of it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;

use aquifer_volume::Result;
use fuser::{Errno, INodeNo, Notifier, OpenFlags, ReplyWrite, WriteFlags};

/// How the kernel is asked to drop pages.
pub struct Direct {
    notifier: OnceLock<Notifier>,
    /// Threads of the server that wait until the kernel has dropped pages, and how many may. The kernel may wait for other requests meanwhile, for which
    /// threads must be free.
    waiting: AtomicUsize,
    waiting_max: usize,
}

impl Direct {
    /// For a server of `threads` threads.
    pub fn new(threads: usize) -> Self {
        Direct { notifier: OnceLock::new(), waiting: AtomicUsize::new(0), waiting_max: threads / 2 }
    }

    /// Has the kernel be asked by this from now on.
    pub fn ask_by(&self, notifier: Notifier) {
        // There is one session.
        let _ = self.notifier.set(notifier);
    }

    fn drop_pages(&self, number: INodeNo, offset: u64, len: usize) {
        if let Some(notifier) = self.notifier.get() {
            // A file that the kernel forgets meanwhile has no pages.
            let _ = notifier.inval_inode(number, offset as i64, len as i64);
        }
    }

    /// Answers a write around the kernel's pages that wrote `written` bytes at `offset`, or failed, when the kernel has none of the pages from before.
    pub fn answer(self: &Arc<Self>, number: INodeNo, offset: u64, written: Result<usize>, reply: ReplyWrite) {
        let written = match written {
            Ok(written) => written,
            Err(error) => return reply.error(Errno::from_i32(error.errno())),
        };
        let is_allowed = self.waiting.fetch_add(1, Ordering::Relaxed) < self.waiting_max;
        if is_allowed {
            self.drop_pages(number, offset, written);
            reply.written(written as u32);
        } else {
            let direct = Arc::clone(self);
            // Without a thread the program gets EIO from the reply's end: it cannot be told yet that the bytes are there.
            let _ = thread::Builder::new().spawn(move || {
                direct.drop_pages(number, offset, written);
                reply.written(written as u32);
            });
        }
        self.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Whether a write goes around the kernel's pages.
pub fn is_direct(flags: WriteFlags, of_file: OpenFlags) -> bool {
    of_file.0 & libc::O_DIRECT != 0 && !flags.contains(WriteFlags::FUSE_WRITE_CACHE)
}
