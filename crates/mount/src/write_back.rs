//! What the kernel holds of files when it writes back.
//!
//! The kernel takes what programs write, and brings it later. What there is no room for then is an error of the program's next `fsync` or `close` by the
//! kernel's own means. A program that only goes on writing would never meet it: so the kernel's attributes of the file are made invalid. The next `write` of
//! the file asks for them, and gets the error.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use aquifer_volume::{Ino, Result, VolumeError};
use fuser::{Errno, INodeNo, Notifier, ReplyWrite, WriteFlags};

use crate::attributes::{ino_of, number_of};
use crate::server::Server;

/// Files of which the kernel has more than the volume.
pub struct WriteBack {
    /// The error of what was brought last, by file, until a `write` has met it.
    failed: Mutex<HashMap<Ino, i32>>,
    notifier: OnceLock<Notifier>,
    /// Threads that wait for what the kernel brings, and how many may: others must be free to take it.
    bringing: AtomicUsize,
    bringing_max: usize,
}

impl WriteBack {
    /// For a server of `threads` threads, at least two.
    pub fn new(threads: usize) -> Self {
        WriteBack {
            failed: Mutex::default(),
            notifier: OnceLock::new(),
            bringing: AtomicUsize::new(0),
            bringing_max: threads / 2,
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Ino, i32>> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the kernel be asked by this from now on.
    pub fn ask_by(&self, notifier: Notifier) {
        // There is one session.
        let _ = self.notifier.set(notifier);
    }

    /// Has the next `write` of a file fail with `errno`. The kernel has its answer already: it may wait for that in what this asks of it.
    fn fail(&self, ino: Ino, errno: i32) {
        self.lock().insert(ino, errno);
        self.forget_attributes(number_of(ino));
    }

    /// Has the kernel ask for a file's attributes when it needs them next: it does not know how much room what it brought has taken.
    pub fn forget_attributes(&self, number: INodeNo) {
        if let Some(notifier) = self.notifier.get() {
            // A file that the kernel forgets meanwhile has no readers.
            let _ = notifier.inval_inode(number, -1, 0);
        }
    }

    /// The error that a `write` of a file has to meet, once.
    pub fn take_failure(&self, number: INodeNo) -> Option<i32> {
        self.lock().remove(&ino_of(number).ok()?)
    }

    /// The kernel has nothing of a file any more.
    pub fn forget(&self, ino: Ino) {
        self.lock().remove(&ino);
    }

    /// Has the kernel bring what it has of a file from `offset` on; `false` if it may have kept some.
    pub fn bring(&self, ino: Ino, offset: u64) -> bool {
        let is_allowed = self.bringing.fetch_add(1, Ordering::Relaxed) < self.bringing_max;
        let is_brought = is_allowed
            && self.notifier.get().is_some_and(|notifier| {
                notifier.inval_inode(number_of(ino), offset.min(i64::MAX as u64) as i64, 0).is_ok()
            });
        self.bringing.fetch_sub(1, Ordering::Relaxed);
        is_brought
    }
}

impl Server {
    /// Answers a `write` of `bytes` at `offset` that wrote `written` of them, or failed. What the kernel brings from its cache is written whole or not: nobody looks at a count.
    pub fn answer_write(
        &self,
        number: INodeNo,
        (offset, bytes): (u64, &[u8]),
        flags: WriteFlags,
        written: Result<usize>,
        reply: ReplyWrite,
    ) {
        let is_from_cache = flags.contains(WriteFlags::FUSE_WRITE_CACHE);
        let outcome = written.and_then(|written| match written {
            all if all == bytes.len() => Ok(all),
            some if is_from_cache => {
                let rest = self.write_bytes(number, offset.saturating_add(some as u64), &bytes[some..])?;
                if some + rest == bytes.len() { Ok(bytes.len()) } else { Err(VolumeError::NoSpace) }
            }
            some => Ok(some),
        });
        match outcome {
            Ok(written) => reply.written(written as u32),
            Err(error) => {
                reply.error(Errno::from_i32(error.errno()));
                if let (true, Some(write_back), Ok(ino)) = (is_from_cache, &self.write_back, ino_of(number)) {
                    write_back.fail(ino, error.errno());
                }
            }
        }
    }
}
