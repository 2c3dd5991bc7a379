//! Pages that are read before they are asked for.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, PoisonError};

use aquifer_device::AlignedBuffer;

use crate::cache::Loaded;
use crate::core::Core;
use crate::error::Result;
use crate::frame::{Content, Frame, PageMemory};
use crate::key::{Ino, PageKey};
use crate::word::{PAGE_BYTES, PageBytes, Word};

/// Most pages that are read at once.
pub const PAGES_AT_ONCE: u32 = 128;
/// Buffers that are kept for the next reads.
const BUFFERS_KEPT: usize = 8;

/// Buffers for such reads, each for [`PAGES_AT_ONCE`] pages. They are kept, because an allocator would clear each, and keep more of them: some for each thread
/// that ever had one.
#[derive(Default)]
pub struct Buffers {
    free: Mutex<Vec<AlignedBuffer>>,
}

/// A buffer that goes back when it is dropped. Holds anything at first.
struct Lent<'a> {
    buffers: &'a Buffers,
    buffer: Option<AlignedBuffer>,
}

impl Buffers {
    fn lend(&self) -> Lent<'_> {
        let kept = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let buffer = kept.unwrap_or_else(|| AlignedBuffer::new(PAGES_AT_ONCE as usize * PAGE_BYTES));
        Lent { buffers: self, buffer: Some(buffer) }
    }
}

impl Deref for Lent<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.buffer.as_deref().unwrap_or_default()
    }
}

impl DerefMut for Lent<'_> {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.buffer.as_deref_mut().unwrap_or_default()
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        let mut free = self.buffers.free.lock().unwrap_or_else(PoisonError::into_inner);
        if free.len() < BUFFERS_KEPT {
            free.extend(self.buffer.take());
        }
    }
}

impl Core {
    /// Reads pages of a file that are not in RAM, all at once. `place` puts neighbours where programs have mapped them, if they have: it is given the
    /// first and the bytes of all. A page that is `apart` is placed alone.
    ///
    /// # Errors
    /// The system's. A page that cannot be read is skipped: the thread that needs it reads it again.
    pub fn read_ahead(
        &self,
        ino: Ino,
        first: u32,
        count: u32,
        apart: Option<u32>,
        place: impl Fn(u32, &[u8]) -> Result<Option<Arc<dyn PageMemory>>>,
    ) -> Result<()> {
        let end = first.saturating_add(count.min(PAGES_AT_ONCE));
        let absent = |index: u32| self.cache.begin_load(PageKey::data(ino, index)).ok();
        let frames: Vec<Arc<Frame>> = (first..end).filter_map(absent).collect();
        if frames.is_empty() {
            return Ok(());
        }
        let mut buffer = self.buffers.lend();
        let bytes = &mut buffer[..frames.len() * PAGE_BYTES];
        let read = self.cache.make_room().and_then(|()| self.read_frames(&frames, bytes));
        let is_read = read.unwrap_or_else(|_| vec![false; frames.len()]);
        let pages: Vec<(&Arc<Frame>, bool, &[u8])> = frames
            .iter()
            .zip(is_read)
            .zip(bytes.chunks_exact(PAGE_BYTES))
            .map(|((frame, is_read), page)| (frame, is_read, page))
            .collect();
        let mut at = 0;
        let is_one_run = |a: &(&Arc<Frame>, bool, &[u8]), b: &(&Arc<Frame>, bool, &[u8])| {
            let is_apart = Some(a.0.key().index()) == apart;
            a.1 && b.1 && !is_apart && a.0.key().word() + 1 == b.0.key().word()
        };
        for run in pages.chunk_by(is_one_run) {
            let run_bytes = &bytes[at * PAGE_BYTES..(at + run.len()) * PAGE_BYTES];
            at += run.len();
            let placed = if run[0].1 { place(run[0].0.key().index(), run_bytes).ok() } else { None };
            for (frame, _, page) in run {
                let page: &PageBytes = (*page).try_into().expect("a page");
                let loaded = Loaded { sum: self.cache.sums().of(page), ..Loaded::default() };
                let content = match &placed {
                    Some(Some(memory)) => Some(Content::Mapped(Arc::clone(memory))),
                    Some(None) => {
                        let page = self.cache.room().copy_of(page);
                        page.ok().map(Content::Own)
                    }
                    None => None,
                };
                match content {
                    Some(content) => {
                        frame.note_ahead();
                        self.cache.end_load(frame, Ok((loaded, content)))?;
                    }
                    None => self.cache.give_up(frame),
                }
            }
        }
        Ok(())
    }

    /// Reads those of the pages that are whole on flash.
    fn read_frames(&self, frames: &[Arc<Frame>], bytes: &mut [u8]) -> Result<Vec<bool>> {
        let _reading = self.flash.reading();
        let word = |frame: &Arc<Frame>| {
            let key = frame.key();
            if self.trims.covers(key) {
                Ok(Word::ZERO)
            } else {
                self.table.get(&self.flash, key.ino(), key.index())
            }
        };
        let words = frames.iter().map(word).collect::<Result<Vec<_>>>()?;
        self.flash.read_whole(&words, bytes)
    }
}
