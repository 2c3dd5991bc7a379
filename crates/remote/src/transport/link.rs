//! A connection to a donor that keeps its word: bytes, or an error by the deadline.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::{Duration, Instant};

use super::clock::Pace;
use super::endpoint::{Completion, Direction, Endpoint, Place, PostError, Transfer};
use super::error::{LinkError, TransportError};
use super::flights::{Flight, Flights, Piece, pieces, run_of};
use super::slots::{LARGE_BYTES, Progress, SMALL_BYTES, Slot, Slots};
use super::staging::{Part, Staging};
use super::traffic::Traffic;

/// The longest sleep of one poll: a thread that closes the link waits for it.
const POLL_LIMIT: Duration = Duration::from_millis(10);
/// Completions taken at once.
const COMPLETIONS: usize = 32;

/// How a link works.
#[derive(Clone, Debug)]
pub struct LinkOptions {
    /// Transfers of up to 4 KiB under way at once.
    pub small_slots: usize,
    /// Transfers of up to 128 KiB under way at once; longer ones are cut.
    pub large_slots: usize,
    /// A transfer that takes longer ends the link.
    pub deadline: Duration,
    /// Whether waiting threads look for a while before they sleep.
    pub spins: bool,
}

impl Default for LinkOptions {
    fn default() -> Self {
        let has_processors =
            std::thread::available_parallelism().is_ok_and(|processors| processors.get() > 1);
        LinkOptions {
            small_slots: 64,
            large_slots: 16,
            deadline: Duration::from_secs(1),
            spins: has_processors,
        }
    }
}

impl LinkOptions {
    /// The largest slots that fit into `bytes`, within useful limits.
    #[must_use]
    pub fn within(bytes: usize) -> LinkOptions {
        let most = LinkOptions::default();
        let small_slots = (bytes / 8 / SMALL_BYTES).clamp(16, most.small_slots);
        let large_slots = (bytes / LARGE_BYTES).clamp(2, most.large_slots);
        LinkOptions { small_slots, large_slots, ..most }
    }

    /// RAM that a link takes.
    #[must_use]
    pub fn ram_bytes(&self) -> usize {
        size_of::<Link>() + Slots::new(self.small_slots, self.large_slots).staging_bytes()
    }
}

/// Bytes to read.
#[derive(Debug)]
pub struct Read<'a> {
    /// Where they are.
    pub from: Place,
    /// Where they go.
    pub to: &'a mut [u8],
}

/// Bytes to write.
#[derive(Clone, Copy, Debug)]
pub struct Write<'a> {
    /// What.
    pub from: &'a [u8],
    /// Where they go.
    pub to: Place,
}

/// A connection to a donor. Any number of threads use it at once: one of those that wait moves everybody's transfers on.
///
/// The first error ends it; all that was under way fails.
pub struct Link {
    /// Gone when the link has ended.
    endpoint: RwLock<Option<Box<dyn Endpoint>>>,
    staging: Arc<Staging>,
    slots: Slots,
    is_polled: AtomicBool,
    pace: Pace,
    traffic: Traffic,
    deadline: Duration,
    end: OnceLock<LinkError>,
    provider: String,
}

impl Link {
    /// A link over the endpoint that `connect` makes, which transfers from and to this memory.
    ///
    /// # Errors
    /// Of `connect`, or no memory.
    pub fn new(
        options: &LinkOptions,
        connect: impl FnOnce(&Arc<Staging>) -> Result<Box<dyn Endpoint>, TransportError>,
    ) -> Result<Link, TransportError> {
        let slots = Slots::new(options.small_slots, options.large_slots);
        let staging = Staging::new(slots.staging_bytes()).map_err(|error| TransportError::Failed {
            doing: "memory for transfers",
            reason: error.to_string(),
        })?;
        let endpoint = connect(&staging)?;
        Ok(Link {
            provider: endpoint.provider().to_string(),
            endpoint: RwLock::new(Some(endpoint)),
            staging,
            slots,
            is_polled: AtomicBool::new(false),
            pace: Pace::new(options.spins),
            traffic: Traffic::default(),
            deadline: options.deadline,
            end: OnceLock::new(),
        })
    }

