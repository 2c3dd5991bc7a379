//! Borrows slabs from donors: finds them, keeps their connections, gives slabs back.
//!
//! | thread | loop |
//! |---|---|
//! | `aq-borrower` | gives unused slabs back, reconnects to donors that were gone, asks them for other donors |
//! | `aq-borrower-asked` (one for each donor) | answers what the donor asks |

mod connection;
mod donor;
mod learning;
mod look;
mod options;
pub mod placement;
mod returns;

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use aquifer_sys::helper;

use connection::Connection;
use donor::{Donor, Standing};
use placement::{Candidate, new_first, pick_two};
use returns::Returns;

use crate::control::{Offer, Refusal};
use crate::far::{DonorId, Home, SlabEvents, Slabs};
use crate::random;

pub use connection::ConnectError;
pub use donor::DonorSeen;
pub use look::{borrowings, look, members};
pub use options::BorrowerOptions;

/// How often the thread looks up.
const INTERVAL: Duration = Duration::from_millis(100);
/// How long a donor may take to offer a slab before others are asked.
const PATIENCE: Duration = Duration::from_millis(500);
/// How often it asks who else lends.
const LEARN_INTERVAL: Duration = Duration::from_secs(5);

/// Why there is no borrower.
#[derive(Debug, thiserror::Error)]
pub enum BorrowerError {
    /// No donor is there.
    #[error("no donor can be reached: {0}")]
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

/// Connections to donors.
pub struct Borrower {
    shared: Arc<Shared>,
    slab_bytes: u64,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    options: BorrowerOptions,
    /// The configured donors in their order, then the donors that they told of. None is ever removed, so a
    /// donor's index is its number.
    donors: RwLock<Vec<Arc<Mutex<Donor>>>>,
    /// 0 until it is known.
    slab_bytes: AtomicU64,
    /// Whether a new connection is wanted is decided by one at a time.
    settling: Mutex<()>,
    returns: Arc<Returns>,
    events: Arc<SlabEvents>,
    is_ending: AtomicBool,
}

impl Borrower {
    /// Connects to donors; those that are not there now are tried again later.
    ///
    /// # Errors
    /// [`BorrowerError`]; that none is there, for instance.
    pub fn start(options: BorrowerOptions) -> Result<Borrower, BorrowerError> {
        let events: Arc<SlabEvents> = Arc::default();
        let donor = |(nth, address): (usize, &String)| {
            let donor = Donor::new(DonorId(nth as u64), address, Standing::Named, &events);
            Arc::new(Mutex::new(donor))
        };
        let donors = RwLock::new(options.donors.iter().enumerate().map(donor).collect());
        let (returns, is_ending) = (Arc::default(), AtomicBool::new(false));
        let (slab_bytes, settling) = (AtomicU64::new(0), Mutex::default());
        let shared = Arc::new(Shared { options, donors, slab_bytes, settling, returns, events, is_ending });
        shared.connect_missing();
        let slab_bytes = shared.slab_bytes()?;
        shared.slab_bytes.store(slab_bytes, Ordering::Relaxed);
        let thread = thread::Builder::new().name("aq-borrower".into()).spawn({
            let shared = Arc::clone(&shared);
            move || helper::serve(|| shared.keep())
        });
        Ok(Borrower { shared, slab_bytes, thread: Some(thread.map_err(BorrowerError::Thread)?) })
    }

    /// Bytes of a slab.
    #[must_use]
    pub fn slab_bytes(&self) -> u64 {
        self.slab_bytes
    }

    /// RAM of this process that connections take, if it has all that it may have.
    #[must_use]
    pub fn ram_bytes(&self) -> u64 {
        let options = &self.shared.options;
        (options.connections_max() * options.link.ram_bytes()) as u64
    }

