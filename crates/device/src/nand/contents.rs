//! Where the bytes of pages are kept.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use super::file::NandFile;
use super::{BlockId, Geometry, OOB_BYTES, PageId};

/// What keeps the bytes of an emulated device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Backing {
    /// Memory: as much as is programmed. Snapshots share it until one of them changes.
    Ram,
    /// Memory for out-of-band bytes alone; pages read as zeros. For studies of how much is programmed and when.
    OobOnly,
    /// A sparse file, made if it is absent. It has no snapshots.
    File(PathBuf),
}

/// What an erased page reads as.
pub(super) const ERASED: u8 = 0xFF;

/// The pages of one block since its last erase.
#[derive(Clone, Debug)]
struct BlockPages {
    bytes: Box<[u8]>,
    oob: Box<[[u8; OOB_BYTES]]>,
}

#[derive(Debug)]
enum Store {
    Ram { keeps_bytes: bool, blocks: Vec<Option<Arc<BlockPages>>> },
    File(NandFile),
}

/// The bytes of all pages.
#[derive(Debug)]
pub(super) struct Contents {
    geometry: Geometry,
    store: Store,
}

impl Contents {
    pub(super) fn in_ram(geometry: Geometry, keeps_bytes: bool) -> Self {
        let blocks = vec![None; geometry.blocks() as usize];
        Contents { geometry, store: Store::Ram { keeps_bytes, blocks } }
    }

    pub(super) fn in_file(geometry: Geometry, file: NandFile) -> Self {
        Contents { geometry, store: Store::File(file) }
    }

    /// Whether bytes are kept that can be told from others.
    pub(super) fn keeps_bytes(&self) -> bool {
        !matches!(self.store, Store::Ram { keeps_bytes: false, .. })
    }

    /// The file, if that is where they are.
    pub(super) fn file(&self) -> Option<&NandFile> {
        match &self.store {
            Store::File(file) => Some(file),
            Store::Ram { .. } => None,
        }
    }

    /// Memory that shares everything with this until one of them changes it. `None` for a file.
    pub(super) fn snapshot(&self) -> Option<Self> {
        match &self.store {
            Store::Ram { keeps_bytes, blocks } => {
                let store = Store::Ram { keeps_bytes: *keeps_bytes, blocks: blocks.clone() };
                Some(Contents { geometry: self.geometry, store })
            }
            Store::File(_) => None,
        }
    }

    pub(super) fn read(&self, page: PageId, bytes: &mut [u8]) -> io::Result<()> {
        let (block, index) = page.split(self.geometry.pages_per_block);
        match &self.store {
            Store::File(file) => file.read_page(page, bytes),
            Store::Ram { keeps_bytes: false, .. } => {
                bytes.fill(0);
                Ok(())
            }
            Store::Ram { blocks, .. } => {
                match &blocks[block.0 as usize] {
                    Some(pages) => bytes.copy_from_slice(&pages.bytes[self.range(index)]),
                    None => bytes.fill(ERASED),
                }
                Ok(())
            }
        }
    }

    pub(super) fn oob(&self, page: PageId) -> io::Result<[u8; OOB_BYTES]> {
        let (block, index) = page.split(self.geometry.pages_per_block);
        match &self.store {
            Store::File(file) => file.read_oob(page),
            Store::Ram { blocks, .. } => {
                let pages = blocks[block.0 as usize].as_ref();
                Ok(pages.map_or([ERASED; OOB_BYTES], |pages| pages.oob[index as usize]))
            }
        }
    }

    /// Programs the first `reached` bytes of the page and its out-of-band bytes, in this order.
    pub(super) fn program(
        &mut self,
        page: PageId,
        bytes: &[u8],
        oob: &[u8; OOB_BYTES],
        reached: usize,
    ) -> io::Result<()> {
        let of_page = reached.min(bytes.len());
        let of_oob = (reached - of_page).min(OOB_BYTES);
        let (block, index) = page.split(self.geometry.pages_per_block);
        let range = self.range(index);
        match &mut self.store {
            Store::File(file) => file.program(page, &bytes[..of_page], &oob[..of_oob]),
            Store::Ram { keeps_bytes, blocks } => {
                let erased = || Arc::new(BlockPages::erased(&self.geometry, *keeps_bytes));
                let pages = Arc::make_mut(blocks[block.0 as usize].get_or_insert_with(erased));
                if *keeps_bytes {
                    pages.bytes[range][..of_page].copy_from_slice(&bytes[..of_page]);
                }
                pages.oob[index as usize][..of_oob].copy_from_slice(&oob[..of_oob]);
                Ok(())
            }
        }
    }

    /// Erases the first `reached` pages of a block.
    pub(super) fn erase(&mut self, block: BlockId, reached: u32) -> io::Result<()> {
        let bytes_end = self.range(reached).start;
        match &mut self.store {
            Store::File(file) => file.erase(block, reached),
            Store::Ram { keeps_bytes, blocks } => {
                let slot = &mut blocks[block.0 as usize];
                if reached == self.geometry.pages_per_block {
                    *slot = None;
                } else if let Some(pages) = slot {
                    let pages = Arc::make_mut(pages);
                    if *keeps_bytes {
                        pages.bytes[..bytes_end].fill(ERASED);
                    }
                    pages.oob[..reached as usize].fill([ERASED; OOB_BYTES]);
                }
                Ok(())
            }
        }
    }

    fn range(&self, index: u32) -> std::ops::Range<usize> {
        let page_bytes = self.geometry.page_bytes as usize;
        let start = index as usize * page_bytes;
        start..start + page_bytes
    }
}

impl BlockPages {
    fn erased(geometry: &Geometry, keeps_bytes: bool) -> Self {
        let pages = geometry.pages_per_block as usize;
        let bytes = if keeps_bytes { pages * geometry.page_bytes as usize } else { 0 };
        BlockPages { bytes: vec![ERASED; bytes].into(), oob: vec![[ERASED; OOB_BYTES]; pages].into() }
    }
}
