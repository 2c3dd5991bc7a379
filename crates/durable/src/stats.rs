//! What an open heap uses and has done, here and for other processes.

use std::io;
use std::path::Path;
use std::sync::Arc;

use aquifer_status::{Question, Server, Subject, refusal, stats};
use serde::Serialize;

use crate::core::Core;
use crate::heap::DurableHeap;
use crate::usage::Usage;

/// A snapshot of a durable heap's numbers. What it has done counts from when it was opened.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Serialize)]
pub struct Stats {
    /// How large the file may become.
    pub capacity_bytes: u64,
    /// Memory of the file's chunks, free ones included.
    pub file_bytes: u64,
    /// Part of that which is free: for the cleaner, and for what is written next.
    pub reserve_bytes: u64,
    /// Bytes of objects in the log.
    pub live_bytes: u64,
    /// RAM of the address map.
    pub map_bytes: u64,
    /// Transactions that changed something, with the few of the heap itself.
    pub commits: u64,
    /// Waits for durability.
    pub device_syncs: u64,
    /// Bytes made durable.
    pub device_written_bytes: u64,
    /// Chunks that the cleaner emptied.
    pub chunks_cleaned: u64,
    /// Bytes of objects that it copied.
    pub copied_bytes: u64,
    /// Chunks that are not what was written there, and were left as they are.
    pub damaged_chunks: u64,
}

impl Stats {
    fn of(core: &Core) -> Self {
        let (usage, cleaned, counts) = (Usage::of(core), core.cleaned(), core.log.persist.counts());
        Self {
            capacity_bytes: core.capacity_bytes(),
            file_bytes: usage.file_bytes,
            reserve_bytes: usage.reserve_bytes,
            live_bytes: usage.live_bytes,
            map_bytes: usage.map_bytes,
            commits: core.commits.sum(),
            device_syncs: counts.fences(),
            device_written_bytes: counts.bytes(),
            chunks_cleaned: cleaned.chunks,
            copied_bytes: cleaned.copied_bytes,
            damaged_chunks: cleaned.damaged_chunks,
        }
    }
}

impl DurableHeap {
    /// What it uses and has done.
    #[must_use]
    pub fn stats(&self) -> Stats {
        Stats::of(self.core())
    }

    /// Answers `aquifer stats`, `top` and `export` at a socket, until what is returned is dropped or the heap closed.
    ///
    /// # Errors
    /// The socket's: the path is taken, too long or not to be written.
    pub fn answer_at(&self, path: &Path) -> io::Result<Server> {
        let core = Arc::downgrade(self.core());
        Server::start(path, move |question| {
            let Some(core) = core.upgrade() else { return refusal("the heap is closing") };
            match question {
                Question::Stats => stats(Subject::Durable, &Stats::of(&core)),
                Question::Latency => {
                    refusal("reads of a durable heap are not counted: the system maps its file")
                }
                Question::Events => refusal("a durable heap has no donors, and so no events"),
                Question::Check => {
                    refusal("a durable heap is checked while nobody has it open: aquifer durable check FILE")
                }
            }
        })
    }
}
