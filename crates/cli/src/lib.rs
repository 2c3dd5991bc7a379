//! The `aquifer` command: looks into running programs that keep objects in an Aquifer heap.
//!
//! It talks to the Unix socket that the library offers when it is asked to, and believes nothing that
//! comes back: answers are bounded in bytes and time, and are made printable before they are shown.
//!
//! | file | noun |
//! |---|---|
//! | `arguments` | what may stand on the command line |
//! | `process` | the socket of a process |
//! | `client` | one question to a socket |
//! | `reply` | the answer, taken apart |
//! | `table` | statistics as people read them |
//! | `commands` | what each command does |
//! | `error` | what can go wrong, and what to do then |
#![forbid(unsafe_code)]

pub mod arguments;
pub mod client;
pub mod commands;
pub mod error;
pub mod process;
pub mod reply;
pub mod table;

pub use error::Error;
