//! What happened to pages so far.

pub use aquifer_sys::counter::{Counter, Durations};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Event counts since the heap was opened. Each is exact; together they are no snapshot.
        #[derive(Default)]
        pub struct Counters { $($(#[$doc])* pub $name: Counter,)* }
    };
}

counters! {
    /// Faults taken.
    faults,
    /// Of these: first writes to a page that was mapped by a read.
    faults_write_upgrade,
    /// Of these: served from the object cache.
    hits,
    /// Of these: decompressed.
    decompressed,
    /// Of these: read from the log.
    misses,
    /// Of these: pages never written.
    zero_fills,
    /// Pages that left the page buffer.
    evicted_pages,
    /// Pages that were compressed.
    compressed,
    /// Bytes that they took when they were.
    compressed_bytes,
    /// Pages that did not shrink when that was tried.
    incompressible,
    /// Page records written by the writer.
    objects_written,
    /// Payload of these.
    objects_written_bytes,
    /// Page records copied by the cleaner.
    objects_cleaned,
    /// Payload of these.
    objects_cleaned_bytes,
    /// Segments cleaned.
    segments_cleaned,
    /// Segments retired because they could not be read.
    segments_retired,
    /// Times a fault waited for the writer to free RAM.
    writer_waits,
    /// Pages brought into the cache by prefetch.
    prefetched,
}
