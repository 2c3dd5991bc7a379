//! What an open volume uses and has done, here and for other processes.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use aquifer_status::{Question, Server, Subject, latency, refusal, stats};
use serde::Serialize;

use crate::core::Core;
use crate::volume::{FRAME_BYTES, Volume, frames_for};
use crate::word::{PAGE_BYTES, PAGE_UNITS};

/// What commits and the cleaner have done since the volume was opened.
#[derive(Default)]
pub struct Work {
    pub commits: AtomicU64,
    pub pages_committed: AtomicU64,
    pub patches_committed: AtomicU64,
    pub segments_cleaned: AtomicU64,
    pub pages_moved: AtomicU64,
}

/// A snapshot of a volume's numbers. What it has done counts from when it was opened.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Serialize)]
pub struct Stats {
    /// RAM for pages of files and nodes of the table; those that changed may exceed it.
    pub ram_budget_bytes: u64,
    /// What they take.
    pub ram_used_bytes: u64,
    /// Of these: pages of files.
    pub file_page_bytes: u64,
    /// Nodes of the table.
    pub table_node_bytes: u64,
    /// Pages that the next commit writes.
    pub dirty_page_bytes: u64,
    /// Bytes that files can take on flash.
    pub capacity_bytes: u64,
    /// Bytes that they take, with the table. What was removed counts until the next commit.
    pub used_bytes: u64,
    /// Pages of files that were read from flash.
    pub pages_read: u64,
    /// Nodes of the table that were read from flash.
    pub nodes_read: u64,
    /// Moments of the volume that were written.
    pub commits: u64,
    /// Pages that they wrote whole.
    pub pages_committed: u64,
    /// Pages of which they wrote what had changed.
    pub patches_committed: u64,
    /// Segments that the cleaner emptied.
    pub segments_cleaned: u64,
    /// Pages and patches that it copied.
    pub pages_moved: u64,
    /// Reads of the medium.
    pub device_reads: u64,
    /// Bytes that they read.
    pub device_read_bytes: u64,
    /// Writes to the medium.
    pub device_writes: u64,
    /// Bytes that they wrote.
    pub device_written_bytes: u64,
    /// Waits until what was written is durable.
    pub device_syncs: u64,
    /// Calls of the medium that failed.
    pub io_errors: u64,
}

impl Stats {
    fn of(core: &Core, ram_bytes: u64) -> Self {
        let (pages_read, nodes_read) = core.flash.reads();
        let (traffic, work) = (core.flash.traffic(), &core.work);
        let (pages, nodes) = (core.cache.frames() as u64, core.table.counts().0 as u64);
        let unit = PAGE_BYTES as u64 / u64::from(PAGE_UNITS);
        let capacity = core.capacity_units();
        let count = |number: &AtomicU64| number.load(Ordering::Relaxed);
        Self {
            ram_budget_bytes: frames_for(ram_bytes) as u64 * FRAME_BYTES,
            ram_used_bytes: (pages + nodes) * FRAME_BYTES,
            file_page_bytes: pages * FRAME_BYTES,
            table_node_bytes: nodes * FRAME_BYTES,
            dirty_page_bytes: core.cache.dirty() as u64 * FRAME_BYTES,
            capacity_bytes: capacity * unit,
            used_bytes: core.used_units().min(capacity) * unit,
            pages_read,
            nodes_read,
            commits: count(&work.commits),
            pages_committed: count(&work.pages_committed),
            patches_committed: count(&work.patches_committed),
            segments_cleaned: count(&work.segments_cleaned),
            pages_moved: count(&work.pages_moved),
            device_reads: traffic.reads.sum(),
            device_read_bytes: traffic.read_bytes.sum(),
            device_writes: traffic.writes.sum(),
            device_written_bytes: traffic.written_bytes.sum(),
            device_syncs: count(&traffic.syncs),
            io_errors: count(&traffic.errors),
        }
    }
}

impl Volume {
    /// What it uses and has done.
    #[must_use]
    pub fn stats(&self) -> Stats {
        Stats::of(self.core(), self.ram_bytes())
    }

    /// Answers `aquifer stats`, `top` and `export` at a socket, until what is returned is dropped or the volume closed.
    ///
    /// # Errors
    /// The socket's: the path is taken, too long or not to be written.
    pub fn answer_at(&self, path: &Path) -> io::Result<Server> {
        let (core, ram_bytes) = (Arc::downgrade(&self.core_arc()), self.ram_bytes());
        Server::start(path, move |question| {
            let Some(core) = core.upgrade() else { return refusal("the volume is closing") };
            match question {
                Question::Stats => stats(Subject::Volume, &Stats::of(&core, ram_bytes)),
                Question::Latency => latency(&core.flash.traffic().read_durations),
                Question::Events => refusal("a volume has no donors, and so no events"),
                Question::Check => {
                    refusal("a volume is checked while nobody has it open: aquifer volume check VOLUME")
                }
            }
        })
    }
}
