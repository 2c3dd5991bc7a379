//! Borrows slabs from donors: finds them, keeps their connections, gives slabs back.
//!
//! | thread | loop |
//! |---|---|
//! | `aq-borrower` | gives back what nobody uses, connects again to donors that were gone |
//! | `aq-borrower-asked` (one for each donor) | answers what the donor asks |

mod connection;
mod options;
pub mod placement;
mod returns;

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use aquifer_sys::SignalsBlocked;
use serde::Serialize;

use connection::Connection;
use placement::{Candidate, pick_two};
use returns::Returns;

use crate::control::{Offer, Refusal};
use crate::events::Words;
use crate::mirror::{DonorId, Home, SlabEvent, SlabEvents, Slabs, What};
use crate::random;
use crate::transport::TrafficSeen;

pub use connection::{ConnectError, look};
pub use options::BorrowerOptions;

/// First pause before a donor that was gone is tried again; doubled up to the last.
const PAUSE_FIRST: Duration = Duration::from_millis(100);
const PAUSE_LAST: Duration = Duration::from_secs(10);
/// How often the thread looks up.
const INTERVAL: Duration = Duration::from_millis(100);

/// Why there is no borrower.
#[derive(Debug, thiserror::Error)]
pub enum BorrowerError {
    /// No donor is there.
    #[error("no donor can be reached:\n{0}")]
    Nobody(String),
    /// Donors lend slabs of different sizes.
    #[error("{donor} lends slabs of {theirs} bytes and others of {ours}: start all donors with one --slab")]
    SlabBytes {
        /// Which donor.
        donor: String,
        /// Of it.
        theirs: u64,
        /// Of the others.
        ours: u64,
    },
    /// No thread.
    #[error("the system gives no thread: {0}")]
    Thread(io::Error),
}

/// A donor as the borrower sees it. Its number is its place among the donors of the options.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct DonorSeen {
    /// Host and port.
    pub address: String,
    /// Provider of transfers, if it is connected.
    pub provider: Option<String>,
    /// Which donors fail together.
    pub domain: String,
    /// Slabs borrowed there now.
    pub slabs: usize,
    /// Why it is not connected.
    pub trouble: Option<String>,
    /// What went there and came from there, over all connections so far.
    #[serde(flatten)]
    pub traffic: TrafficSeen,
}

/// Connections to donors.
pub struct Borrower {
    shared: Arc<Shared>,
    slab_bytes: u64,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    options: BorrowerOptions,
    donors: Vec<Mutex<Donor>>,
    returns: Arc<Returns>,
    events: Arc<SlabEvents>,
    is_ending: AtomicBool,
}

struct Donor {
    id: DonorId,
    address: String,
    connection: Option<Arc<Connection>>,
    trouble: Option<String>,
    /// Of connections that have ended.
    before: TrafficSeen,
    events: Arc<SlabEvents>,
    pause: Duration,
    next_try: Instant,
}

impl Borrower {
    /// Connects to donors; those that are not there now are tried again later.
    ///
    /// # Errors
    /// [`BorrowerError`]; that none is there, for instance.
    pub fn start(options: BorrowerOptions) -> Result<Borrower, BorrowerError> {
        let events: Arc<SlabEvents> = Arc::default();
        let donor = |(nth, address): (usize, &String)| {
            Mutex::new(Donor {
                id: DonorId(nth as u64),
                address: address.clone(),
                connection: None,
                trouble: None,
                before: TrafficSeen::default(),
                events: Arc::clone(&events),
                pause: PAUSE_FIRST,
                next_try: Instant::now(),
            })
        };
        let donors = options.donors.iter().enumerate().map(donor).collect();
        let (returns, is_ending) = (Arc::default(), AtomicBool::new(false));
        let shared = Arc::new(Shared { options, donors, returns, events, is_ending });
        shared.connect_missing();
        let slab_bytes = shared.slab_bytes()?;
        let thread = thread::Builder::new().name("aq-borrower".into()).spawn({
            let shared = Arc::clone(&shared);
            move || {
                let _signals = SignalsBlocked::new();
                shared.keep();
            }
        });
        Ok(Borrower { shared, slab_bytes, thread: Some(thread.map_err(BorrowerError::Thread)?) })
    }

