//! A donor, connected or not.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::connection::{ConnectError, Connection};
use crate::far::{DonorId, SlabEvent, SlabEvents, What};
use crate::transport::TrafficSeen;
use crate::words::Words;

/// First pause before a donor that was gone is tried again; doubled up to the last.
const PAUSE_FIRST: Duration = Duration::from_millis(100);
const PAUSE_LAST: Duration = Duration::from_secs(10);

/// A donor as the borrower sees it. Its number is its place: first those that the options name, then those that were learned of.
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

/// Whether a donor is connected to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing {
    /// The user named it: always.
    Named,
    /// Other donors told of it, and it was chosen.
    Chosen,
    /// It is gone or not needed: not before it is chosen again.
    Resting,
}

/// A donor, connected or not.
pub struct Donor {
    pub id: DonorId,
    pub address: String,
    /// The same, if it is no name.
    place: Option<SocketAddr>,
    pub standing: Standing,
    pub connection: Option<Arc<Connection>>,
    pub trouble: Option<String>,
    /// Of connections that have ended.
    before: TrafficSeen,
    events: Arc<SlabEvents>,
    pause: Duration,
    next_try: Instant,
}

impl Donor {
    pub fn new(id: DonorId, address: &str, standing: Standing, events: &Arc<SlabEvents>) -> Donor {
        Donor {
            id,
            address: address.to_string(),
            place: address.parse().ok(),
            standing,
            connection: None,
            trouble: None,
            before: TrafficSeen::default(),
            events: Arc::clone(events),
            pause: PAUSE_FIRST,
            next_try: Instant::now(),
        }
    }

    /// Whether it is the one that listens there.
    pub fn is_at(&self, address: SocketAddr) -> bool {
        let told = self.connection.as_ref().is_some_and(|connection| connection.listens_at() == address);
        told || self.place == Some(address)
    }

    /// It is connected to from now on, whenever it is there.
    pub fn choose(&mut self) {
        self.standing = Standing::Chosen;
        self.trouble = None;
        self.pause = PAUSE_FIRST;
        self.next_try = Instant::now();
    }

    /// It is not connected to any more, for this reason.
    pub fn rest(&mut self, why: &str) {
        self.standing = Standing::Resting;
        if let Some(connection) = self.connection.take() {
            self.before = self.before + connection.traffic();
            self.tell(What::DonorGone, Some(why));
        }
        self.trouble = Some(why.to_string());
    }

    /// Its number and address, if it should be connected to now.
    pub fn is_due(&mut self) -> Option<(DonorId, String)> {
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
        let is_wanted = self.connection.is_none() && self.standing != Standing::Resting;
        let is_due = is_wanted && Instant::now() >= self.next_try;
        is_due.then(|| (self.id, self.address.clone()))
    }

    pub fn note(&mut self, outcome: Result<Arc<Connection>, ConnectError>) {
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

    pub fn seen(&self) -> DonorSeen {
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
