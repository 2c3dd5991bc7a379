//! A volume as a folder of the system: any program reads and writes it through the kernel's FUSE.
//!
//! | file | noun |
//! |---|---|
//! | `possible`, `error` | whether this machine and this user can mount, and why not |
//! | `mounted` | a volume that is mounted, how, and its end |
//! | `server` | the kernel's requests |
//! | `naming`, `content`, `listing` | what answers them: names, bytes, entries of folders |
//! | `xattrs` | extended attributes |
//! | `direct` | writes around the kernel's pages |
//! | `holes` | where files have none |
//! | `attributes` | inodes in the kernel's words |
//! | `write_back` | what the kernel wrote late and there was no room for |
//! | `lookups`, `room` | files that the kernel knows, and the room of those that are removed |
//!
//! The process that mounts is the only one that changes the volume, so the kernel may keep what it learned. Permissions are checked by the kernel
//! (`default_permissions`), locks are the kernel's own, and a file's bytes stay as long as the kernel knows the file, so that programs go on with
//! what they have open after its name is gone.
#![forbid(unsafe_code)]

mod attributes;
mod content;
mod direct;
mod error;
mod holes;
mod listing;
mod lookups;
mod mounted;
mod naming;
mod possible;
mod room;
mod server;
mod write_back;
mod xattrs;

pub use error::{MountError, Result};
pub use mounted::{Mounted, Options, Unmounted, Unmounter};
pub use possible::possible;
