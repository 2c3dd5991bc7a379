//! What lies below the file system.

mod combined;
mod ftl;

pub use combined::{CombinedFlash, Known};
pub use ftl::FtlFlash;

use std::sync::RwLockReadGuard;

use crate::error::Result;
use crate::word::PageBytes;

/// Which tables there are below the memory's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// The file system's extent tree, and below it the table of a page-mapped flash translation layer, which is in RAM as a whole.
    Ftl {
        /// Bytes of its table for each page that it offers: 4 for the place alone, 8 with the way back, as ours really has them.
        entry_bytes: u64,
        /// Whether each page of the file is an extent of its own, as on a file system that is old and full, or never writes in place. Otherwise
        /// blocks lie in the order of the file, as ext4 allocates them where it has room.
        is_scattered: bool,
    },
    /// The extent tree alone, which knows pages of flash: the file system writes the log and cleans it.
    Combined,
}

/// A page of the file that is to be written.
pub struct Outgoing<'a> {
    /// Which page.
    pub index: u32,
    /// Where it is now.
    pub old: Option<u32>,
    /// What is written.
    pub bytes: &'a PageBytes,
}

/// Blocks, those of the file and those of nodes. Nodes' blocks have numbers of their own, from 0.
pub trait Below: Send + Sync {
    /// Reads page `index` of the file, which is at `at`.
    ///
    /// # Errors
    /// The flash's.
    fn read(&self, index: u32, at: u32, bytes: &mut PageBytes) -> Result<()>;

    /// Reads a node.
    ///
    /// # Errors
    /// The flash's.
    fn read_node(&self, number: u32, bytes: &mut PageBytes) -> Result<()>;

    /// Writes pages of the file; returns where each is now. Where one was before stays as it is until [`Below::free`].
    ///
    /// # Errors
    /// The flash's.
    fn write(&self, pages: &[Outgoing<'_>]) -> Result<Vec<u32>>;

    /// Writes nodes.
    ///
    /// # Errors
    /// The flash's.
    fn write_nodes(&self, nodes: &[(u32, Box<PageBytes>)]) -> Result<()>;

    /// Nobody needs what a page of the file was.
    fn free(&self, at: u32);

    /// Makes what was written durable.
    ///
    /// # Errors
    /// The flash's.
    fn sync(&self) -> Result<()>;

    /// Keeps what is read where it is, if it could move otherwise.
    fn reading(&self) -> Option<RwLockReadGuard<'_, ()>>;

    /// Makes room if there is little; tells of pages of the file that have moved, and returns where those were.
    ///
    /// # Errors
    /// The flash's; those of `moved`.
    fn clean(&self, moved: &mut dyn FnMut(u32, u32) -> Result<()>) -> Result<()>;

    /// How many nodes there can be.
    fn nodes_max(&self) -> u32;

    /// RAM of its table.
    fn ram_bytes(&self) -> u64;

    /// Reads of the flash so far.
    fn flash_reads(&self) -> u64;
}
