//! What was done and what was found.

use std::fmt;

use aquifer::Stats;

/// Operations by kind; refused ones count too.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Counts {
    /// Objects and arrays allocated.
    pub allocated: u64,
    /// Freed.
    pub freed: u64,
    /// Reallocated.
    pub reallocated: u64,
    /// Reads of an object or part of one.
    pub read: u64,
    /// Writes.
    pub written: u64,
    /// Prefetches of several objects.
    pub prefetched: u64,
    /// Pins, and as many unpins.
    pub pinned: u64,
    /// Of all these, refused as they may be: no memory, pinned, too many pins.
    pub refused: u64,
}

impl Counts {
    /// Adds those of another thread.
    pub fn add(&mut self, other: &Self) {
        self.allocated += other.allocated;
        self.freed += other.freed;
        self.reallocated += other.reallocated;
        self.read += other.read;
        self.written += other.written;
        self.prefetched += other.prefetched;
        self.pinned += other.pinned;
        self.refused += other.refused;
    }
}

/// How far a run is.
#[derive(Clone, Copy, Debug)]
pub struct Snapshot {
    /// Operations done.
    pub operations: u64,
    /// Differences found.
    pub differences: u64,
    /// The heap's numbers.
    pub stats: Stats,
}

/// What a run found.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Operations done.
    pub operations: u64,
    /// By kind.
    pub counts: Counts,
    /// Reads that were not what the model says, and counts of the heap that are not the model's.
    pub differences: u64,
    /// The first of them, as sentences.
    pub described: Vec<String>,
    /// Times that the heap proved that its parts agree.
    pub checks: u64,
    /// Most RAM that the heap said it used, at the quiescent points.
    pub ram_bytes_max: u64,
    /// The heap's numbers before the objects were freed.
    pub stats: Stats,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts { allocated, freed, reallocated, read, written, prefetched, pinned, refused } =
            self.counts;
        writeln!(f, "{} operations, {} checks of the whole heap", self.operations, self.checks)?;
        writeln!(f, "  allocated {allocated}, freed {freed}, reallocated {reallocated}")?;
        writeln!(
            f,
            "  read {read}, written {written}, prefetched {prefetched}, pinned {pinned}, refused {refused}"
        )?;
        let Stats { faults, hits, misses, zero_fills, evicted_pages, evicted_objects, .. } = self.stats;
        writeln!(f, "  {faults} faults: {hits} hits, {misses} misses, {zero_fills} zero fills")?;
        writeln!(f, "  evicted {evicted_pages} pages, {evicted_objects} objects")?;
        let Stats { objects_written, objects_cleaned, segments_cleaned, leaves_written, .. } = self.stats;
        writeln!(f, "  written {objects_written} objects and {leaves_written} leaves to the log")?;
        writeln!(f, "  cleaned {segments_cleaned} segments, {objects_cleaned} objects in them")?;
        let Stats { ram_budget_bytes, object_bytes, writer_waits, .. } = self.stats;
        writeln!(f, "  RAM {} of {ram_budget_bytes} bytes, objects {object_bytes}", self.ram_bytes_max)?;
        write!(f, "  waits for the writer: {writer_waits}")?;
        self.described.iter().try_for_each(|line| write!(f, "\n{line}"))
    }
}
