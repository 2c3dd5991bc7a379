//! Checkpoints: the table goes to flash, and an anchor says where it is.
//!
//! Nodes are written from the leaves upwards, since each changes the one above. Nothing that the last anchor can reach is erased before the next is
//! durable: so recovery can read everything as it was, and a checkpoint that was not finished costs nothing.

use std::sync::Arc;

use crate::block::Kind;
use crate::cleaner::SEGMENTS_FOR_RECOVERY;
use crate::commit::append;
use crate::core::Core;
use crate::error::{Result, VolumeError};
use crate::key::Ino;
use crate::node::Node;
use crate::patch::PATCH_BYTES_MAX;
use crate::word::{PAGE_BYTES, Word};
use crate::writer::{Head, Writer};

impl Core {
    /// Writes the table and an anchor; frees what no reader needs.
    ///
    /// # Errors
    /// What stops a volume.
    pub(crate) fn checkpoint(&self, writer: &mut Writer, is_clean: bool) -> Result<()> {
        let outcome = self.write_checkpoint(writer, is_clean);
        if let Err(error) = &outcome {
            self.stop(error);
        }
        outcome
    }

    fn write_checkpoint(&self, writer: &mut Writer, is_clean: bool) -> Result<()> {
        self.write_table(writer)?;
        let medium = self.flash.medium();
        writer.sync(medium)?;
        let free = writer.write_anchor(medium, self.table.top(), is_clean)?;
        self.flash.wait_for_readers();
        free.into_iter().try_for_each(|segment| writer.make_ready(medium, segment))?;
        self.note_room(writer);
        self.table.shrink();
        Ok(())
    }

    /// Writes all nodes that changed. Where blocks were displaced, those above name places where nothing is, and are written once more.
    fn write_table(&self, writer: &mut Writer) -> Result<()> {
        loop {
            writer.begin(Kind::Checkpoint, Head::Changes);
            // As long as somebody has them, they stay in RAM: flash cannot be asked for them before the end.
            let written = self.append_dirty_nodes(writer)?;
            let displaced = writer.end(self.flash.medium())?;
            if displaced.is_empty() {
                return Ok(());
            }
            for (node, word) in &written {
                let now = displaced.word(*word);
                if now != *word {
                    self.point(&mut writer.segments, node.key(), now)?;
                }
            }
        }
    }

    fn append_dirty_nodes(&self, writer: &mut Writer) -> Result<Vec<(Arc<Node>, Word)>> {
        let medium = self.flash.medium();
        let mut bytes = [0; PAGE_BYTES];
        let mut written = Vec::new();
        loop {
            let dirty = self.table.dirty_nodes();
            let Some(lowest) = dirty.first().map(|node| (node.key().ino() == Ino::ROOTS, node.key().level()))
            else {
                return Ok(written);
            };
            for node in dirty {
                let key = node.key();
                if (key.ino() == Ino::ROOTS, key.level()) != lowest {
                    break;
                }
                let ranges = node.to_page(&mut bytes);
                let word = self.table.node_word(&self.flash, key)?;
                let (word, patched) =
                    append(writer, medium, key, &bytes, word, Some(ranges), PATCH_BYTES_MAX)?;
                node.note_written(patched.is_none());
                self.point(&mut writer.segments, key, word)?;
                written.push((node, word));
            }
        }
    }

    /// After something was written: keeps the log short, segments free, and flash evenly worn.
    pub(crate) fn maintain(&self, writer: &mut Writer) -> Result<()> {
        let limits = *self.limits();
        let (_, dirty_nodes) = self.table.counts();
        if dirty_nodes >= limits.dirty_nodes || writer.pages_since_anchor() >= limits.log_pages {
            self.checkpoint(writer, false)?;
        }
        self.clean_until(writer, limits.free_segments)?;
        self.care_for_flash(writer)
    }

    /// Makes sure that `pages` pages can be written, besides the table.
    pub(crate) fn ensure_room(&self, writer: &mut Writer, pages: u64) -> Result<()> {
        let per_segment = self.flash.medium().geometry().pages_per_segment;
        let needed = Writer::segments_for(pages, per_segment) + u64::from(SEGMENTS_FOR_RECOVERY);
        let needed = u32::try_from(needed).unwrap_or(u32::MAX);
        if writer.segments.free() < needed {
            self.clean_until(writer, needed)?;
        }
        if writer.segments.free() < needed {
            return Err(VolumeError::NoSpace);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc::{RecvTimeoutError, channel};
    use std::time::Duration;

    use aquifer_device::MemoryDevice;

    use crate::medium::DeviceMedium;
    use crate::volume::{OpenOptions, Volume};

    #[test]
    fn nothing_is_erased_while_somebody_reads() {
        let device = Arc::new(MemoryDevice::new(16 << 20, 4096));
        let medium = || Box::new(DeviceMedium::new(Arc::clone(&device), 32).expect("a medium"));
        Volume::create(medium(), (0, 0)).expect("create");
        let options = OpenOptions { ram_bytes: 1 << 20, is_read_only: false };
        let volume = Volume::open(medium(), options).expect("open");
        let core = volume.core();
        let (told, hears) = channel();
        let reading = core.flash.reading();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let outcome = core.checkpoint(&mut core.lock_writer(), false);
                told.send(outcome).expect("somebody hears");
            });
            assert_eq!(hears.recv_timeout(Duration::from_millis(100)), Err(RecvTimeoutError::Timeout));
            drop(reading);
            assert_eq!(hears.recv_timeout(Duration::from_secs(60)), Ok(Ok(())));
        });
    }
}
