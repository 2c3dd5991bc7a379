//! The borrower's end.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use aquifer_sys::memory::{MappedRange, Protection, page_size};
use rustix::io::Errno;

use super::PROVIDER;
use super::listener::failed;
use super::passing::{Packet, Passing, delay_of, key_of};
use crate::transport::fabric::Token;
use crate::transport::{Completion, Direction, Endpoint, PostError, Staging, Transfer, TransportError};
use crate::words::Words;

/// How long a slab may take to come that the donor says it has lent: it is sent before that.
const SLAB_LIMIT: Duration = Duration::from_secs(1);
/// Transfers that have ended and were not asked for yet: more than a link has under way.
const ENDED_MAX: usize = 1024;

/// Connects to a donor of this machine that has given out this token.
///
/// # Errors
/// [`TransportError`]: nobody there, token refused.
pub fn connect(
    number: u16,
    token: &Token,
    limit: Duration,
    staging: &Arc<Staging>,
) -> Result<Box<dyn Endpoint>, TransportError> {
    let refused = |reason: String| TransportError::Refused {
        address: format!("the donor's shared memory (number {number})"),
        reason,
    };
    let passing = Passing::connect(number).map_err(|error| {
        let hint = "a program in another network namespace needs a donor with --provider tcp";
        refused(format!("{}; {hint}", std::io::Error::from(error)))
    })?;
    let send = passing.send(token, None).and_then(|()| passing.wait(limit));
    if !send.map_err(|error| failed("showing a token", error))? {
        return Err(refused(format!("it did not answer within {} ms", limit.as_millis())));
    }
    let answer = passing.receive().map_err(|_| refused("it does not know this token".into()))?;
    let delay = delay_of(&answer.bytes).ok_or_else(|| refused("its answer makes no sense".into()))?;
    let state = State { slabs: BTreeMap::new(), passing };
    Ok(Box::new(Borrowed {
        state: RwLock::new(state),
        delay,
        ended: Mutex::new(VecDeque::with_capacity(ENDED_MAX)),
        has_ended: Condvar::new(),
        staging: Arc::clone(staging),
    }))
}

struct Borrowed {
    /// A thread that transfers bytes holds it for reading.
    state: RwLock<State>,
    /// How long a transfer takes at least, from its post on.
    delay: Duration,
    /// Transfers whose bytes were copied, and when they have ended if they are delayed.
    ended: Mutex<VecDeque<(Completion, Option<Instant>)>>,
    has_ended: Condvar,
    staging: Arc<Staging>,
}

struct State {
    slabs: BTreeMap<u64, MappedRange>,
    passing: Passing,
}

impl Borrowed {
    fn ended(&self) -> MutexGuard<'_, VecDeque<(Completion, Option<Instant>)>> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Copies, if the slab is known.
    fn copy(&self, transfer: &Transfer) -> Option<Result<(), i32>> {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        let slab = state.slabs.get(&transfer.place.key)?;
        let len = transfer.part.len;
        let within = usize::try_from(transfer.place.address).unwrap_or(usize::MAX);
        if within > slab.len() || len > slab.len() - within {
            return Some(Err(-libc::EACCES));
        }
        let (own, theirs) = (self.staging.start(transfer.part), slab.base().wrapping_add(within));
        // SAFETY: both are within what is mapped, which cannot become shorter; the part is the transfer's by the promise of `post`, and the slab's bytes are
        // whatever they are: nobody holds a reference into them.
        unsafe {
            match transfer.direction {
                Direction::Read => own.copy_from_nonoverlapping(theirs, len),
                Direction::Write => theirs.copy_from_nonoverlapping(own, len),
            }
        }
        Some(Ok(()))
    }

    /// Takes what the donor has sent, until it was this slab.
    fn learn(&self, key: u64) -> Result<(), i32> {
        let until = Instant::now() + SLAB_LIMIT;
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        while !state.slabs.contains_key(&key) {
            match state.passing.receive() {
                Ok(packet) => state.note(packet).ok_or(-libc::EBADMSG)?,
                Err(Errno::AGAIN) => {
                    let left = until.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return Err(-libc::EACCES);
                    }
                    state.passing.wait(left).map_err(|error| -error.raw_os_error())?;
                }
                Err(error) => return Err(-error.raw_os_error()),
            }
        }
        Ok(())
    }
}

/// Looks at the clock until then, as who waits for a fast network does.
fn wait_until(end: Instant) {
    while Instant::now() < end {
        std::hint::spin_loop();
    }
}

impl State {
    /// A slab that has come, or one that is gone.
    fn note(&mut self, packet: Packet) -> Option<()> {
        let key = key_of(&packet.bytes)?;
        let Some(memory) = packet.memory else {
            self.slabs.remove(&key);
            return Some(());
        };
        // What could become shorter would end this process by a signal.
        let len = usize::try_from(memory.fixed_len().ok()?).ok()?;
        if !len.is_multiple_of(page_size()) {
            return None;
        }
        let range = memory.map(0, len, Protection::Write).ok()?;
        self.slabs.insert(key, range);
        Some(())
    }
}

