//! What a heap uses and has done, also for other processes.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use aquifer_status::{Question, Server, Subject, latency, refusal, stats};
use aquifer_sys::process::{MemoryUse, memory_by, memory_of_self};
use aquifer_vm::fork::is_forked;
use aquifer_vm::{ProcessRam, Room};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::assembly::Assembly;
use crate::error::Error;
use crate::group::Groups;

macro_rules! stats {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// A snapshot of a heap's numbers; the same fields, in the same order, as `aq_stats` in C.
        #[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
        #[repr(C)]
        pub struct Stats { $($(#[$doc])* pub $name: u64,)* }

        impl Stats {
            /// The numbers with the names of their fields.
            pub fn fields(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name)),*].into_iter()
            }
        }
    };
}

stats! {
    /// RAM budget.
    ram_budget_bytes,
    /// RAM in use: mapped pages, cache, tables, buffers, page tables.
    ram_used_bytes,
    /// Of these: entries, leaves, slot headers, bitmaps, segments.
    metadata_bytes,
    /// Mapped pages.
    page_buffer_bytes,
    /// The kernel's page tables for them.
    page_table_bytes,
    /// Slabs of the object cache.
    cache_bytes,
    /// Objects in the cache.
    cache_objects,
    /// Objects allocated.
    objects,
    /// Their bytes, rounded up to size classes.
    object_bytes,
    /// Bytes of flash that objects can use.
    flash_bytes,
    /// Bytes of records that are still needed.
    flash_live_bytes,
    /// Faults taken.
    faults,
    /// First writes to pages that were read before.
    faults_write_upgrade,
    /// Faults served from the object cache.
    hits,
    /// Faults that read flash.
    misses,
    /// Faults on objects never written.
    zero_fills,
    /// Pages evicted from the page buffer.
    evicted_pages,
    /// Objects evicted from the cache.
    evicted_objects,
    /// Reads of the device.
    device_reads,
    /// Bytes read.
    device_read_bytes,
    /// Writes to the device.
    device_writes,
    /// Bytes written.
    device_written_bytes,
    /// Records written by the writer.
    objects_written,
    /// Their payload.
    objects_written_bytes,
    /// Records copied by the cleaner.
    objects_cleaned,
    /// Their payload.
    objects_cleaned_bytes,
    /// Leaves written.
    leaves_written,
    /// Bytes of their records.
    leaves_written_bytes,
    /// Leaves read.
    leaves_read,
    /// Segments cleaned.
    segments_cleaned,
    /// Times a fault waited for the writer.
    writer_waits,
    /// Device errors.
    io_errors,
    /// Nanoseconds that threads waited for flash: for pages on it, and for room in RAM.
    flash_wait_ns,
    /// RAM of the process: anonymous memory and page tables, of this heap and of all else; 0 if the kernel does not tell.
    process_ram_bytes,
    /// What all in the tightest memory cgroup use, kernel memory and sockets included, pages of files not; 0 without a limit.
    group_used_bytes,
    /// That limit.
    group_limit_bytes,
    /// Faults served by decompressing a page.
    decompressed,
    /// Pages that were compressed.
    compressed,
    /// What they took then.
    compressed_bytes,
    /// Pages that did not shrink when that was tried.
    incompressible,
}

