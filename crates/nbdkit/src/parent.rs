//! `aquifer block`, which has started nbdkit with this plugin.
//!
//! Both hold one end of a socket. The plugin says in lines what becomes of the server. When the parent says that it is enough, or has ended, the server
//! ends: nbdkit waits for its clients then, however long they stay, so their sockets are shut down here.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{FromRawFd, RawFd};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use aquifer_block::nbdkit::{LISTENING, Word};

use crate::abi;
use crate::clients::{Half, Listening};
use crate::negotiations::Negotiations;

/// How often sockets are looked at while the server ends, or while a client has not begun.
const PAUSE: Duration = Duration::from_millis(100);
/// Requests that have begun may take this long when the server ends; then their clients are cut off.
const FAREWELL_ROUNDS: u32 = 100;

/// Stack of the two threads. Little, because a process whose memory is locked pays for all of it.
const STACK_BYTES: usize = 128 << 10;

/// One end of the socket to the parent.
pub struct Parent(Mutex<File>);

impl Parent {
    /// The parent at `descriptor`, if it is one.
    pub fn new(descriptor: RawFd) -> Option<Self> {
        // SAFETY: the number comes from the parent, who gave the descriptor to this process for nothing else.
        let socket = unsafe { File::from_raw_fd(descriptor) };
        rustix::io::fcntl_setfd(&socket, rustix::io::FdFlags::CLOEXEC).ok()?;
        Some(Parent(Mutex::new(socket)))
    }

    /// Says what becomes of the server, and more about it.
    pub fn tell(&self, word: Word, more: &str) {
        // A parent that has gone does not listen; the other thread hears of that.
        let _ = self.socket().write_all(word.line(more).as_bytes());
    }

    fn socket(&self) -> MutexGuard<'_, File> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts what waits for the end, and what waits for clients that do not begin.
    ///
    /// # Errors
    /// There is no thread, or the listening socket is not there.
    pub fn watch(
        &'static self,
        negotiations: &'static Negotiations,
        patience: Duration,
    ) -> std::io::Result<()> {
        let listening = Listening::at(LISTENING)?;
        let mut socket = self.socket().try_clone()?;
        let builder = || thread::Builder::new().stack_size(STACK_BYTES);
        let silent = listening.clone();
        builder().name("aq-nbd-silent".into()).spawn(move || negotiations.end_silent(patience, &silent))?;
        let end = move || {
            // A word or the end: both mean the same.
            let _ = socket.read(&mut [0]);
            if listening.has_clients() {
                self.tell(
                    Word::Note,
                    "ending: requests that have begun are answered, connections are closed",
                );
            }
            abi::shut_down();
            listening.close(LISTENING);
            for round in 0.. {
                let half = if round < FAREWELL_ROUNDS { Half::Requests } else { Half::Both };
                listening.shut_down_clients(half, |_| true);
                thread::sleep(PAUSE);
            }
        };
        builder().name("aq-nbd-end".into()).spawn(end).map(drop)
    }
}
