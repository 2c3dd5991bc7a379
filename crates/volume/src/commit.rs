//! Commits: all that changed goes to flash at once.
//!
//! 1. With the gate closed, take all dirty pages and trims. Pages that programs can write are protected first. This is the moment that a crash
//!    comes back to.
//! 2. Write them: a page that changed little as a patch, others whole.
//! 3. Sync. Now they are durable.
//! 4. Point the table at them, and count what they replaced as garbage.
//!
//! If 1 fails nothing has happened. If 2 or 3 fails nobody knows what is on flash, and the volume takes no more changes. All pages stay in RAM either way, and
//! dirty ([`crate::frame::Stage`]).
//!
//! The table is not written here: recovery reads the log after the last anchor (`recovery.rs`).

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use crate::block::{Kind, PATCH_HEADER_BYTES, Patch, Trim};
use crate::cache::{Kept, by_memory, indices};
use crate::core::Core;
use crate::error::Result;
use crate::frame::{Content, Frame, FrameState, PageMemory, Phase, is_same};
use crate::inode::Time;
use crate::key::PageKey;
use crate::medium::Medium;
use crate::patch::{PATCH_BYTES_MAX, Ranges};
use crate::room::RoomPage;
use crate::segments::Segments;
use crate::twins::COPIED_AT_ONCE;
use crate::word::{PATCH_BYTES_SHORT, PageBytes, Place, Word, check_of, crc_of};
use crate::writer::{Head, Writer};

/// Pages that may become dirty between the look whether there is room and the moment of the commit.
const PAGES_MEANWHILE: u64 = 32;

/// A page of a memory, and where it is copied to.
type PageTo<'a> = (u32, &'a mut PageBytes);

/// A page that a commit took.
struct Taken {
    frame: Arc<Frame>,
    was_new: bool,
    was_promised: bool,
}

/// Where a page of a commit is now.
struct Written {
    frame: Arc<Frame>,
    word: Word,
    patched: Option<Ranges>,
    was_promised: bool,
    kept: Option<Kept>,
}

impl Core {
    /// Makes everything durable that was changed before this call.
    ///
    /// # Errors
    /// [`crate::VolumeError::Stopped`] and what stops a volume; what was changed since the last commit is then not durable.
    ///
    /// # Context
    /// Writes. The caller holds no page and no gate.
    pub fn commit(&self) -> Result<()> {
        self.allow_changes()?;
        self.commit_alone(&mut self.lock_writer())
    }

    /// As [`Core::commit`], by who has the writer and does nothing else with it.
    pub(crate) fn commit_alone(&self, writer: &mut Writer) -> Result<()> {
        self.commit_with(writer)?;
        self.maintain(writer)?;
        self.set_durable_unsaid(writer.is_durable_unsaid());
        Ok(())
    }

    /// Has the log say that all of it is durable.
    ///
    /// # Errors
    /// [`crate::VolumeError::NoSpace`] if there is none for a block; what stops a volume.
    pub(crate) fn note_durable(&self, writer: &mut Writer) -> Result<()> {
        self.allow_changes()?;
        self.ensure_room(writer, 1)?;
        if writer.is_durable_unsaid() {
            writer.note_durable(self.flash.medium()).inspect_err(|error| self.stop(error))?;
        }
        self.set_durable_unsaid(false);
        Ok(())
    }

    /// As [`Core::commit`], by who has the writer.
    pub(crate) fn commit_with(&self, writer: &mut Writer) -> Result<()> {
        // Another commit may have stopped the volume while this one waited for the writer.
        self.allow_changes()?;
        if self.cache.dirty() == 0 && self.trims.is_empty() {
            return Ok(());
        }
        let Some((taken, trims)) = self.begin_commit(writer)? else { return Ok(()) };
        let outcome = self
            .write(writer, &taken, &trims)
            .and_then(|written| self.apply(writer, written, &trims, &taken));
        if let Err(error) = &outcome {
            // What was trimmed still reads as zeros.
            self.stop(error);
            self.give_back(&taken);
        } else {
            self.trims.end_commit();
        }
        outcome
    }

    /// Takes all changes of the whole volume at once.
    fn begin_commit(&self, writer: &mut Writer) -> Result<Option<(Vec<Taken>, Vec<Trim>)>> {
        self.note_times();
        let pages = || self.cache.dirty() as u64 + self.trims.len() as u64 / 100;
        loop {
            // While nothing is taken yet, a lack of room is an error like any other.
            let expected = pages() + PAGES_MEANWHILE;
            self.ensure_room(writer, expected)?;
            let _closed = self.close_gate();
            if pages() > expected {
                continue;
            }
            let taken = self.take_dirty()?;
            let trims = self.trims.begin_commit();
            return Ok((!taken.is_empty() || !trims.is_empty()).then_some((taken, trims)));
        }
    }

