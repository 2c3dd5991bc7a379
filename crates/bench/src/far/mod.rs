//! Unchanged programs whose memory is local in part, the rest elsewhere: what share of their speed do they keep?
//!
//! The question is that of Gu et al. ("Efficient memory disaggregation with Infiniswap", 2017): memcached, a database, PageRank and a shuffle with 100, 75 and 50 % of
//! their memory local. Here the programs ([`program`]) run with everything local first, and then each in a control group of a share of what they had, on each
//! peer ([`peer`]) in turns. None of them calls anything of ours.
//!
//! | file | noun |
//! |---|---|
//! | `program`, `peer` | what runs, and what lies below its RAM |
//! | `options`, `study` | what is given on the command line; all runs in turns |
//! | `launch` | command lines and shares of RAM |
//! | `job`, `task` | a task in its control group; the tasks themselves: SQLite, PageRank, a shuffle |
//! | `cache`, `mix` | memcached in its control group; what its clients ask for |
//! | `below` | what is made for a run and taken away after it |
//! | `block`, `zswap`, `redis`, [`mod@crate::donors`] | the things of which that is made |
//! | `slots` | what a program has in the swap area, also of pages that are in RAM |
//! | `answer`, `sample` | what a run gave; lines of results |

mod answer;
mod below;
mod block;
mod cache;
mod job;
mod launch;
mod mix;
mod options;
pub mod peer;
pub mod program;
mod redis;
pub mod sample;
mod slots;
mod study;
mod task;

pub use answer::Answer;
pub use options::FarOptions;
pub use slots::Slots;

use crate::error::Result;

/// Runs the comparison, or the one task that was asked for.
///
/// # Errors
/// [`crate::Error::WrongData`], and what makes all runs impossible; what makes one impossible is recorded.
pub fn run(options: &FarOptions) -> Result<()> {
    options.check()?;
    if let Some(program) = options.task.task {
        return task::run(program, &options.task, options.extent());
    }
    study::Study::open(options)?.run()
}
