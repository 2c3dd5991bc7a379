//! The donor's end.

use std::sync::Arc;
use std::time::Duration;

use super::PROVIDER;
use super::listener::failed;
use super::passing::{Passing, of_delay, of_key};
use crate::transport::{Place, ServeLink, Staging, TransportError};

/// A borrower's connection. Transfers do not go over it: it says which slabs there are, and who is gone.
#[derive(Debug)]
pub struct Served {
    passing: Passing,
    lent: Vec<u64>,
}

impl Served {
    /// Lets a borrower in, which is told so by a packet that says how long each of its transfers takes at least.
    pub(super) fn new(passing: Passing, delay: Duration) -> Result<Served, TransportError> {
        passing.send(&of_delay(delay), None).map_err(|error| failed("accepting a borrower", error))?;
        Ok(Served { passing, lent: Vec::new() })
    }
}

impl ServeLink for Served {
    fn provider(&self) -> &str {
        PROVIDER
    }

    fn lend(&mut self, memory: &Arc<Staging>, key: u64) -> Result<Place, TransportError> {
        let shared = memory.give_out().ok_or_else(|| TransportError::Failed {
            doing: "giving a slab to a borrower of this machine",
            reason: "its memory is of another kind".into(),
        })?;
        let sent = self.passing.send(&of_key(key), Some(shared));
        sent.map_err(|error| failed("giving a slab to a borrower of this machine", error))?;
        self.lent.push(key);
        Ok(Place { address: 0, key })
    }

    fn take_back(&mut self, place: Place) -> Result<bool, TransportError> {
        let Some(nth) = self.lent.iter().position(|key| *key == place.key) else { return Ok(false) };
        self.lent.swap_remove(nth);
        // A borrower that misses the packet keeps addresses without memory behind them until the connection
        // ends.
        let _ = self.passing.send(&of_key(place.key), None);
        Ok(true)
    }

    fn look(&mut self, limit: Duration) -> bool {
        // There is nothing to look for.
        self.serve(limit)
    }

    fn serve(&mut self, limit: Duration) -> bool {
        // A borrower says nothing once it is let in: what comes is the end.
        matches!(self.passing.wait(limit), Ok(false))
    }
}