    /// Gives files the time at which programs stored to them through mappings: once for each commit, not for each page.
    fn note_times(&self) {
        let stored_to = std::mem::take(&mut *self.stored_to.lock().unwrap_or_else(PoisonError::into_inner));
        if stored_to.is_empty() {
            return;
        }
        let now = Time::now();
        let change = self.begin_within_commit();
        for ino in stored_to {
            // The file may be gone, or its inode damaged: then it has no times.
            let _ = change.update_inode(ino, |inode| (inode.written_at, inode.changed_at) = (now, now));
        }
    }

    fn take_dirty(&self) -> Result<Vec<Taken>> {
        let mut dirty = self.cache.take_dirty();
        if let Err(error) = protect_writable(&mut dirty) {
            self.cache.give_back_untaken(dirty);
            return Err(error);
        }
        let mut taken = Vec::with_capacity(dirty.len());
        for frame in dirty {
            self.cache.note_taken();
            let mut state = frame.lock();
            if state.phase != Phase::Ready {
                continue;
            }
            state.stage.take();
            // From now on the table will have something of it.
            let was_promised = std::mem::take(&mut state.is_promised);
            let was_new = std::mem::take(&mut state.is_new);
            drop(state);
            taken.push(Taken { frame, was_new, was_promised });
        }
        taken.sort_unstable_by_key(|taken| taken.frame.key());
        Ok(taken)
    }

    /// What could not be written stays in RAM, where it can be read.
    fn give_back(&self, taken: &[Taken]) {
        for Taken { frame, was_new, was_promised } in taken {
            let mut state = frame.lock();
            if state.phase == Phase::Ready {
                self.cache.give_back(frame, &mut state);
                (state.is_new, state.is_promised) = (*was_new, *was_promised);
            }
            drop(state);
            frame.notify();
        }
    }

    fn write(&self, writer: &mut Writer, taken: &[Taken], trims: &[Trim]) -> Result<Vec<Written>> {
        let medium = self.flash.medium();
        writer.begin(Kind::Commit, Head::Changes);
        for &trim in trims {
            writer.add_trim(medium, trim)?;
        }
        // The page that a patch belongs to keeps its room. Where there is little, pages are written whole in place of long patches, and need no more than before.
        let longest = self.longest_patch(writer, taken.len() as u64);
        let mut written = Vec::with_capacity(taken.len());
        let (mut compared, mut useful) = (0, 0);
        let mut copies = Vec::new();
        for (nth, Taken { frame, was_promised, .. }) in taken.iter().enumerate() {
            if copies.is_empty() {
                copies = self.copy_all(&taken[nth..taken.len().min(nth + COPIED_AT_ONCE)])?;
            }
            let (bytes, key) = (copies.pop().expect("one for each page"), frame.key());
            let (twin, patched) = {
                let mut state = frame.lock();
                state.sum = self.cache.sums().of(&bytes);
                state.stage.copied();
                let found = (state.twin.take(), state.patched.clone());
                drop(state);
                frame.notify();
                found
            };
            let word = if self.trims.commit_covers(key) {
                Word::ZERO
            } else {
                self.table.get(&self.flash, key.ino(), key.index())?
            };
            let has_twin = twin.is_some();
            let is_known = twin.as_ref().is_some_and(|twin| self.cache.twins().is_kept(twin));
            let changed = twin.map(|twin| Ranges::between(&twin, &bytes));
            let is_small = changed.as_ref().is_some_and(|changed| changed.encoded_bytes() <= PATCH_BYTES_MAX);
            if changed.as_ref().is_some_and(Ranges::is_empty) && word != Word::ZERO {
                continue;
            }
            let ranges = changed.and_then(|changed| match word.place() {
                Some(Place::Page { .. }) => Some(changed),
                Some(Place::Patched { .. }) => Some(changed.union(patched.as_ref()?)),
                _ => None,
            });
            compared += usize::from(has_twin);
            let (word, patched) = append(writer, medium, key, &bytes, word, ranges, longest)?;
            useful += usize::from(has_twin && patched.is_some());
            // Where much of a page changes, it is written whole the next time too, and where RAM is scarce pages are of more use.
            let kept = (is_small && self.cache.has_spare_room()).then_some(Kept { copy: bytes, is_known });
            let (frame, was_promised) = (Arc::clone(frame), *was_promised);
            written.push(Written { frame, word, patched, was_promised, kept });
        }
        self.cache.twins().note_use(compared, useful);
        let displaced = writer.end(medium)?;
        writer.sync(medium)?;
        let patches = written.iter().filter(|written| written.patched.is_some()).count() as u64;
        self.work.commits.fetch_add(1, Ordering::Relaxed);
        self.work.patches_committed.fetch_add(patches, Ordering::Relaxed);
        self.work.pages_committed.fetch_add(written.len() as u64 - patches, Ordering::Relaxed);
        written.iter_mut().for_each(|written| written.word = displaced.word(written.word));
        Ok(written)
    }

