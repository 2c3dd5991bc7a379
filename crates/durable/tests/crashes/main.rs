//! Crashes of the machine at every kind of moment: what is recovered is what was acknowledged, and of the transactions under way
//! all or nothing.
//!
//! | file | noun |
//! |---|---|
//! | `machine` | what has memories, and the crash |
//! | `memory` | a memory that survives: persistent memory, or a file on flash behind a cache |
//! | `landing` | which words of a persist that was under way have landed |
//! | `hits` | what crashes have hit, so that no kind is left out |
//! | `damage` | bad blocks, lost and misdirected writes |
//! | `verdict` | what becomes of a heap whose file is damaged |
//! | `excuse` | damage that looks like a write that has not happened |
//! | `model` | what should be in a heap |
//! | `program` | random transactions of one thread, and their model |
//! | `durable` | durable heaps on a machine |
//! | `alone` | programs of one thread |
//! | `crew` | programs of several threads, which share some objects |
//! | `levels` | transactions in a known order, whose commits do not wait |
//! | `subsets` | a short program with every subset of the words of every persist |
//! | `in_place` | with the feature of this name, the heaps in place |
//!
//! `AQUIFER_CRASHES` is the number of long programs of one thread, 40 at least; the others are scaled with it. `AQUIFER_CRASHES_FROM` is the first
//! of them, so that several processes can share many; what fails names the program, which is 1000 more. With `AQUIFER_CRASHES_KEEP` the files of damage that nobody noticed are left where they were
//! looked at.

mod alone;
mod crew;
mod damage;
mod durable;
mod excuse;
mod hits;
#[cfg(feature = "in-place")]
mod in_place;
mod landing;
mod levels;
mod machine;
mod memory;
mod model;
mod program;
mod subsets;
mod verdict;

/// Long programs of one thread unless more are asked for: enough that every kind of operation is hit.
const PROGRAMS: u64 = 40;

fn number(variable: &str) -> u64 {
    std::env::var(variable).ok().and_then(|n| n.parse().ok()).unwrap_or(0)
}

/// How many long programs there should be.
fn programs() -> u64 {
    number("AQUIFER_CRASHES").max(PROGRAMS)
}

/// Whether there should be more programs than in each run of the tests.
fn are_many() -> bool {
    programs() > PROGRAMS
}

/// The seeds of the crews.
fn crews() -> std::ops::Range<u64> {
    let first = number("AQUIFER_CRASHES_FROM");
    first..first + programs().div_ceil(2)
}

/// The seeds of the long programs.
fn seeds() -> std::ops::Range<u64> {
    let first = number("AQUIFER_CRASHES_FROM");
    first..first + programs()
}
