//! Where free chunks come from: the file's own, and those that it grows by.

use std::collections::VecDeque;
use std::io;
use std::sync::MutexGuard;

use aquifer_log::geometry::SegmentId;

use super::Log;
use super::room::{Passes, Purpose};
use crate::chunk;
use crate::error::{Error, Result, is_room_missing};
use crate::record::Record;

/// Chunks that are open while the others are as full as they should be.
const OPEN: usize = 3;
/// Chunks without memory that are tried at a time, where the disk has none.
const REFILLS_TRIED: usize = 4096;
/// What is persisted at the end of a chunk that is new in the file.
const GROWN: [u8; 8] = [0; 8];

/// What is free.
pub(super) struct Free {
    /// Chunks with memory.
    pub(super) chunks: Vec<SegmentId>,
    /// Chunks whose memory was given back.
    pub(super) punched: VecDeque<SegmentId>,
    /// Chunks that the file has.
    pub(super) grown: u32,
    /// The same, as it stands in the file.
    pub(super) record: Record,
    /// Those of them that have no objects, but parts of a checkpoint.
    pub(super) apart: u32,
    /// The system's number for why the file got no more memory when that was tried last, if it did not.
    pub(super) refused: Option<i32>,
}

impl Free {
    /// Free chunks that the file has.
    pub(super) fn in_file(&self) -> usize {
        self.chunks.len() + self.punched.len()
    }
}

impl Log {
    /// A chunk that nobody needs, if there is one without cleaning.
    pub(crate) fn take(&self, purpose: Purpose) -> Result<Option<SegmentId>> {
        let free = self.free();
        let for_passes = self.passes_of(&free).filled();
        self.take_from(free, purpose, for_passes)
    }

    /// As [`Log::take`], of what is kept for passes too: one small pass stays possible. For when cleaning gains nothing.
    pub(crate) fn take_last(&self, purpose: Purpose) -> Result<Option<SegmentId>> {
        self.take_from(self.free(), purpose, Passes::LEAST.filled())
    }

    fn take_from(
        &self,
        mut free: MutexGuard<'_, Free>,
        purpose: Purpose,
        for_passes: usize,
    ) -> Result<Option<SegmentId>> {
        if self.left(&free) <= purpose.reserve(for_passes) {
            return Ok(None);
        }
        if purpose == Purpose::Clean {
            if let Some(id) = free.chunks.pop() {
                return Ok(Some(id));
            }
            return if free.punched.is_empty() { self.grow(&mut free, 0) } else { self.refill(&mut free) };
        }
        // The file keeps some free chunks for the cleaner, or each of its passes would make it longer.
        if free.in_file() <= for_passes {
            let may_grow = match purpose {
                Purpose::Checkpoint => free.grown < self.table.len(),
                _ => self.may_grow(&free),
            };
            return if may_grow { self.grow(&mut free, purpose.reserve(for_passes)) } else { Ok(None) };
        }
        // What is left to others has memory, whatever becomes of the disk.
        let reserve = purpose.reserve(for_passes);
        if free.chunks.len() <= reserve {
            if let Some(id) = self.refill(&mut free)? {
                return Ok(Some(id));
            }
            if free.chunks.is_empty() || !self.keep(&mut free, reserve + 1, 0)? {
                return Ok(None);
            }
        }
        Ok(free.chunks.pop())
    }

    /// A chunk whose memory was given back, with memory, if the disk has some. After the heap was opened some have theirs still.
    fn refill(&self, free: &mut Free) -> Result<Option<SegmentId>> {
        for _ in 0..free.punched.len().min(REFILLS_TRIED) {
            let Some(id) = free.punched.pop_back() else { break };
            let refilled = self.persist.refill(self.offset_of(id), u64::from(self.superblock.chunk_bytes));
            let is_given = self.is_given(free, refilled);
            if let Ok(true) = is_given {
                return Ok(Some(id));
            }
            // Another one is next.
            free.punched.push_front(id);
            is_given?;
        }
        Ok(None)
    }

    /// Whether there is memory for `count` chunks: those that are free and have some, and others behind the first `grown` that the file gets next.
    fn keep(&self, free: &mut Free, count: usize, grown: u32) -> Result<bool> {
        let (begin, wanted) = (free.grown + grown, count.saturating_sub(free.chunks.len()) as u32);
        let end = begin.saturating_add(wanted).min(self.table.len());
        if end <= begin {
            return Ok(wanted == 0 || grown > 0);
        }
        let (from, to) = (self.offset_of(SegmentId(begin)), self.offset_of(SegmentId(end)));
        match self.persist.reserve(from, to - from) {
            // A file system that keeps nothing behind the end of a file.
            Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::Unsupported => Ok(true),
            reserved => self.is_given(free, reserved),
        }
    }

