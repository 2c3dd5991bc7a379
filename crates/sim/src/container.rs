//! A place for containers.

use aquifer_remote::donor::lending::Moment;

use crate::load::{GIB, Spec};

/// A place: one container after the other.
#[derive(Debug)]
pub struct Container {
    /// The present or the next one.
    pub spec: Spec,
    /// How many were there before.
    pub generation: u32,
    /// Where it runs, if it does.
    pub machine: Option<u32>,
    /// Since when.
    pub started: Moment,
    /// Bytes on its own machine.
    pub local_bytes: u64,
    /// Bytes that do not fit there.
    pub over_bytes: u64,
    /// Of the bytes on its own machine, those that keep their place in slabs.
    pub kept_bytes: u64,
}

impl Container {
    /// Pages read and written in a second among the bytes that do not fit on its machine.
    #[must_use]
    pub fn uses_per_s(&self) -> f64 {
        self.spec.uses_per_gib_s * self.over_bytes as f64 / GIB
    }
}
