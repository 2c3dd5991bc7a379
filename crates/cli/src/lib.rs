//! The `aquifer` command: runs programs on managed memory, and looks into those that have a heap.
//!
//! It talks to the Unix socket that the library offers when it is asked to, and believes nothing that
//! comes back: answers are bounded in bytes and time, and are made printable before they are shown.
//!
//! | file | noun |
//! |---|---|
//! | `arguments` | what may stand on the command line |
//! | `process` | the socket of a process |
//! | `client` | questions to a socket |
//! | `reply` | the answer, taken apart |
//! | `latency` | how long reads from flash took |
//! | `borrowed` | what a heap borrows from other machines |
//! | `events` | what became of it |
//! | `heap` | the heap of another process, asked as often as one likes |
//! | `amounts` | amounts in few characters |
//! | `table` | statistics as people read them |
//! | `commands` | what `stats` and `check` do |
//! | `top` | a heap at work, as it happens |
//! | `export` | a heap's numbers for Prometheus |
//! | `prometheus` | its text format |
//! | `http` | requests and responses, as far as that needs them |
//! | `server` | one caller at a time |
//! | `durable` | what is in the file of a durable heap |
//! | `advise` | what a report means for a machine and for the heap |
//! | `run` | runs an unchanged program on managed memory |
//! | `program` | where the program is, and whether it is fit for that |
//! | `limit` | how much RAM there is for it |
//! | `remedy` | the option that mends what the library refuses |
//! | `doctor` | how it would run here, and what would be better |
//! | `library` | the libraries that come with the command |
//! | `profile` | where its faults come from |
//! | `volume` | volumes, and the files in them |
//! | `ending` | SIGINT and SIGTERM, as a wish to end |
//! | `block` | a device for kernels: NBD, or a file through FUSE |
//! | `manual` | the command line as it is shown: helps, completions |
//! | `version` | what this build can do here, and what would add the rest |
//! | `error` | what can go wrong, and what to do then |
#![forbid(unsafe_code)]

pub mod advise;
pub mod amounts;
pub mod arguments;
pub mod block;
pub mod borrowed;
pub mod client;
pub mod commands;
pub mod doctor;
pub mod durable;
pub mod ending;
pub mod error;
pub mod events;
pub mod export;
pub mod heap;
pub mod http;
pub mod latency;
pub mod library;
pub mod limit;
pub mod manual;
pub mod probe;
pub mod process;
pub mod profile;
pub mod program;
pub mod prometheus;
pub mod remedy;
pub mod remote;
pub mod reply;
pub mod run;
pub mod server;
pub mod table;
pub mod top;
pub mod version;
pub mod volume;

pub use error::Error;
