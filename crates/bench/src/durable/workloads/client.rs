//! What one thread of a program does.

use aquifer_durable::{Result, Transactional};

/// One thread's part of a program, on a heap that has what it needs. It remembers what it has changed, which nobody else changes.
pub trait Client<H: Transactional>: Send {
    /// One transaction.
    ///
    /// # Errors
    /// The heap's.
    fn step(&mut self, heap: &H) -> Result<()>;

    /// What is wrong with the heap, if anything.
    ///
    /// # Errors
    /// The heap's.
    fn wrong(&mut self, heap: &H) -> Result<Option<String>>;
}

/// The clients of all threads.
pub type Clients<H> = Vec<Box<dyn Client<H>>>;

/// The first of these that is not there.
pub fn first_wrong(checks: &[(&str, u64, u64)]) -> Option<String> {
    let wrong = checks.iter().find(|(_, found, expected)| found != expected)?;
    Some(format!("{}: {} instead of {}", wrong.0, wrong.1, wrong.2))
}
