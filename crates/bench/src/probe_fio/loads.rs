//! The sample of loads.

use aquifer_probe::report::{Job, Pattern, WriteMode};

use Pattern::{Random, Sequential};
use WriteMode::{Cached, Dsync, FlushEach};

/// Twelve loads from every corner of what the probe measures.
pub fn loads(span_bytes: u64) -> Vec<Job> {
    let cells = [
        (Random, 100, 4096, 1, Cached),
        (Random, 100, 4096, 32, Cached),
        (Random, 100, 16 << 10, 8, Cached),
        (Random, 100, 64 << 10, 4, Cached),
        (Sequential, 100, 4096, 1, Cached),
        (Sequential, 100, 1 << 20, 4, Cached),
        (Random, 0, 4096, 1, Cached),
        (Random, 0, 4096, 32, Cached),
        (Random, 0, 64 << 10, 4, Cached),
        (Random, 70, 4096, 16, Cached),
        (Random, 0, 4096, 1, FlushEach),
        (Sequential, 0, 4096, 1, Dsync),
    ];
    let job = |(pattern, read_percent, block_bytes, depth, write_mode)| Job {
        pattern,
        read_percent,
        block_bytes,
        depth,
        write_mode,
        span_bytes,
    };
    cells.into_iter().map(job).collect()
}
