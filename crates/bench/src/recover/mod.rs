//! How fast does a program recover when one of its donors fails, and how fast does a donor get its RAM back that leaves, or whose machine needs it?
//!
//! Two donors lend to a program (`task`) under `aquifer run` that reads, checks and rewrites random pages of an array of which half fits in
//! its RAM, and tells how many in each slice of 50 ms. In the middle of that one of the donors is killed, hangs for a while, is told to end, or
//! has to give back what it lends because other programs need it. What the slices say of it is computed in [`recovery`].
//!
//! | file | noun |
//! |---|---|
//! | `options`, `study` | what is given on the command line; all runs in turns |
//! | `failure`, `failing` | what happens to a donor; the donor to which it happens |
//! | `press`, `hold` | a shortage of RAM there; the program that makes it |
//! | `task`, `pages` | the program that is measured; its array, whose values can be checked |
//! | `slice`, `recovery` | what the program says; what follows from that |
//! | `sample` | lines of results |

mod failing;
pub mod failure;
mod hold;
mod options;
mod pages;
pub mod press;
pub mod recovery;
pub mod sample;
pub mod slice;
mod study;
mod task;

pub use hold::Held;
pub use options::{Copies, Provider, RecoverOptions};
pub use task::Begin;

use crate::error::Result;

/// Runs the benchmark, the program that it measures, or the one that takes RAM.
///
/// # Errors
/// [`crate::Error::WrongData`], [`crate::Error::Child`] if the program dies, and what makes all runs impossible; what makes one impossible is recorded.
pub fn run(options: &RecoverOptions) -> Result<()> {
    options.check()?;
    if options.task.task {
        return task::run(options.data, options.task.length());
    }
    if let Some(bytes) = options.task.hold {
        return hold::run(bytes);
    }
    study::Study::open(options)?.run()
}