    /// All donors.
    #[must_use]
    pub fn donors(&self) -> Vec<DonorSeen> {
        self.shared.donors().iter().map(|donor| lock(donor).seen()).collect()
    }
}

impl Drop for Borrower {
    fn drop(&mut self) {
        self.shared.is_ending.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        for donor in self.shared.donors() {
            lock(&donor).connection = None;
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
        [apart, together].into_iter().find_map(|candidates| {
            // Each donor has a little of the device before one has more, so that one that is lost takes little with it.
            let (new, known) = new_first(candidates, |(connection, _)| connection.slabs() > 0);
            find_among(new).or_else(|| find_among(known))
        })
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

/// A slab of the donor that is better off; the other's reservation goes back. Both are asked at once, and who does not answer soon is left out.
fn reserve_best(connections: &[Arc<Connection>]) -> Option<Arc<Home>> {
    let asked: Vec<_> = connections.iter().filter(|connection| connection.ask_for_slab().is_ok()).collect();
    let until = Instant::now() + PATIENCE;
    let mut reserved: Vec<(&Arc<Connection>, u64, Offer)> = asked
        .into_iter()
        .filter_map(|connection| {
            let (reservation, offer) = connection.reserved(until).ok()?;
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
        let mut next_learning = Instant::now();
        while !self.is_ending.load(Ordering::Relaxed) {
            self.returns.give_back();
            if Instant::now() >= next_learning {
                self.learn();
                next_learning = Instant::now() + LEARN_INTERVAL;
            }
            self.connect_missing();
            thread::sleep(INTERVAL);
        }
    }

    /// All donors, as many as there are now.
    fn donors(&self) -> Vec<Arc<Mutex<Donor>>> {
        self.donors.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn connect_missing(&self) {
        let donors = self.donors();
        thread::scope(|scope| {
            for donor in &donors {
                let Some((id, address)) = lock(donor).is_due() else { continue };
                let donors = &donors;
                // Nobody waits for the donor's state while it is connected to.
                let connect = move || {
                    let outcome = Connection::new(&address, id, &self.options, &self.returns);
                    let _settling = lock(&self.settling);
                    let outcome = outcome.and_then(|connection| self.fit(donors, donor, connection));
                    lock(donor).note(outcome);
                };
                let spawned = thread::Builder::new().spawn_scoped(scope, || helper::serve(connect));
                if let Err(error) = spawned {
                    lock(donor).note(Err(ConnectError::Thread(error)));
                }
            }
        });
    }

    /// The connection, unless it is of no use beside the others.
    fn fit(
        &self,
        donors: &[Arc<Mutex<Donor>>],
        new: &Arc<Mutex<Donor>>,
        connection: Arc<Connection>,
    ) -> Result<Arc<Connection>, ConnectError> {
        let (theirs, ours) = (connection.slab_bytes(), self.slab_bytes.load(Ordering::Relaxed));
        if ours != 0 && ours != theirs {
            return Err(ConnectError::SlabBytes { theirs, ours });
        }
        let twin = donors.iter().filter(|other| !Arc::ptr_eq(other, new)).find_map(|other| {
            let other = lock(other);
            let is_twin =
                other.connection.as_ref().is_some_and(|known| known.instance() == connection.instance());
            is_twin.then(|| other.address.clone())
        });
        twin.map_or(Ok(connection), |twin| Err(ConnectError::Twin(twin)))
    }

    fn slab_bytes(&self) -> Result<u64, BorrowerError> {
        let mut found = None;
        let mut troubles = Vec::new();
        for donor in self.donors() {
            let donor = lock(&donor);
            let Some(connection) = &donor.connection else {
                let trouble = donor.trouble.as_deref().unwrap_or("it was not tried");
                // Most name the address themselves.
                let is_named = trouble.starts_with(&donor.address);
                troubles.push(if is_named {
                    trouble.into()
                } else {
                    format!("{}: {trouble}", donor.address)
                });
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
        found.ok_or_else(|| BorrowerError::Nobody(troubles.join("; ")))
    }

    fn candidates(&self) -> Vec<(Arc<Connection>, Candidate)> {
        let connected = |donor: &Arc<Mutex<Donor>>| {
            let connection = lock(donor).connection.clone()?;
            let candidate = Candidate { domain: connection.domain().to_string() };
            connection.is_alive().then_some((connection, candidate))
        };
        self.donors().iter().filter_map(connected).collect()
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
    /// It has not answered yet, or another question is under way.
    #[error("the donor has not answered yet")]
    Busy,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
