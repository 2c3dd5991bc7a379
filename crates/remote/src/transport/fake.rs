//! A donor in this process that misbehaves when told to: what networks and machines do, on demand.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::endpoint::{Completion, Direction, Endpoint, Place, PostError, Transfer};
use super::staging::{Part, Staging};
use crate::words::Words;

/// Transfers under way for which it allocates nothing.
const UNDER_WAY: usize = 1024;

/// What happens to transfers that begin from now on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Behaviour {
    /// They are done at once.
    Prompt,
    /// They are done after so long.
    Late(Duration),
    /// They are done, and nobody hears of it.
    Silent,
    /// Nothing is done until [`FakeDonor::resume`].
    Stopped,
    /// They fail with this negative error.
    Failing(i32),
    /// Reads have a wrong bit.
    Flipping,
}

/// A donor with one slab.
pub struct FakeDonor {
    shared: Arc<Shared>,
}

struct Shared {
    slab: Arc<Staging>,
    key: u64,
    state: Mutex<State>,
}

struct State {
    behaviour: Behaviour,
    under_way: VecDeque<UnderWay>,
    /// Connections whose end the donor respects.
    is_fenced: bool,
}

struct UnderWay {
    transfer: Transfer,
    due: Option<Instant>,
    behaviour: Behaviour,
    /// Of the borrower.
    staging: Arc<Staging>,
    connection: u64,
}

impl FakeDonor {
    /// A donor of one slab of `slab_bytes`.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub fn new(slab_bytes: usize) -> aquifer_sys::errno::Result<FakeDonor> {
        let slab = Staging::new(slab_bytes)?;
        let state = State {
            behaviour: Behaviour::Prompt,
            under_way: VecDeque::with_capacity(UNDER_WAY),
            is_fenced: true,
        };
        Ok(FakeDonor { shared: Arc::new(Shared { slab, key: 0x5eed, state: Mutex::new(state) }) })
    }

    /// Where its slab is.
    #[must_use]
    pub fn place(&self) -> Place {
        Place { address: 0, key: self.shared.key }
    }

    /// Says how it behaves from now on.
    pub fn behave(&self, behaviour: Behaviour) {
        self.shared.lock().behaviour = behaviour;
    }

    /// Whether the end of a connection keeps its answers out, as it does with real providers. Without it, a test of that can fail.
    pub fn respect_fences(&self, is_fenced: bool) {
        self.shared.lock().is_fenced = is_fenced;
    }

    /// Resumes after [`Behaviour::Stopped`], and answers all transfers that were posted meanwhile, late as
    /// they are.
    pub fn resume(&self) {
        let mut state = self.shared.lock();
        state.behaviour = Behaviour::Prompt;
        for under_way in &mut state.under_way {
            if under_way.behaviour == Behaviour::Stopped {
                self.shared.move_bytes(under_way);
                (under_way.behaviour, under_way.due) = (Behaviour::Prompt, Some(Instant::now()));
            }
        }
    }

    /// All bytes of its slab, as a donor sees them.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.shared.slab.len()];
        let _state = self.shared.lock();
        // SAFETY: the part is all of the memory, and all other users of the memory hold the lock.
        unsafe { self.shared.slab.take(self.whole(), &mut bytes) };
        bytes
    }

    /// Puts other bytes there.
    pub fn replace_bytes(&self, bytes: &[u8]) {
        let _state = self.shared.lock();
        // SAFETY: as above.
        unsafe { self.shared.slab.fill(self.whole(), bytes) };
    }

    fn whole(&self) -> Part {
        Part { offset: 0, len: self.shared.slab.len() }
    }

    /// A connection that transfers from and to this memory.
    #[must_use]
    pub fn connect(&self, staging: &Arc<Staging>) -> Box<dyn Endpoint> {
        static CONNECTIONS: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
        let connection = CONNECTIONS.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Box::new(Connection { shared: Arc::clone(&self.shared), staging: Arc::clone(staging), connection })
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn holds(&self, transfer: &Transfer) -> bool {
        let end = transfer.place.address.checked_add(transfer.part.len as u64);
        transfer.place.key == self.key && end.is_some_and(|end| end <= self.slab.len() as u64)
    }

    fn move_bytes(&self, under_way: &UnderWay) {
        let Transfer { direction, place, part, .. } = under_way.transfer;
        let local = under_way.staging.start(part);
        let remote = self.slab.start(Part { offset: place.address as usize, len: part.len });
        match direction {
            // SAFETY: both are within their memory; the part is the transfer's by the promise of `post`, and the slab's bytes are whatever they are.
            Direction::Read => unsafe { local.copy_from(remote, part.len) },
            // SAFETY: as above.
            Direction::Write => unsafe { local.copy_to(remote, part.len) },
        }
        if under_way.behaviour == Behaviour::Flipping && direction == Direction::Read {
            // SAFETY: as above; a part is never empty.
            unsafe { *local ^= 1 };
        }
    }
}

struct Connection {
    shared: Arc<Shared>,
    staging: Arc<Staging>,
    connection: u64,
}

impl Endpoint for Connection {
    fn provider(&self) -> &str {
        "fake"
    }

    unsafe fn post(&self, transfer: &Transfer) -> Result<(), PostError> {
        let mut state = self.shared.lock();
        if !self.shared.holds(transfer) {
            return Err(PostError::Failed(-libc::EACCES));
        }
        let behaviour = state.behaviour;
        let delay = match behaviour {
            Behaviour::Late(delay) => delay,
            _ => Duration::ZERO,
        };
        state.under_way.push_back(UnderWay {
            transfer: *transfer,
            due: (behaviour != Behaviour::Stopped).then(|| Instant::now() + delay),
            behaviour,
            staging: Arc::clone(&self.staging),
            connection: self.connection,
        });
        Ok(())
    }

    fn poll(&self, completions: &mut [Completion], limit: Duration) -> Result<usize, i32> {
        let began = Instant::now();
        loop {
            let ended = self.take_ended(completions);
            if ended > 0 || began.elapsed() >= limit {
                return Ok(ended);
            }
            std::thread::sleep(Duration::from_micros(50));
        }
    }

    fn explain(&self, error: i32) -> Words {
        Words::of_errno(-error)
    }
}

impl Connection {
    fn take_ended(&self, completions: &mut [Completion]) -> usize {
        let (mut state, now, mut ended) = (self.shared.lock(), Instant::now(), 0);
        for _ in 0..state.under_way.len() {
            let Some(under_way) = state.under_way.pop_front() else { break };
            let is_due = under_way.due.is_some_and(|due| due <= now);
            if under_way.connection != self.connection || !is_due || ended == completions.len() {
                state.under_way.push_back(under_way);
                continue;
            }
            let error = match under_way.behaviour {
                Behaviour::Failing(error) => error,
                _ => 0,
            };
            if error == 0 {
                self.shared.move_bytes(&under_way);
            }
            if under_way.behaviour != Behaviour::Silent {
                completions[ended] = Completion { tag: under_way.transfer.tag, error };
                ended += 1;
            }
        }
        ended
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        if state.is_fenced {
            state.under_way.retain(|under_way| under_way.connection != self.connection);
        }
    }
}
