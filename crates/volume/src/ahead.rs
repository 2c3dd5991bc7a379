//! Pages that are read before they are asked for.

use std::sync::Arc;

use aquifer_device::AlignedBuffer;

use crate::cache::Loaded;
use crate::core::Core;
use crate::error::Result;
use crate::frame::{Content, Frame, PageMemory};
use crate::key::{Ino, PageKey};
use crate::word::{PAGE_BYTES, Word};

/// Most pages that are read at once.
pub const PAGES_AT_ONCE: u32 = 128;

impl Core {
    /// Reads pages of a file that are not in RAM, all at once. `place` puts neighbours where programs have mapped them, if they have: it is given the
    /// first and the bytes of all.
    ///
    /// # Errors
    /// The system's. A page that cannot be read is left for whoever asks for it.
    pub fn read_ahead(
        &self,
        ino: Ino,
        first: u32,
        count: u32,
        place: impl Fn(u32, &[u8]) -> Result<Option<Arc<dyn PageMemory>>>,
    ) -> Result<()> {
        let end = first.saturating_add(count.min(PAGES_AT_ONCE));
        let absent = |index: u32| self.cache.begin_load(PageKey::data(ino, index)).ok();
        let frames: Vec<Arc<Frame>> = (first..end).filter_map(absent).collect();
        if frames.is_empty() {
            return Ok(());
        }
        let mut bytes = AlignedBuffer::new(frames.len() * PAGE_BYTES);
        let read = self.cache.make_room().and_then(|()| self.read_frames(&frames, &mut bytes));
        let is_read = read.unwrap_or_else(|_| vec![false; frames.len()]);
        let pages: Vec<(&Arc<Frame>, bool, &[u8])> = frames
            .iter()
            .zip(is_read)
            .zip(bytes.chunks_exact(PAGE_BYTES))
            .map(|((frame, is_read), page)| (frame, is_read, page))
            .collect();
        let mut at = 0;
        for run in pages.chunk_by(|a, b| a.1 && b.1 && a.0.key().word() + 1 == b.0.key().word()) {
            let run_bytes = &bytes[at * PAGE_BYTES..(at + run.len()) * PAGE_BYTES];
            at += run.len();
            let placed = if run[0].1 { place(run[0].0.key().index(), run_bytes).ok() } else { None };
            for (frame, _, page) in run {
                match &placed {
                    Some(memory) => {
                        let content = match memory {
                            Some(memory) => Content::Mapped(Arc::clone(memory)),
                            None => Content::Own(Box::new((*page).try_into().expect("a page"))),
                        };
                        frame.note_ahead();
                        self.cache.end_load(frame, Ok((Loaded::default(), content)))?;
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