    /// Bytes of a slab.
    #[must_use]
    pub fn slab_bytes(&self) -> u64 {
        self.slab_bytes
    }

    /// RAM of this process that connections to all donors take.
    #[must_use]
    pub fn ram_bytes(&self) -> u64 {
        (self.shared.donors.len() * self.shared.options.link.ram_bytes()) as u64
    }

    /// All donors.
    #[must_use]
    pub fn donors(&self) -> Vec<DonorSeen> {
        self.shared.donors.iter().map(|donor| lock(donor).seen()).collect()
    }
}

impl Drop for Borrower {
    fn drop(&mut self) {
        self.shared.is_ending.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        for donor in &self.shared.donors {
            lock(donor).connection = None;
        }
    }
}

impl Slabs for Borrower {
    fn find(&self, slab_bytes: u64, avoid: &[DonorId]) -> Option<Arc<Home>> {
        if slab_bytes != self.slab_bytes {
            return None;
        }
        let mut candidates = self.shared.candidates();
        let avoided = domains_of(&candidates, avoid);
        candidates.retain(|(connection, _)| !avoid.contains(&connection.donor()));
        let (apart, together): (Vec<_>, Vec<_>) =
            candidates.into_iter().partition(|(_, candidate)| !avoided.contains(&candidate.domain));
        // What fails with a donor that is to be avoided is better than nothing.
        find_among(apart).or_else(|| find_among(together))
    }

    fn events(&self) -> Arc<SlabEvents> {
        Arc::clone(&self.shared.events)
    }
}

/// Names of the domains of some donors.
fn domains_of(candidates: &[(Arc<Connection>, Candidate)], donors: &[DonorId]) -> Vec<String> {
    let theirs = candidates.iter().filter(|(connection, _)| donors.contains(&connection.donor()));
    let domains = theirs.map(|(_, candidate)| candidate.domain.clone());
    domains.filter(|domain| !domain.is_empty()).collect()
}

fn find_among(mut candidates: Vec<(Arc<Connection>, Candidate)>) -> Option<Arc<Home>> {
    while !candidates.is_empty() {
        let domains: Vec<_> = candidates.iter().map(|(_, candidate)| candidate.clone()).collect();
        let random = [(); 2].map(|()| u64::from_le_bytes(random::bytes().unwrap_or_default()));
        let (first, second) = pick_two(&domains, random);
        let picked = [Some(first), second];
        let connections: Vec<_> =
            picked.into_iter().flatten().map(|nth| Arc::clone(&candidates[nth].0)).collect();
        if let Some(home) = reserve_best(&connections) {
            return Some(home);
        }
        candidates.retain(|(connection, _)| !connections.iter().any(|asked| Arc::ptr_eq(asked, connection)));
    }
    None
}

/// A slab of the donor that is better off; the other's reservation goes back.
fn reserve_best(connections: &[Arc<Connection>]) -> Option<Arc<Home>> {
    let mut reserved: Vec<(&Arc<Connection>, u64, Offer)> = connections
        .iter()
        .filter_map(|connection| {
            let (reservation, offer) = connection.reserve().ok()?;
            Some((connection, reservation, offer))
        })
        .collect();
    reserved.sort_by(|(_, _, a), (_, _, b)| b.is_better_than(a).cmp(&a.is_better_than(b)));
    let mut taken = None;
    for (connection, reservation, _) in reserved {
        match taken {
            None => taken = connection.take(reservation).ok(),
            // It expires by itself if the donor does not hear it.
            Some(_) => drop(connection.cancel(reservation)),
        }
    }
    taken
}

impl Shared {
    fn keep(&self) {
        while !self.is_ending.load(Ordering::Relaxed) {
            self.returns.give_back();
            self.connect_missing();
            thread::sleep(INTERVAL);
        }
    }

