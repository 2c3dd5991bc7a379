//! Files of a volume as memory, beside `mmap` of files of the host's file system on the same disk.
//!
//! Both sides have the same bytes (`source`), and a process of each runs in a control group of the same size.
//! What the kernel caches of the host's file is in that group's limit; what a volume caches is in it too, beside the process, its page tables
//! and copies of pages, so a volume is told to use less (`peer`).
//!
//! | file | noun |
//! |---|---|
//! | `peer`, `file` | the peers that have the mapped file and what each is given, and the file as memory |
//! | `source` | the same bytes for both |
//! | `meter` | what a stretch of time costs, and times of single operations |
//! | `reads` | random reads and scans |
//! | `updates` | small updates with a sync every so often |
//! | `pagerank` | a graph with its rank vectors |
//! | `kv` | a key-value store under the loads of YCSB |
//! | `oltp` | SQLite's databases |
//! | `metadata` | bytes of tables for each page |

mod file;
pub mod kv;
pub mod metadata;
mod meter;
pub mod oltp;
pub mod pagerank;
mod peer;
pub mod reads;
mod source;
pub mod updates;

pub use meter::Latency;

/// A note of a table, behind what is said of RAM in all.
macro_rules! note {
    ($more:literal) => {
        concat!(
            "RAM: limit of the control group of each process, page cache, page tables and buffers included; the volume is told to use less of it. ",
            $more
        )
    };
}

const NOTE: &str = note!(
    "x mmap: against the best kind of mmap at the same point. CPU: user and system time of the process; what the kernel's own threads write back and \
     reclaim is in nobody's."
);
const NOTE_WRITTEN: &str = note!(
    "Bytes written: of the process by /proc/self/io, where a page of the page cache counts once each time that it becomes dirty, and a large folio as a \
     whole; of the disk by its counters in /sys in the same seconds, with the file system's journal and whatever others write."
);
const NOTE_RANKS: &str = note!(
    "The ranks of all peers that did all iterations are equal, bit by bit; those whose time was over before count with what they did. mmap-sequential: \
     with MADV_SEQUENTIAL for the edges. The sync after the last iteration is in the time."
);
