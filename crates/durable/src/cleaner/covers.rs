//! Which frees need not be copied, because a newer block says all that is free in their partition.
//!
//! A hole in a block must stay in the log while older bytes may be there that it hides. The cover of a partition is a block that has all holes of it,
//! as they were at its version. What a hole in an older block hides is either hidden by the cover too, or was allocated again in between and
//! is hidden by that. So one cover stands for any number of older frees, and is itself kept by the rule for every hole.
//!
//! Covers are holes like others in the file, and are forgotten when the heap is closed: then all holes are looked at singly
//! until there are new covers.

use std::collections::HashMap;

use aquifer_base::PartitionId;
use aquifer_log::geometry::SegmentId;

/// The newest cover of a partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Cover {
    /// Of the block that has it.
    pub(super) version: u64,
    pub(super) chunk: SegmentId,
    /// What it has of the block.
    pub(super) bytes: u32,
}

/// What a hole is to the cover of its partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Standing {
    /// The cover is newer: nobody needs the hole.
    Superseded,
    /// It is of the cover.
    Cover,
    /// It is newer, or there is no cover.
    Uncovered,
}

/// Covers of one chunk.
#[derive(Clone, Copy, Default)]
struct Held {
    bytes: u64,
    /// The largest version of them.
    newest: u64,
}

/// The newest covers of all partitions that have one: some 40 bytes of RAM each.
#[derive(Default)]
pub(super) struct Covers {
    of: HashMap<PartitionId, Cover>,
    chunks: HashMap<SegmentId, Held>,
}

impl Covers {
    /// What a hole of a partition is that is in a block of `version`.
    pub(super) fn standing(&self, id: PartitionId, version: u64) -> Standing {
        match self.of.get(&id) {
            Some(cover) if cover.version > version => Standing::Superseded,
            Some(cover) if cover.version == version => Standing::Cover,
            _ => Standing::Uncovered,
        }
    }

    /// The cover of a partition is a new one.
    pub(super) fn insert(&mut self, id: PartitionId, cover: Cover) {
        self.forget(id);
        let held = self.chunks.entry(cover.chunk).or_default();
        held.bytes += u64::from(cover.bytes);
        held.newest = held.newest.max(cover.version);
        self.of.insert(id, cover);
    }

    /// The cover of a partition, if there is one, does not count any more.
    pub(super) fn forget(&mut self, id: PartitionId) {
        let Some(cover) = self.of.remove(&id) else { return };
        let held = self.chunks.get_mut(&cover.chunk).expect("it has the cover");
        held.bytes -= u64::from(cover.bytes);
        if held.bytes == 0 {
            self.chunks.remove(&cover.chunk);
        }
    }

    /// Bytes of covers in `chunk` that may still be needed, if all other chunks in use were opened at
    /// `oldest` or later. All covers of the chunk count until its newest one is not needed.
    pub(super) fn needed_bytes(&self, chunk: SegmentId, oldest: u64) -> u64 {
        self.chunks.get(&chunk).filter(|held| oldest < held.newest).map_or(0, |held| held.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHUNK: SegmentId = SegmentId(3);
    const LATER: SegmentId = SegmentId(4);

    fn cover(version: u64, chunk: SegmentId, bytes: u32) -> Cover {
        Cover { version, chunk, bytes }
    }

    #[test]
    fn older_holes_are_superseded_and_newer_ones_are_not() {
        let mut covers = Covers::default();
        covers.insert(PartitionId(7), cover(10, CHUNK, 100));
        let standings = [9, 10, 11].map(|version| covers.standing(PartitionId(7), version));
        assert_eq!(standings, [Standing::Superseded, Standing::Cover, Standing::Uncovered]);
        assert_eq!(covers.standing(PartitionId(8), 9), Standing::Uncovered, "another partition");
    }

    #[test]
    fn a_newer_cover_takes_the_place_of_the_old_one() {
        let mut covers = Covers::default();
        covers.insert(PartitionId(7), cover(10, CHUNK, 100));
        covers.insert(PartitionId(8), cover(10, CHUNK, 30));
        covers.insert(PartitionId(7), cover(12, LATER, 50));
        assert_eq!(covers.standing(PartitionId(7), 10), Standing::Superseded);
        assert_eq!((covers.needed_bytes(CHUNK, 0), covers.needed_bytes(LATER, 0)), (30, 50));
    }

    #[test]
    fn what_is_forgotten_covers_nothing_and_needs_no_room() {
        let mut covers = Covers::default();
        covers.insert(PartitionId(7), cover(10, CHUNK, 100));
        covers.forget(PartitionId(7));
        covers.forget(PartitionId(7));
        assert_eq!(covers.standing(PartitionId(7), 9), Standing::Uncovered);
        assert_eq!(covers.needed_bytes(CHUNK, 0), 0);
        assert!(covers.chunks.is_empty());
    }

    /// Where no chunk has older transactions, there is nothing to hide.
    #[test]
    fn covers_are_needed_until_every_other_chunk_is_as_new() {
        let mut covers = Covers::default();
        covers.insert(PartitionId(7), cover(10, CHUNK, 100));
        covers.insert(PartitionId(8), cover(12, CHUNK, 100));
        assert_eq!(
            [0, 9, 11, 12, 13].map(|oldest| covers.needed_bytes(CHUNK, oldest)),
            [200, 200, 200, 0, 0]
        );
    }
}
