//! Lends RAM of this machine.
//!
//! | thread | loop |
//! |---|---|
//! | `aq-donor-accept` | lets borrowers' channels in |
//! | `aq-donor-calls` (one for each borrower) | answers what it asks; ends with it |
//! | `aq-donor-links` | lets borrowers' transfers in |
//! | `aq-donor-link` (one for each borrower) | moves its transfers on |
//! | `aq-donor-memory` | lends more while there is room, and takes slabs back when programs of this machine need it |

mod attention;
mod calls;
pub mod deed;
pub mod headroom;
pub mod lending;
mod links;
mod options;
mod resizing;
mod session;
pub mod shares;
mod state;
mod strangers;

use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use deed::Deed;
use state::State;

use crate::control::{Borrowing, DOMAIN_BYTES_MAX, Member, Members, Offer};
use crate::events::Events;
use crate::transport::Port;

pub use options::{DonorError, DonorOptions, Looks};
pub use state::DonorNow;

/// Source of the list of donors in the cluster, by gossip for instance.
pub trait Membership: Send + Sync {
    /// Returns all of them, this one too. Does not wait for anybody.
    fn members(&self) -> Vec<Member>;
}

/// A donor at work, until it is dropped.
pub struct Donor {
    state: Arc<State>,
    address: SocketAddr,
    threads: Vec<JoinHandle<()>>,
}

impl Donor {
    /// Begins to lend.
    ///
    /// # Errors
    /// [`DonorError`].
    pub fn start(options: DonorOptions) -> Result<Donor, DonorError> {
        let address = options.address;
        if !options.is_sealed() && !address.ip().is_loopback() {
            return Err(DonorError::Open(address));
        }
        if options.domain.len() > DOMAIN_BYTES_MAX {
            return Err(DonorError::Domain(options.domain.len()));
        }
        let listener = TcpListener::bind(address).map_err(|error| DonorError::listen(address, error))?;
        let address = listener.local_addr().map_err(|error| DonorError::listen(address, error))?;
        let mut links = Port::open(&options.provider, &host(address.ip()), options.delay)?;
        let port = links.number()?;
        let state = Arc::new(State::new(options, address, port)?);
        let mut donor = Donor { state: Arc::clone(&state), address, threads: Vec::new() };
        donor.spawn("aq-donor-accept", {
            let state = Arc::clone(&state);
            move || calls::accept_until_ended(&state, &listener)
        })?;
        donor.spawn("aq-donor-links", {
            let state = Arc::clone(&state);
            move || links::accept_until_ended(&state, &mut links)
        })?;
        donor.spawn("aq-donor-memory", move || resizing::keep_headroom(&state))?;
        Ok(donor)
    }

    fn spawn(&mut self, name: &str, body: impl FnOnce() + Send + 'static) -> Result<(), DonorError> {
        let thread = thread::Builder::new().name(name.into()).spawn(body);
        self.threads.push(thread.map_err(DonorError::Thread)?);
        Ok(())
    }

    /// Where borrowers find it.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What it lends.
    #[must_use]
    pub fn now(&self) -> DonorNow {
        self.state.now()
    }

    /// Returns a function that tells what this donor could lend now, for gossip.
    pub fn offering(&self) -> impl Fn() -> Offer + Send + 'static {
        let state = Arc::clone(&self.state);
        move || state.lending().offer()
    }

    /// Sets the source of the list of donors that borrowers are given. The first one stays.
    pub fn set_membership(&self, membership: Arc<dyn Membership>) {
        self.state.set_membership(membership);
    }

    /// What borrowers are told when they ask who lends.
    #[must_use]
    pub fn members(&self) -> Members {
        self.state.members()
    }

    /// Returns a function that tells what it lends, and to whom, for as long as it lends.
    pub fn showing(&self) -> impl Fn() -> (DonorNow, Vec<Borrowing>) + Send + 'static {
        let state = Arc::clone(&self.state);
        move || (state.now(), state.borrowers())
    }

    /// The borrowers, those with the most slabs first.
    #[must_use]
    pub fn borrowers(&self) -> Vec<Borrowing> {
        self.state.borrowers()
    }

    /// What it did of late.
    #[must_use]
    pub fn deeds(&self) -> &Events<Deed> {
        &self.state.deeds
    }

    /// Asks the `slabs` least active slabs back, as if memory were short. For tests and for operators.
    pub fn evict(&self, slabs: usize) {
        self.state.want_back(slabs);
    }
}

impl Drop for Donor {
    fn drop(&mut self) {
        self.state.end();
        // Wakes the thread that waits for connections; the others look at intervals.
        let _ = std::net::TcpStream::connect(self.address);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
        self.state.end_sessions();
    }
}

fn host(address: IpAddr) -> String {
    address.to_string()
}
