//! A volume shared by processes: one owns it, others map its files.
//!
//! The owner keeps the table and all rights to the medium. A client that opens a file is checked as the kernel names it (user, group, groups), and gets the
//! memory of the file's pages: for loads alone, if it opened the file so. Its faults come to the owner through its userfaultfd.
//!
//! A user who is the owner of the process itself could open such memory anew through `/proc`; rights hold between different users.

mod channel;
mod client;
mod connection;
pub mod entries;
pub mod protocol;
mod quota;
mod refusal;
mod remote;
mod server;
mod views;

pub use channel::{listen_at, stop_listening};
pub use client::Client;
pub use remote::{RemoteFile, RemoteMapping};
pub use server::serve;
