//! Files of a volume as memory, beside `mmap` of files of the host's file system on the same disk.
//!
//! Both sides have the same bytes (`source`), and a process of each runs in a control group of the same size (`study`).
//! What the kernel caches of the host's file is in that group's limit; what a volume caches is in it too, beside the process, its page tables
//! and copies of pages, so a volume is told to use less ([`peer`](mod@peer)).
//!
//! | file | noun |
//! |---|---|
//! | `peer`, `file` | who has the mapped file, and the file as memory |
//! | `source` | the same bytes for both |
//! | `study`, `options`, `meter` | children in turn; what they are told; what they cost |
//! | `command`, `task` | what is given on the command line, and what a child is to do |
//! | `reads` | random reads and scans |
//! | `updates` | small updates with a sync every so often |
//! | `pagerank` | a graph with its rank vectors |
//! | `kv` | a key-value store under the loads of YCSB |
//! | `oltp` | SQLite's databases |
//! | `layered` | the volume beside a conventional stack on the same parts |
//! | `metadata` | bytes of tables for each page |

mod command;
mod file;
pub mod kv;
pub mod layered;
pub mod metadata;
mod meter;
pub mod oltp;
mod options;
pub mod pagerank;
pub mod peer;
pub mod reads;
mod source;
mod study;
pub mod task;
pub mod updates;

pub use command::{VolumeCommand, run};
pub use meter::Cost;
pub use study::Run;

use crate::sample::Record;

/// One line for the person who waits.
fn summary(record: &Record) -> Option<String> {
    match record {
        Record::VolumeReads(sample) => Some(sample.summary()),
        Record::VolumeUpdates(sample) => Some(sample.summary()),
        Record::VolumePagerank(sample) => Some(sample.summary()),
        Record::VolumeKv(sample) => Some(sample.summary()),
        Record::VolumeOltp(sample) => Some(sample.summary()),
        Record::VolumeMetadata(sample) => Some(sample.summary()),
        _ => None,
    }
}
