//! The commit of a transaction in place.

use std::sync::MutexGuard;

use aquifer_base::HomeAddress;
use aquifer_base::limits::LOG_GRAIN_BYTES;

use super::heap::InPlaceHeap;
use super::journal::Kind;
use super::layout;
use crate::access::{Access, Load};
use crate::block::{Encoded, Role};
use crate::draft::{Committed, Draft};
use crate::error::{Error, Result};
use crate::write_set::{Content, Piece, WriteSet};

const GRAIN: u64 = LOG_GRAIN_BYTES as u64;
/// What an allocated object is filled with.
static ZEROS: [u8; 4096] = [0; 4096];

/// What one transaction at a time needs.
pub(super) struct Session {
    number: usize,
    pub(super) draft: Draft,
    block: Encoded,
    /// Old bytes of one range.
    old: WriteSet,
}

impl Session {
    pub(super) fn new(number: usize) -> Self {
        Self { number, draft: Draft::default(), block: Encoded::default(), old: WriteSet::default() }
    }
}

/// A transaction under way. Dropped without a commit, it has not happened.
pub struct InPlaceTransaction<'h> {
    heap: &'h InPlaceHeap,
    session: MutexGuard<'h, Session>,
}

impl<'h> InPlaceTransaction<'h> {
    pub(super) fn begin(heap: &'h InPlaceHeap, mut session: MutexGuard<'h, Session>) -> Self {
        session.draft.begin_with(&heap.homes);
        Self { heap, session }
    }

    /// Allocates what every heap has.
    pub(super) fn format(&mut self, grains: u32) {
        self.session.draft.writes.allocate(HomeAddress(0), grains);
    }

    fn commit_locked(&mut self) -> Result<()> {
        let (heap, session) = (self.heap, &mut *self.session);
        session.draft.view.lock(&heap.words, session.draft.writes.pieces());
        let version = session.draft.view.take_version(heap.versions())?;
        heap.put_bits(&mut session.draft)?;
        match heap.journal.kind {
            Kind::Redo => heap.record_new(session, version)?,
            Kind::Undo => heap.record_old(session, version)?,
        }
        heap.write_homes(&session.draft.writes)?;
        heap.journal.truncate(session.number)?;
        session.draft.view.unlock(&heap.words, version);
        Ok(())
    }
}

impl InPlaceHeap {
    /// Adds the bits of what is allocated and freed to what is written. The partitions of the objects are locked, which have
    /// the words to themselves.
    fn put_bits(&self, draft: &mut Draft) -> Result<()> {
        for n in 0..draft.allocated.len() {
            let (word, bit) = layout::bit_of(draft.allocated[n]);
            let before = self.word(&draft.writes, word);
            draft.writes.write(word, &(before | bit).to_le_bytes());
        }
        for n in 0..draft.freed.len() {
            let home = draft.freed[n];
            let (word, bit) = layout::bit_of(home);
            let before = self.word(&draft.writes, word);
            if before & bit == 0 {
                return Err(Error::NoObject(home));
            }
            draft.writes.write(word, &(before & !bit).to_le_bytes());
        }
        Ok(())
    }

    /// A word of bits, as a transaction has it that has locked it.
    fn word(&self, writes: &WriteSet, word: HomeAddress) -> u32 {
        let mut bytes = [0; 4];
        self.home.read(layout::offset_of(word), &mut bytes);
        if writes.may_have(word, 4) {
            writes.overlay(word, &mut bytes);
        }
        u32::from_le_bytes(bytes)
    }

    fn record_new(&self, session: &mut Session, version: u64) -> Result<()> {
        let (writes, number) = (&session.draft.writes, session.number);
        session.block.encode(writes, writes.pieces(), &[], Role::Whole);
        session.block.seal(version, self.journal.seed(number));
        self.journal.append(number, 0, &session.block).map(drop)
    }

    /// Records what was in each range before. What it has allocated itself has nothing to go back to.
    fn record_old(&self, session: &mut Session, version: u64) -> Result<()> {
        let (mut used, mut old) = (0, Vec::new());
        let is_old = |piece: &&Piece| !piece.is_fresh && matches!(piece.content, Content::Bytes(_));
        let mut pieces = session.draft.writes.pieces().iter().filter(is_old).peekable();
        while let Some(piece) = pieces.next() {
            let (start, mut end) = (piece.start, piece.end());
            while let Some(next) = pieces.next_if(|next| next.start == end) {
                end = next.end();
            }
            let home = HomeAddress(start * GRAIN);
            old.resize(((end - start) * GRAIN) as usize, 0);
            self.read_home(home, &mut old);
            session.old.clear();
            session.old.write(home, &old);
            session.block.encode(&session.old, session.old.pieces(), &[], Role::Whole);
            session.block.seal(version, self.journal.seed(session.number));
            used = self.journal.append(session.number, used, &session.block)?;
        }
        Ok(())
    }

    /// Writes what a transaction has written to its homes, with one fence.
    fn write_homes(&self, writes: &WriteSet) -> Result<()> {
        let mut ranges = Vec::with_capacity(writes.pieces().len() * 2);
        for piece in writes.pieces() {
            match piece.content {
                Content::Bytes(_) => split(piece, writes.bytes(piece), &mut ranges),
                Content::Zeros => split_zeros(piece, &mut ranges),
                Content::Hole => {}
            }
        }
        self.home.persist_in_place(&ranges)
    }
}

/// Adds the ranges of the file that have a piece: more than one if it crosses areas.
fn split<'a>(piece: &Piece, bytes: &'a [u8], ranges: &mut Vec<(u64, &'a [u8])>) {
    let home = HomeAddress(piece.start * GRAIN);
    ranges.extend(layout::runs(home, bytes.len()).map(|(at, offset, len)| (offset, &bytes[at..at + len])));
}

fn split_zeros(piece: &Piece, ranges: &mut Vec<(u64, &[u8])>) {
    let (mut home, mut left) = (HomeAddress(piece.start * GRAIN), piece.grains as usize * LOG_GRAIN_BYTES);
    while left > 0 {
        let len = left.min(ZEROS.len());
        ranges.extend(layout::runs(home, len).map(|(_, offset, len)| (offset, &ZEROS[..len])));
        (home, left) = (home.plus_bytes(len as u64), left - len);
    }
}

impl Load for InPlaceTransaction<'_> {
    #[inline]
    fn load(&mut self, home: HomeAddress, out: &mut [u8]) -> Result<()> {
        self.session.draft.load(self.heap, home, out)
    }
}

impl Access for InPlaceTransaction<'_> {
    #[inline]
    fn store(&mut self, home: HomeAddress, bytes: &[u8]) -> Result<()> {
        self.session.draft.store(self.heap, home, bytes)
    }

    fn alloc(&mut self, bytes: u64) -> Result<HomeAddress> {
        self.session.draft.alloc(self.heap, bytes)
    }

    fn free(&mut self, home: HomeAddress) -> Result<()> {
        self.session.draft.free(self.heap, home)
    }

    fn commit(mut self) -> Result<()> {
        if self.session.draft.writes.is_empty() {
            return Ok(());
        }
        let outcome = self.commit_locked();
        if outcome.is_err() {
            self.session.draft.view.unlock_unchanged(&self.heap.words);
            return outcome;
        }
        self.session.draft.succeed(&self.heap.homes);
        Ok(())
    }
}

impl Drop for InPlaceTransaction<'_> {
    fn drop(&mut self) {
        self.session.draft.give_up(&self.heap.homes);
    }
}
