//! A database as memory: SQLite asks for pages where they are mapped, and reads those that are not.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use aquifer_volume::{Ino, Mapping, Protection, Result, Volume};

/// Whether a file was ever mapped in this process. What SQLite writes may be a mapped page then.
static WAS_ANY: AtomicBool = AtomicBool::new(false);

/// Whether what SQLite writes may be a mapped page: it must be copied before the volume sees it, because its fault takes the locks of the volume.
pub fn may_be_mapped() -> bool {
    WAS_ANY.load(Ordering::Relaxed)
}

/// The mapping of a connection's file, and the pages of it that SQLite has.
#[derive(Default)]
pub struct Mapped {
    /// Bytes that may be mapped: `PRAGMA mmap_size`.
    limit_bytes: u64,
    mapping: Option<Mapping>,
    pages: usize,
}

impl Mapped {
    /// Bytes that may be mapped.
    pub fn limit_bytes(&self) -> u64 {
        self.limit_bytes
    }

    /// Changes how many bytes may be mapped.
    pub fn set_limit(&mut self, limit_bytes: u64) {
        if limit_bytes != self.limit_bytes {
            self.limit_bytes = limit_bytes;
            self.unmap();
        }
    }

    /// Where `len` bytes from `offset` are mapped; `None` if they are not. `size_bytes` is the size of the file.
    ///
    /// # Errors
    /// The bytes cannot be read, which as memory would raise SIGBUS; the volume's.
    pub fn page(
        &mut self,
        volume: &Arc<Volume>,
        ino: Ino,
        size_bytes: u64,
        offset: u64,
        len: usize,
    ) -> Result<Option<*mut u8>> {
        let end = offset + len as u64;
        if end > size_bytes.min(self.limit_bytes) {
            return Ok(None);
        }
        let is_long_enough = |mapping: &Mapping| mapping.len() as u64 >= end;
        if !self.mapping.as_ref().is_some_and(is_long_enough) {
            if self.pages > 0 {
                return Ok(None);
            }
            self.mapping = None;
            WAS_ANY.store(true, Ordering::Relaxed);
            let len = usize::try_from(size_bytes.min(self.limit_bytes)).unwrap_or(usize::MAX);
            self.mapping = Some(volume.map_to_share(ino, 0, len, Protection::Read)?);
        }
        let Some(mapping) = &self.mapping else { return Ok(None) };
        // One byte of each page brings the page to RAM, or says why that cannot be.
        for at in (offset..end).step_by(aquifer_volume::PAGE_BYTES) {
            volume.read(ino, at, &mut [0])?;
        }
        self.pages += 1;
        Ok(Some(mapping.as_ptr().wrapping_add(offset as usize)))
    }

    /// Takes back a page that [`Mapped::page`] gave.
    pub fn give_back(&mut self) {
        self.pages = self.pages.saturating_sub(1);
    }

    /// Unmaps the file, unless SQLite has pages of it.
    pub fn unmap(&mut self) {
        if self.pages == 0 {
            self.mapping = None;
        }
    }
}
