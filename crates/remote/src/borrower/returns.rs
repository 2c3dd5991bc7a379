//! Slabs that nobody uses any more, on their way back to their donors.

use std::sync::{Mutex, PoisonError, Weak};

use super::connection::Connection;
use crate::control::SlabId;

/// Slabs to give back. The last user of a slab only notes it here, because that thread may be in a fault.
#[derive(Default)]
pub struct Returns {
    slabs: Mutex<Vec<(Weak<Connection>, SlabId)>>,
}

impl Returns {
    fn add(&self, connection: Weak<Connection>, slab: SlabId) {
        self.slabs.lock().unwrap_or_else(PoisonError::into_inner).push((connection, slab));
    }

    /// Gives all back that have come.
    pub fn give_back(&self) {
        let slabs = std::mem::take(&mut *self.slabs.lock().unwrap_or_else(PoisonError::into_inner));
        for (connection, slab) in slabs {
            if let Some(connection) = connection.upgrade() {
                // A donor that cannot be told finds out when the connection ends.
                let _ = connection.give_back(slab);
            }
        }
    }
}

/// The right to a slab: when it is dropped the slab goes back.
pub struct Lease {
    pub connection: Weak<Connection>,
    pub slab: SlabId,
    pub returns: std::sync::Arc<Returns>,
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.returns.add(Weak::clone(&self.connection), self.slab);
    }
}