    /// Whether the file got the memory that was asked for; if not, why.
    ///
    /// # Errors
    /// Others than that there is none.
    fn is_given(&self, free: &mut Free, outcome: Result<()>) -> Result<bool> {
        match outcome {
            Ok(()) => free.refused = None,
            Err(Error::Io { source, .. }) if is_room_missing(&source) => {
                free.refused = Some(source.raw_os_error().unwrap_or(libc::ENOSPC));
            }
            Err(error) => return Err(error),
        }
        Ok(free.refused.is_none())
    }

    /// Why there is no chunk.
    pub(crate) fn full(&self) -> Error {
        match self.free().refused {
            Some(errno) => Error::io("growing the heap's file")(io::Error::from_raw_os_error(errno)),
            None => Error::Full { capacity_bytes: self.capacity_bytes },
        }
    }

    /// Free chunks, with those that the file may still get.
    fn left(&self, free: &Free) -> usize {
        free.in_file() + (self.table.len() - free.grown) as usize
    }

    pub(super) fn passes_of(&self, free: &Free) -> Passes {
        Passes::of(free.grown, self.superblock.chunk_bytes, self.processors)
    }

    /// The passes that the cleaner may make now, and the free chunks that there are for them.
    pub(crate) fn passes(&self) -> (Passes, usize) {
        let free = self.free();
        (self.passes_of(&free), self.left(&free))
    }

    /// Whether somebody who writes will soon have to clean.
    pub(crate) fn is_low(&self) -> bool {
        let free = self.free();
        let passes = self.passes_of(&free);
        let (for_passes, ahead) = (passes.filled(), passes.ahead());
        let is_short = free.in_file() <= for_passes + ahead
            || self.left(&free) <= Purpose::Write.reserve(for_passes) + ahead;
        is_short && !self.may_grow(&free)
    }

    /// A chunk that is new in the file, if the disk has memory for it and for `reserve` free ones besides.
    fn grow(&self, free: &mut Free, reserve: usize) -> Result<Option<SegmentId>> {
        let id = SegmentId(free.grown);
        let end = self.offset_of(SegmentId(id.0 + 1));
        if !self.keep(free, reserve, 1)? {
            return Ok(None);
        }
        let grown = self.persist.grow(end);
        if !self.is_given(free, grown)? {
            return Ok(None);
        }
        let unused = chunk::unused(self.superblock.id, id.0);
        // The length must be durable before the record, or a crash would leave a file that seems to be cut; and the mark, without which a chunk that
        // is counted is damaged.
        self.persist.persist(end - GROWN.len() as u64, &GROWN)?;
        self.persist.persist(self.offset_of(id), &unused)?;
        free.record.write(&*self.persist, self.superblock.id, u64::from(id.0) + 1)?;
        free.grown += 1;
        Ok(Some(id))
    }

    /// Makes the file as long as one with this number of chunks, of which nobody uses the new ones in this life of the heap.
    #[cfg(test)]
    pub(crate) fn skip(&self, chunks: u32) -> Result<()> {
        let mut free = self.free();
        while free.grown < chunks {
            self.grow(&mut free, 0)?.expect("the disk has room");
            free.apart += 1;
        }
        Ok(())
    }

    /// Whether the log is so full of what is needed that it should grow rather than be cleaned.
    fn may_grow(&self, free: &Free) -> bool {
        // What is kept for the cleaner, and for those who write, is not there to be filled.
        let passes = self.passes_of(free);
        let slack = (OPEN + passes.ahead() + passes.filled()) as u32;
        let used = u64::from(free.grown.saturating_sub(slack + free.apart)) << self.chunk_shift;
        free.grown < self.table.len() && self.live_bytes() * 100 >= used * u64::from(self.utilisation_percent)
    }

    /// Adds a chunk although the log could be cleaned, because cleaning gains nothing. False at the capacity, and where the disk has no memory for it and
    /// what `purpose` leaves to others.
    pub(crate) fn grow_anyway(&self, purpose: Purpose) -> Result<bool> {
        let mut free = self.free();
        if free.grown == self.table.len() {
            if free.punched.is_empty() {
                free.refused = None;
            }
            return Ok(false);
        }
        let reserve = purpose.reserve(self.passes_of(&free).filled());
        let grown = self.grow(&mut free, reserve)?;
        free.chunks.extend(grown);
        Ok(grown.is_some())
    }
}