    fn connect_missing(&self) {
        thread::scope(|scope| {
            for donor in &self.donors {
                let Some((id, address)) = lock(donor).is_due() else { continue };
                // Nobody waits for the donor's state while it is connected to.
                scope.spawn(move || {
                    let _signals = SignalsBlocked::new();
                    let outcome = Connection::new(&address, id, &self.options, &self.returns);
                    lock(donor).note(outcome);
                });
            }
        });
    }

    fn slab_bytes(&self) -> Result<u64, BorrowerError> {
        let mut found = None;
        let mut troubles = String::new();
        for donor in &self.donors {
            let donor = lock(donor);
            let Some(connection) = &donor.connection else {
                let trouble = donor.trouble.as_deref().unwrap_or("it was not tried");
                troubles += &format!("  {}: {trouble}\n", donor.address);
                continue;
            };
            let theirs = connection.slab_bytes();
            match found {
                None => found = Some(theirs),
                Some(ours) if ours != theirs => {
                    return Err(BorrowerError::SlabBytes { donor: donor.address.clone(), theirs, ours });
                }
                Some(_) => {}
            }
        }
        found.ok_or_else(|| BorrowerError::Nobody(troubles.trim_end().to_string()))
    }

    fn candidates(&self) -> Vec<(Arc<Connection>, Candidate)> {
        let connected = |donor: &Mutex<Donor>| {
            let connection = lock(donor).connection.clone()?;
            let candidate = Candidate { domain: connection.domain().to_string() };
            connection.is_alive().then_some((connection, candidate))
        };
        self.donors.iter().filter_map(connected).collect()
    }
}

impl Donor {
    /// Its number and address, if it should be connected to now.
    fn is_due(&mut self) -> Option<(DonorId, String)> {
        if let Some(connection) = &self.connection
            && !connection.is_alive()
        {
            let trouble = connection.trouble();
            self.before = self.before + connection.traffic();
            self.connection = None;
            self.tell(What::DonorGone, Some(&trouble));
            self.trouble = Some(trouble);
            self.pause = PAUSE_FIRST;
            self.next_try = Instant::now() + self.pause;
        }
        let is_due = self.connection.is_none() && Instant::now() >= self.next_try;
        is_due.then(|| (self.id, self.address.clone()))
    }

    fn note(&mut self, outcome: Result<Arc<Connection>, ConnectError>) {
        match outcome {
            Ok(connection) => {
                self.connection = Some(connection);
                self.trouble = None;
                self.tell(What::DonorConnected, None);
                self.pause = PAUSE_FIRST;
            }
            Err(error) => {
                let trouble = error.to_string();
                // It is tried again and again: what is not new says nothing.
                if self.trouble.as_ref() != Some(&trouble) {
                    self.tell(What::DonorNotReached, Some(&trouble));
                }
                self.trouble = Some(trouble);
                self.next_try = Instant::now() + self.pause;
                self.pause = (2 * self.pause).min(PAUSE_LAST);
            }
        }
    }

    fn tell(&self, what: What, why: Option<&str>) {
        self.events.note(SlabEvent { what, donor: self.id, part: None, why: why.map(Words::of) });
    }

    fn seen(&self) -> DonorSeen {
        let now = self.connection.as_ref().map(|connection| connection.traffic());
        DonorSeen {
            traffic: self.before + now.unwrap_or_default(),
            address: self.address.clone(),
            provider: self.connection.as_ref().map(|connection| connection.provider().to_string()),
            domain: self
                .connection
                .as_ref()
                .map(|connection| connection.domain().to_string())
                .unwrap_or_default(),
            slabs: self.connection.as_ref().map_or(0, |connection| connection.slabs()),
            trouble: self.trouble.clone(),
        }
    }
}

/// Why a donor gave nothing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    /// It says so.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// It cannot be asked.
    #[error(transparent)]
    Channel(#[from] crate::control::ChannelError),
    /// It said something else.
    #[error("the donor's answer has nothing to do with the question")]
    Nonsense,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
