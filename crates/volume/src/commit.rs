//! Commits: all that changed goes to flash at once.
//!
//! 1. With the gate closed, take all dirty pages and trims. Pages that programs can write are protected first. This is the moment that a crash
//!    comes back to.
//! 2. Write them: a page that changed little as a patch, others whole.
//! 3. Sync. Now they are durable.
//! 4. Point the table at them, and count what they replaced as garbage.
//!
//! The table is not written here: recovery reads the log after the last anchor (`recovery.rs`).

use std::sync::Arc;

use crate::block::{Kind, Patch, Trim};
use crate::core::Core;
use crate::error::Result;
use crate::frame::{Content, Frame, Phase};
use crate::key::PageKey;
use crate::medium::Medium;
use crate::patch::{PATCH_BYTES_MAX, Ranges};
use crate::segments::Segments;
use crate::word::{PageBytes, Place, Word, check_of, crc_of};
use crate::writer::{Head, Writer};

/// Pages that may become dirty between the look whether there is room and the moment of the commit.
const PAGES_MEANWHILE: u64 = 32;

/// A page that a commit took.
struct Taken {
    frame: Arc<Frame>,
    was_promised: bool,
}

/// Where a page of a commit is now.
struct Written {
    frame: Arc<Frame>,
    word: Word,
    patched: Option<Ranges>,
    was_promised: bool,
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
        let mut writer = self.lock_writer();
        self.commit_with(&mut writer)?;
        self.maintain(&mut writer)
    }

    /// As [`Core::commit`], by who has the writer.
    pub(crate) fn commit_with(&self, writer: &mut Writer) -> Result<()> {
        if self.cache.dirty() == 0 && self.trims.is_empty() {
            return Ok(());
        }
        // While nothing is taken yet, a lack of room is an error like any other.
        let pages = self.cache.dirty() as u64 + self.trims.len() as u64 / 200;
        self.ensure_room(writer, pages + PAGES_MEANWHILE)?;
        let (taken, trims) = {
            let _closed = self.close_gate();
            (self.take_dirty()?, self.trims.begin_commit())
        };
        if taken.is_empty() && trims.is_empty() {
            return Ok(());
        }
        let outcome =
            self.write(writer, &taken, &trims).and_then(|written| self.apply(writer, written, &trims));
        if let Err(error) = &outcome {
            // What was trimmed still reads as zeros.
            self.stop(error);
            self.give_back(&taken);
            return outcome;
        }
        self.trims.end_commit();
        outcome
    }

    fn take_dirty(&self) -> Result<Vec<Taken>> {
        let mut taken = Vec::new();
        for frame in self.cache.take_dirty() {
            let mut state = frame.lock();
            self.cache.note_taken(&mut state);
            if state.phase != Phase::Ready {
                continue;
            }
            if let (true, Content::Mapped(memory)) = (state.is_writable, &state.content) {
                memory.protect(frame.key().index())?;
                state.is_writable = false;
            }
            state.is_committing = true;
            // From now on the table will have something of it.
            let was_promised = std::mem::take(&mut state.is_promised);
            state.is_new = false;
            drop(state);
            taken.push(Taken { frame, was_promised });
        }
        taken.sort_unstable_by_key(|taken| taken.frame.key());
        Ok(taken)
    }

    /// What could not be written stays in RAM, where it can be read.
    fn give_back(&self, taken: &[Taken]) {
        for Taken { frame, .. } in taken {
            let mut state = frame.lock();
            (state.is_dirty, state.is_committing) = (true, false);
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
        let mut written = Vec::with_capacity(taken.len());
        let (mut compared, mut useful) = (0, 0);
        for Taken { frame, was_promised } in taken {
            let key = frame.key();
            let (bytes, twin, patched) = {
                let mut state = frame.lock();
                let bytes = state.copy(key)?;
                let twin = state.twin.take();
                let patched = state.patched.clone();
                state.is_committing = false;
                drop(state);
                frame.notify();
                (bytes, twin, patched)
            };
            let word = if self.trims.commit_covers(key) {
                Word::ZERO
            } else {
                self.table.get(&self.flash, key.ino(), key.index())?
            };
            let has_twin = twin.is_some();
            let changed = twin.map(|twin| Ranges::between(&twin, &bytes));
            if changed.as_ref().is_some_and(Ranges::is_empty) && word != Word::ZERO {
                continue;
            }
            let ranges = changed.and_then(|changed| match word.place() {
                Some(Place::Page { .. }) => Some(changed),
                Some(Place::Patched { .. }) => Some(changed.union(patched.as_ref()?)),
                _ => None,
            });
            compared += usize::from(has_twin);
            let (word, patched) = append(writer, medium, key, &bytes, word, ranges)?;
            useful += usize::from(has_twin && patched.is_some());
            written.push(Written { frame: Arc::clone(frame), word, patched, was_promised: *was_promised });
        }
        self.cache.twins().note_use(compared, useful);
        let displaced = writer.end(medium)?;
        medium.sync()?;
        written.iter_mut().for_each(|written| written.word = displaced.word(written.word));
        Ok(written)
    }

    fn apply(&self, writer: &mut Writer, written: Vec<Written>, trims: &[Trim]) -> Result<()> {
        let segments = &mut writer.segments;
        for trim in trims {
            self.table
                .trim(&self.flash, trim.ino, trim.first, trim.last, &mut |word| segments.remove(word))?;
        }
        let mut kept = 0;
        for Written { frame, word, patched, was_promised } in written {
            self.point(segments, frame.key(), word)?;
            let mut state = frame.lock();
            state.patched = patched;
            kept += u64::from(was_promised);
        }
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
        segments.remove(old);
        segments.add(word);
        Ok(())
    }
}

/// Writes a page: as a patch, if it has `ranges` that are short enough, to the page that `word` names.
pub(crate) fn append(
    writer: &mut Writer,
    medium: &dyn Medium,
    key: PageKey,
    bytes: &PageBytes,
    word: Word,
    ranges: Option<Ranges>,
) -> Result<(Word, Option<Ranges>)> {
    let crc = crc_of(bytes);
    let base = match word.place() {
        Some(Place::Page { at, .. }) => Some(at),
        Some(Place::Patched { base, .. }) => Some(base),
        _ => None,
    };
    if let (Some(base), Some(ranges)) = (base, ranges)
        && ranges.encoded_bytes() <= PATCH_BYTES_MAX
    {
        let mut encoded = Vec::with_capacity(ranges.encoded_bytes());
        ranges.encode(bytes, &mut encoded);
        let block = writer.add_patch(medium, &Patch { key, base, crc, ranges: &encoded })?;
        return Ok((Word::of(Place::Patched { base, block }), Some(ranges)));
    }
    let at = writer.add_page(medium, key, bytes, crc)?;
    Ok((Word::of(Place::Page { at, check: check_of(crc) }), None))
}