    /// The provider that carries the bytes.
    #[must_use]
    pub fn provider(&self) -> &str {
        &self.provider
    }

    /// What it has carried.
    #[must_use]
    pub fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    /// Why it ended, if it has.
    #[must_use]
    pub fn end(&self) -> Option<LinkError> {
        self.end.get().copied()
    }

    /// Ends it. From its return on no answer of the donor reaches memory of this process.
    pub fn close(&self) {
        self.fail(LinkError::Closed);
    }

    /// Reads bytes.
    ///
    /// # Errors
    /// [`LinkError`]; what the buffer holds then means nothing.
    ///
    /// # Context
    /// Blocks, for no longer than the deadline. Allocates nothing itself; its provider may.
    pub fn read(&self, from: Place, to: &mut [u8]) -> Result<(), LinkError> {
        self.read_many(&mut [Read { from, to }])
    }

    /// Writes bytes; they are in the donor's memory then.
    ///
    /// # Errors
    /// [`LinkError`]; the donor's memory then holds any mixture of old and new bytes.
    ///
    /// # Context
    /// As [`Link::read`].
    pub fn write(&self, from: &[u8], to: Place) -> Result<(), LinkError> {
        self.write_many(&[Write { from, to }])
    }

    /// Reads many, as many at once as there is room for; those that follow each other in the donor's memory and here are one transfer.
    ///
    /// # Errors
    /// As [`Link::read`].
    pub fn read_many(&self, reads: &mut [Read<'_>]) -> Result<(), LinkError> {
        let mut flights = Flights::default();
        let (mut next, mut outcome) = (0, Ok(()));
        while next < reads.len() && outcome.is_ok() {
            let (count, len) = run_of(reads[next..].iter().map(|read| (read.from, read.to.len())));
            outcome = pieces(next, reads[next].from, len).try_for_each(|piece| {
                let slot = self.slot_for(&piece, &mut flights, |flight| self.take(flight, reads))?;
                self.launch(Direction::Read, slot, piece, &mut flights)
            });
            next += count;
        }
        let outcome = outcome.and_then(|()| self.land_all(&mut flights, |flight| self.take(flight, reads)));
        self.give_back(&mut flights);
        outcome
    }

    /// Gives the bytes of a transfer that has ended to the reads that they are for.
    fn take(&self, flight: &Flight, reads: &mut [Read<'_>]) {
        let Piece { nth, mut start, len, .. } = flight.piece;
        let Part { offset, .. } = self.part(flight);
        let mut done = 0;
        for read in &mut reads[nth..] {
            let count = (read.to.len() - start).min(len - done);
            // SAFETY: the transfer has ended, and its slot is not given back yet.
            unsafe {
                self.staging
                    .take(Part { offset: offset + done, len: count }, &mut read.to[start..start + count]);
            }
            done += count;
            start = 0;
            if done == len {
                return;
            }
        }
    }

    /// Writes many, as many at once as there is room for, in no order.
    ///
    /// # Errors
    /// As [`Link::write`].
    pub fn write_many(&self, writes: &[Write<'_>]) -> Result<(), LinkError> {
        self.begin_write(writes).finish()
    }

    /// Begins to write many. Those for which there is no room wait here for those before them, so what begins on several links must begin in one order of links
    /// everywhere: else two callers could wait for each other.
    pub fn begin_write(&self, writes: &[Write<'_>]) -> Writing<'_> {
        let mut flights = Flights::default();
        let outcome = writes.iter().enumerate().try_for_each(|(nth, write)| {
            pieces(nth, write.to, write.from.len()).try_for_each(|piece| {
                let slot = self.slot_for(&piece, &mut flights, |_| ())?;
                let bytes = &write.from[piece.start..piece.start + piece.len];
                // SAFETY: the slot was just taken.
                unsafe { self.staging.fill(self.slots.part(slot), bytes) };
                self.launch(Direction::Write, slot, piece, &mut flights)
            })
        });
        Writing { link: self, flights, outcome }
    }

    /// A slot for a piece. If there is none, the caller's own transfers are waited for, or else other callers'.
    fn slot_for(
        &self,
        piece: &Piece,
        flights: &mut Flights,
        mut landed: impl FnMut(&Flight),
    ) -> Result<Slot, LinkError> {
        loop {
            let returned = self.slots.returned();
            if !flights.is_full()
                && let Some(slot) = self.slots.take(piece.len)
            {
                return Ok(slot);
            }
            match flights.pop() {
                Some(flight) => self.land(flight, &mut landed)?,
                None => self.slots.wait_for_return(returned, POLL_LIMIT),
            }
        }
    }

    /// Begins the transfer of a piece.
    fn launch(
        &self,
        direction: Direction,
        slot: Slot,
        piece: Piece,
        flights: &mut Flights,
    ) -> Result<(), LinkError> {
        let flight = Flight { direction, slot, piece, since: Instant::now() };
        flights.push(flight);
        let transfer = Transfer { direction, place: piece.place, part: self.part(&flight), tag: slot.0 };
        self.slots.launch(slot);
        loop {
            match self.post(&transfer)? {
                Ok(()) => return Ok(()),
                Err(PostError::Failed(error)) => return Err(self.fail_by(error)),
                Err(PostError::Busy) if flight.since.elapsed() > self.deadline => {
                    return Err(self.fail(LinkError::Timeout(self.deadline)));
                }
                Err(PostError::Busy) => self.poll_in_turn(Duration::ZERO)?,
            }
        }
    }

    fn post(&self, transfer: &Transfer) -> Result<Result<(), PostError>, LinkError> {
        let endpoint = self.endpoint.read().unwrap_or_else(PoisonError::into_inner);
        let Some(endpoint) = &*endpoint else { return Err(self.reason()) };
        // SAFETY: the slot is the caller's until the transfer lands; after an error it goes back when the endpoint is gone.
        Ok(unsafe { endpoint.post(transfer) })
    }

    /// Waits for a transfer, and gives its slot back.
    fn land(&self, flight: Flight, mut landed: impl FnMut(&Flight)) -> Result<(), LinkError> {
        let outcome = self.wait(&flight);
        if outcome.is_ok() {
            landed(&flight);
            let took = flight.since.elapsed();
            self.pace.note(took);
            self.traffic.note(flight.direction, flight.piece.len, took);
        }
        self.slots.give_back(flight.slot);
        outcome
    }

    fn land_all(&self, flights: &mut Flights, mut landed: impl FnMut(&Flight)) -> Result<(), LinkError> {
        while let Some(flight) = flights.pop() {
            self.land(flight, &mut landed)?;
        }
        Ok(())
    }

    /// Gives back what an error has left: the link has ended, so nothing touches these slots.
    fn give_back(&self, flights: &mut Flights) {
        while let Some(flight) = flights.pop() {
            self.slots.give_back(flight.slot);
        }
    }

    /// Waits until a transfer has ended, moving on everybody's if nobody else does.
    fn wait(&self, flight: &Flight) -> Result<(), LinkError> {
        let began = Instant::now();
        let spin = self.pace.spin();
        let outcome = loop {
            match self.slots.progress(flight.slot) {
                Progress::Done => break Ok(()),
                Progress::Failed => break Err(self.reason()),
                Progress::Flying => {}
            }
            if flight.since.elapsed() > self.deadline {
                break Err(self.fail(LinkError::Timeout(self.deadline)));
            }
            let is_looking = began.elapsed() < spin;
            if self.begin_polling() {
                self.poll(if is_looking { Duration::ZERO } else { POLL_LIMIT })?;
            } else if is_looking {
                std::thread::yield_now();
            } else {
                let is_my_turn = || !self.is_polled.load(Ordering::SeqCst);
                self.slots.sleep_on(flight.slot, POLL_LIMIT, is_my_turn);
            }
        };
        // Somebody else may sleep who has to poll from now on.
        self.slots.wake_one();
        outcome
    }

    fn begin_polling(&self) -> bool {
        !self.is_polled.load(Ordering::Relaxed) && !self.is_polled.swap(true, Ordering::SeqCst)
    }

    fn poll_in_turn(&self, limit: Duration) -> Result<(), LinkError> {
        if self.begin_polling() { self.poll(limit) } else { Ok(()) }
    }

    /// Lands what has ended. The caller has begun polling, and has left off when this returns.
    fn poll(&self, limit: Duration) -> Result<(), LinkError> {
        let mut completions = [Completion::default(); COMPLETIONS];
        let polled = {
            let endpoint = self.endpoint.read().unwrap_or_else(PoisonError::into_inner);
            endpoint.as_ref().map(|endpoint| endpoint.poll(&mut completions, limit))
        };
        let ended = match polled {
            Some(Ok(ended)) => &completions[..ended],
            _ => &[],
        };
        let is_good = |completion: &&Completion| completion.error == 0;
        ended.iter().filter(is_good).for_each(|completion| self.slots.land(Slot(completion.tag), true));
        self.is_polled.store(false, Ordering::SeqCst);
        // What failed lands when the link has ended.
        match (polled, ended.iter().find(|completion| !is_good(completion))) {
            (None, _) => Err(self.reason()),
            (Some(Err(error)), _) => Err(self.fail_by(error)),
            (_, Some(failed)) => Err(self.fail_by(failed.error)),
            _ => Ok(()),
        }
    }

    fn fail_by(&self, error: i32) -> LinkError {
        let endpoint = self.endpoint.read().unwrap_or_else(PoisonError::into_inner);
        let said = endpoint.as_ref().map(|endpoint| endpoint.explain(error));
        drop(endpoint);
        said.map_or_else(|| self.reason(), |said| self.fail(LinkError::Failed(said)))
    }

    /// Ends the link, if it has not ended; says why it ended.
    fn fail(&self, error: LinkError) -> LinkError {
        let reason = *self.end.get_or_init(|| error);
        // A thread that fails at the same time waits here until no transfer touches memory of this process.
        // Only then may slots be used again.
        let mut endpoint = self.endpoint.write().unwrap_or_else(PoisonError::into_inner);
        drop(endpoint.take());
        drop(endpoint);
        self.slots.land_all();
        reason
    }

    fn reason(&self) -> LinkError {
        self.end.get().copied().unwrap_or(LinkError::Closed)
    }

    fn part(&self, flight: &Flight) -> Part {
        Part { len: flight.piece.len, ..self.slots.part(flight.slot) }
    }
}

/// Writes that have begun.
#[must_use = "nobody knows whether it was written"]
pub struct Writing<'a> {
    link: &'a Link,
    flights: Flights,
    outcome: Result<(), LinkError>,
}

impl Writing<'_> {
    /// Waits until the donor's memory has all of it.
    ///
    /// # Errors
    /// As [`Link::write`].
    pub fn finish(mut self) -> Result<(), LinkError> {
        std::mem::replace(&mut self.outcome, Ok(()))?;
        self.link.land_all(&mut self.flights, |_| ())
    }
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        if !self.flights.is_empty() {
            // Nobody asked, or an error ended the link: what is under way still uses its slots.
            let _ = self.link.land_all(&mut self.flights, |_| ());
            self.link.give_back(&mut self.flights);
        }
    }
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link")
            .field("provider", &self.provider)
            .field("end", &self.end)
            .finish_non_exhaustive()
    }
}