impl Endpoint for Borrowed {
    fn provider(&self) -> &str {
        PROVIDER
    }

    unsafe fn post(&self, transfer: &Transfer) -> Result<(), PostError> {
        // The clock is looked at only if somebody asked for it.
        let end = (!self.delay.is_zero()).then(|| Instant::now() + self.delay);
        let copied = loop {
            if let Some(copied) = self.copy(transfer) {
                break copied;
            }
            self.learn(transfer.place.key).map_err(PostError::Failed)?;
        };
        copied.map_err(PostError::Failed)?;
        let mut ended = self.ended();
        if ended.len() == ENDED_MAX {
            return Err(PostError::Busy);
        }
        ended.push_back((Completion { tag: transfer.tag, error: 0 }, end));
        drop(ended);
        self.has_ended.notify_one();
        Ok(())
    }

    fn poll(&self, completions: &mut [Completion], limit: Duration) -> Result<usize, i32> {
        let mut ended = self.ended();
        if ended.is_empty() && !limit.is_zero() {
            let waited = self.has_ended.wait_timeout(ended, limit);
            ended = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        let first = ended.front().and_then(|(_, end)| *end);
        if let Some(end) = first.filter(|_| !limit.is_zero()) {
            drop(ended);
            wait_until(end.min(Instant::now() + limit));
            ended = self.ended();
        }
        let has_ended =
            |(_, end): &&(Completion, Option<Instant>)| end.is_none_or(|end| end <= Instant::now());
        let count = ended.iter().take(completions.len()).take_while(has_ended).count();
        completions.iter_mut().zip(ended.drain(..count)).for_each(|(to, (from, _))| *to = from);
        Ok(count)
    }

    fn explain(&self, error: i32) -> Words {
        Words::of_errno(-error)
    }
}

#[cfg(test)]
mod tests {
    use aquifer_sys::memory::SharedMemory;

    use super::super::passing::of_key;
    use super::*;
    use crate::transport::{Part, Place};

    const TOKEN: Token = [7; 32];
    const KEY: u64 = 5;
    const LIMIT: Duration = Duration::from_secs(10);

    /// What a read of a slab says when a donor has sent these packets.
    fn read_after(packets: &[(&[u8; 32], Option<SharedMemory>)]) -> Result<(), PostError> {
        let number = std::process::id() as u16;
        let listening = (0..u16::MAX).find_map(|more| {
            let number = number.wrapping_add(more);
            Passing::listen(number).ok().map(|passing| (number, passing))
        });
        let (number, listening) = listening.expect("a number");
        let staging = Staging::new(4096).expect("memory");
        let (endpoint, _theirs) = std::thread::scope(|scope| {
            let donor = scope.spawn(|| {
                assert!(listening.wait(LIMIT).expect("wait"));
                let theirs = listening.accept().expect("accept");
                theirs.send(&of_key(0), None).expect("send");
                packets.iter().for_each(|(bytes, memory)| theirs.send(bytes, memory.as_ref()).expect("send"));
                theirs
            });
            let endpoint = connect(number, &TOKEN, LIMIT, &staging).expect("connect");
            (endpoint, donor.join().expect("the donor"))
        });
        let place = Place { address: 0, key: KEY };
        let part = Part { offset: 0, len: 4096 };
        // SAFETY: nobody else uses the staging memory.
        unsafe { endpoint.post(&Transfer { direction: Direction::Read, place, part, tag: 1 }) }
    }

    #[test]
    fn what_could_become_shorter_is_not_taken() {
        let fixed = SharedMemory::of_fixed_len(4096).expect("memory");
        assert_eq!(read_after(&[(&of_key(KEY), Some(fixed))]), Ok(()));
        let loose = SharedMemory::new(4096).expect("memory");
        assert_eq!(read_after(&[(&of_key(KEY), Some(loose))]), Err(PostError::Failed(-libc::EBADMSG)));
        let short = SharedMemory::of_fixed_len(100).expect("memory");
        assert_eq!(read_after(&[(&of_key(KEY), Some(short))]), Err(PostError::Failed(-libc::EBADMSG)));
    }

    #[test]
    fn packets_without_sense_end_the_connection() {
        assert_eq!(read_after(&[(&[255; 32], None)]), Err(PostError::Failed(-libc::EBADMSG)));
        let fixed = SharedMemory::of_fixed_len(4096).expect("memory");
        let gone = [(&of_key(KEY), Some(fixed)), (&of_key(KEY), None), (&[1; 32], None)];
        assert_eq!(read_after(&gone), Ok(()), "what comes later is seen later");
        assert_eq!(
            read_after(&[(&of_key(9), None), (&[1; 32], None)]),
            Err(PostError::Failed(-libc::EBADMSG))
        );
    }
}