    /// Copies of pages that a commit took, the last first. Nobody changes them meanwhile, or takes them elsewhere from where programs see them.
    fn copy_all(&self, taken: &[Taken]) -> Result<Vec<RoomPage>> {
        let mut copies =
            taken.iter().map(|_| self.cache.twins().take()).collect::<Result<Vec<RoomPage>>>()?;
        let mut shown: Vec<(Arc<dyn PageMemory>, Vec<PageTo<'_>>)> = Vec::new();
        for (Taken { frame, .. }, copy) in taken.iter().zip(&mut copies) {
            let state = frame.lock();
            let Content::Mapped(memory) = &state.content else {
                state.read(frame.key(), 0, &mut copy[..])?;
                continue;
            };
            let page = (frame.key().index(), &mut **copy);
            match shown.last_mut() {
                Some((last, pages)) if is_same(last, memory) => pages.push(page),
                _ => shown.push((Arc::clone(memory), vec![page])),
            }
        }
        shown.into_iter().try_for_each(|(memory, mut pages)| memory.read_pages(&mut pages))?;
        copies.reverse();
        Ok(copies)
    }

    /// Bytes that a patch may have if `patches` of them are written.
    fn longest_patch(&self, writer: &Writer, patches: u64) -> usize {
        let is_roomy = self.has_room_for_long_patches(writer, patches);
        if is_roomy { PATCH_BYTES_MAX } else { PATCH_BYTES_SHORT - PATCH_HEADER_BYTES }
    }

    fn apply(
        &self,
        writer: &mut Writer,
        written: Vec<Written>,
        trims: &[Trim],
        taken: &[Taken],
    ) -> Result<()> {
        let segments = &mut writer.segments;
        for trim in trims {
            self.table
                .trim(&self.flash, trim.ino, trim.first, trim.last, &mut |word| segments.remove(word))?;
        }
        let mut kept = 0;
        for Written { frame, word, patched, was_promised, kept: twin } in written {
            self.point(segments, frame.key(), word)?;
            let mut state = frame.lock();
            state.patched = patched;
            if let Some(twin) = twin {
                self.cache.keep_twin(&frame, &mut state, twin);
            }
            kept += u64::from(was_promised);
        }
        self.cache.tidy_kept_twins();
        taken.iter().for_each(|Taken { frame, .. }| frame.lock().stage.pointed());
        self.note_room(writer);
        self.keep_promises(kept);
        Ok(())
    }

    /// Points the table at a page's new place.
    pub(crate) fn point(&self, segments: &mut Segments, key: PageKey, word: Word) -> Result<()> {
        let old = if key.is_node() {
            self.table.set_node_word(&self.flash, key, word)?
        } else {
            self.table.set(&self.flash, key.ino(), key.index(), word)?
        };
        segments.remove(old)?;
        segments.add(word);
        Ok(())
    }
}

/// Protects pages that programs can change without asking, neighbours at once. The gate is closed: no page becomes one of these meanwhile.
fn protect_writable(frames: &mut [Arc<Frame>]) -> Result<()> {
    let is_writable = |state: &FrameState| state.phase == Phase::Ready && state.is_writable;
    for (memory, frames) in by_memory(frames, is_writable) {
        let protect = |frames: &[Arc<Frame>]| {
            memory.protect(&indices(frames))?;
            frames.iter().for_each(|frame| frame.lock().is_writable = false);
            Ok(())
        };
        // If that fails, which of them are protected is known once each was tried alone.
        if protect(&frames).is_err() {
            frames.chunks(1).map(protect).fold(Ok(()), Result::and)?;
        }
    }
    Ok(())
}

/// Writes a page: as a patch, if it has `ranges` of at most `longest` bytes, to the page that `word` names.
pub(crate) fn append(
    writer: &mut Writer,
    medium: &dyn Medium,
    key: PageKey,
    bytes: &PageBytes,
    word: Word,
    ranges: Option<Ranges>,
    longest: usize,
) -> Result<(Word, Option<Ranges>)> {
    let crc = crc_of(bytes);
    let base = match word.place() {
        Some(Place::Page { at, .. }) => Some(at),
        Some(Place::Patched { base, .. }) => Some(base),
        _ => None,
    };
    if let (Some(base), Some(ranges)) = (base, ranges)
        && ranges.encoded_bytes() <= longest
    {
        let mut encoded = Vec::with_capacity(ranges.encoded_bytes());
        ranges.encode(bytes, &mut encoded);
        let patch = Patch { key, base, crc, ranges: &encoded };
        let block = writer.add_patch(medium, &patch)?;
        return Ok((Word::of(patch.place_in(block)), Some(ranges)));
    }
    let at = writer.add_page(medium, key, bytes, crc)?;
    Ok((Word::of(Place::Page { at, check: check_of(crc) }), None))
}
