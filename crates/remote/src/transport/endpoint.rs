//! One connection to a donor, as its provider has it.

use std::time::Duration;

use super::staging::Part;
use crate::words::Words;

/// Where bytes are in memory that a donor has lent.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Place {
    /// Address of the first byte, as the donor's registration counts.
    pub address: u64,
    /// What the donor gave for this memory; nobody without it reaches it.
    pub key: u64,
}

impl Place {
    /// The place `offset_bytes` further on.
    #[must_use]
    pub fn at(self, offset_bytes: u64) -> Place {
        Place { address: self.address + offset_bytes, ..self }
    }
}

/// Which way bytes go.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Direction {
    /// From the donor into the staging memory.
    Read,
    /// From the staging memory to the donor. It has ended when the bytes are in the donor's memory.
    Write,
}

/// One transfer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transfer {
    /// Which way.
    pub direction: Direction,
    /// Where in the donor's memory.
    pub place: Place,
    /// Where in this process's staging memory.
    pub part: Part,
    /// Comes back when it has ended.
    pub tag: u32,
}

/// A transfer that has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Completion {
    /// Of the transfer.
    pub tag: u32,
    /// 0, or the provider's negative error.
    pub error: i32,
}

/// Why a transfer did not begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PostError {
    /// Too many are under way: poll, then again.
    Busy,
    /// The provider's negative error.
    Failed(i32),
}

/// A connection. Its drop ends it: from then on it neither reads nor writes staging memory, whatever the donor sends.
pub trait Endpoint: Send + Sync {
    /// The provider, for people.
    fn provider(&self) -> &str;

    /// Begins a transfer.
    ///
    /// # Safety
    /// Nobody else uses the part of the staging memory until the transfer has ended or the endpoint is gone.
    ///
    /// # Errors
    /// [`PostError`]; the transfer has not begun then.
    unsafe fn post(&self, transfer: &Transfer) -> Result<(), PostError>;

    /// Moves transfers on, and says how many have ended. Waits for the first one for at most so long; zero does not wait.
    ///
    /// # Errors
    /// The provider's negative error: the connection is of no use any more.
    fn poll(&self, completions: &mut [Completion], limit: Duration) -> Result<usize, i32>;

    /// What a negative error means.
    ///
    /// # Context
    /// Allocates nothing.
    fn explain(&self, error: i32) -> Words;
}