fn get(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

/// RAM of the process, and of its group. A heap that shares its RAM with a program has the files open that tell; in a forked child they tell of its
/// parent.
fn ram_outside(shared: Option<&ProcessRam>) -> (Option<MemoryUse>, Option<Room>) {
    let mut text = [0; 8192];
    match shared.filter(|_| !is_forked()) {
        None => (memory_of_self(&mut text), Groups::of_self().tightest()),
        Some(ram) => (ram.file.as_ref().and_then(|file| memory_by(file, &mut text)), (ram.group)()),
    }
}

impl Stats {
    pub(crate) fn of(parts: &Assembly) -> Self {
        let (process, group) = ram_outside(parts.engine.process_ram());
        let given_out = parts.allocator.usage();
        let usage = parts.engine.usage(given_out.leaves);
        let (engine, device) = (&parts.engine, parts.device_counters());
        let (counters, leaves) = (engine.counters(), &engine.leaves().counters);
        let remote_bytes = parts.remote.as_ref().map_or(0, |remote| remote.ram_bytes);
        let bookkeeping = parts.allocator.ram_bytes() + remote_bytes as usize;
        Self {
            ram_budget_bytes: parts.budget.total as u64 + remote_bytes,
            ram_used_bytes: (usage.ram_bytes + bookkeeping) as u64,
            metadata_bytes: (usage.metadata_bytes + bookkeeping) as u64,
            page_buffer_bytes: usage.page_buffer_bytes as u64,
            page_table_bytes: usage.page_table_bytes as u64,
            cache_bytes: usage.cache_bytes as u64,
            cache_objects: usage.cache_objects,
            objects: given_out.objects,
            object_bytes: given_out.object_bytes,
            flash_bytes: given_out.promised_bytes_max,
            flash_live_bytes: usage.flash_live_bytes,
            faults: counters.faults.sum(),
            faults_write_upgrade: counters.faults_write_upgrade.sum(),
            hits: counters.hits.sum(),
            misses: counters.misses.sum(),
            zero_fills: counters.zero_fills.sum(),
            evicted_pages: counters.evicted_pages.sum(),
            evicted_objects: usage.evicted_objects,
            device_reads: device.reads,
            device_read_bytes: device.read_bytes,
            device_writes: device.writes,
            device_written_bytes: device.written_bytes,
            objects_written: counters.objects_written.sum(),
            objects_written_bytes: counters.objects_written_bytes.sum(),
            objects_cleaned: counters.objects_cleaned.sum(),
            objects_cleaned_bytes: counters.objects_cleaned_bytes.sum(),
            leaves_written: get(&leaves.written),
            leaves_written_bytes: get(&leaves.written_bytes),
            leaves_read: get(&leaves.read),
            segments_cleaned: counters.segments_cleaned.sum(),
            writer_waits: counters.writer_waits.sum(),
            io_errors: engine.log().io_errors(),
            flash_wait_ns: engine.waited_ns(),
            process_ram_bytes: process.map_or(0, |of| of.anonymous_bytes + of.page_table_bytes),
            group_used_bytes: group.map_or(0, |room| room.used),
            group_limit_bytes: group.map_or(0, |room| room.limit),
            decompressed: counters.decompressed.sum(),
            compressed: counters.compressed.sum(),
            compressed_bytes: counters.compressed_bytes.sum(),
            incompressible: counters.incompressible.sum(),
        }
    }
}

/// Answers at `path` for as long as the server lives and `parts` are there.
pub(crate) fn answer_at(path: &Path, parts: &Arc<Assembly>) -> Result<Server, Error> {
    let weak = Arc::downgrade(parts);
    let answer = move |question| match weak.upgrade() {
        None => refusal("the heap is closing"),
        Some(parts) => answer(question, &parts),
    };
    let failed =
        |error| Error::System { what: format!("the socket {} could not be made", path.display()), error };
    Server::start(path, answer).map_err(failed)
}

fn answer(question: Question, parts: &Assembly) -> Value {
    let pid = std::process::id();
    match question {
        Question::Stats => {
            let mut answer = stats(Subject::Heap, &Stats::of(parts));
            if let Some(remote) = &parts.remote {
                answer["remote"] = json!(remote.shown());
            }
            answer
        }
        Question::Latency => latency(parts.engine.read_durations()),
        Question::Events => match &parts.remote {
            None => refusal("this heap has no donors, and so no events"),
            Some(remote) => json!({ "pid": pid, "version": crate::VERSION, "events": remote.events() }),
        },
        Question::Check => {
            let waits = parts.engine.long_waits();
            match parts.allocator.check() {
                Ok(()) => json!({ "pid": pid, "check": "ok", "waits": waits }),
                Err(problem) => json!({ "pid": pid, "check": "failed", "problem": problem, "waits": waits }),
            }
        }
    }
}
