//! `libaquifer_preload.so`: stands in front of the C library, so that large memory of a program that was not written for
//! Aquifer comes from a heap. Routing only; what it routes to is [`aquifer::PageHeap`].
//!
//! | file | noun |
//! |---|---|
//! | `real` | the functions that these stand in front of |
//! | `settings` | what `aquifer run` says through the environment |
//! | `memory` | Rust's own |
//! | `libc_blocks` | small blocks that the C library has, and when there are too many |
//! | `insiders` | blocks of the C library in programs with a malloc of their own |
//! | `route` | the heap, and which memory comes from it |
//! | `protect` | parts of it that the program has protected, or mapped something else over |
//! | `span` | memory that a system call needs to be there |
//! | `place` | one buffer of a transfer, where the kernel can use it |
//! | `parts` | long transfers, of which each part is in place in turn |
//! | `report` | what happened, when the program ends |
//! | `profile` | where its faults come from |
//! | `caught` | system calls that the program makes by instructions of its own |
//! | `proc` | what the kernel tells of this process, without allocating |
//! | `tell` | lines on standard error |
//! | `start` | what runs before and after the program |
//! | `hooks` | the functions themselves, by what they are about |
//!
//! # Rules
//! Nothing here allocates from the heap that it routes to: Rust's own allocations are mapped by this library. Allocations by
//! the C library itself stay there, because it hands them to the kernel without asking anybody.

#![deny(clippy::print_stderr, clippy::print_stdout)]

mod caught;
mod hooks;
mod insiders;
mod libc_blocks;
mod memory;
mod parts;
mod place;
mod proc;
mod profile;
mod protect;
mod real;
mod report;
mod route;
mod settings;
mod span;
mod start;
mod tell;
