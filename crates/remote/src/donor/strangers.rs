//! Connections whose peer has not said yet who it is.

use std::collections::BTreeMap;
use std::io;
use std::net::TcpStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::control::Ender;

/// Strangers at once.
const STRANGERS_MAX: usize = 64;

/// Connections of strangers. If there are too many, the one that waits longest is ended: who knows what to say does so at once.
#[derive(Default)]
pub struct Strangers {
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    /// The oldest first.
    enders: BTreeMap<u64, Ender>,
    came: u64,
}

impl Strangers {
    /// A new one, at `socket`. To be called in the order in which they came: a thread of its own for each may run in any
    /// order, and a borrower that came last, and spoke at once, would be the oldest.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn come(self: &Arc<Self>, socket: &TcpStream) -> io::Result<Stranger> {
        let ender = Ender::of(socket)?;
        let mut waiting = self.lock();
        if waiting.enders.len() >= STRANGERS_MAX
            && let Some((_, oldest)) = waiting.enders.pop_first()
        {
            oldest.end();
        }
        waiting.came += 1;
        let nth = waiting.came;
        waiting.enders.insert(nth, ender);
        drop(waiting);
        Ok(Stranger { strangers: Arc::clone(self), nth })
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One of them, until it is dropped.
pub struct Stranger {
    strangers: Arc<Strangers>,
    nth: u64,
}

impl Drop for Stranger {
    fn drop(&mut self) {
        self.strangers.lock().enders.remove(&self.nth);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn the_one_that_came_first_gives_way_and_nobody_else() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("listen");
        let address = listener.local_addr().expect("an address");
        let strangers = Arc::new(Strangers::default());
        let come = || {
            let theirs = TcpStream::connect(address).expect("connect");
            let (ours, _) = listener.accept().expect("accept");
            let stranger = strangers.come(&ours).expect("a descriptor");
            theirs.set_nonblocking(true).expect("a socket");
            (theirs, ours, stranger)
        };
        let mut all: Vec<_> = (0..STRANGERS_MAX + 3).map(|_| come()).collect();
        let ended = all.iter_mut().map(|(theirs, _, _)| theirs.read(&mut [0]).is_ok()).collect::<Vec<_>>();
        let wanted: Vec<_> = (0..all.len()).map(|nth| nth < 3).collect();
        assert_eq!(ended, wanted);
        // A borrower that has said who it is makes room.
        all.drain(3..5);
        let more = [come(), come()];
        assert!(all.iter_mut().skip(3).all(|(theirs, _, _)| theirs.read(&mut [0]).is_err()));
        drop(more);
    }
}
