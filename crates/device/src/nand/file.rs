//! The sparse file of an emulated device: header, states of blocks, out-of-band bytes, pages.
//!
//! A page is written before its out-of-band bytes, and these before the state of its block, so a process that is killed between two of
//! them leaves what a power cut leaves.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use super::block::BlockState;
use super::contents::ERASED;
use super::header::{Header, HeaderFound};
use super::{BlockId, Geometry, NandOpenError, OOB_BYTES, PageId};

/// Parts of the file begin at multiples of this.
const ALIGN: u64 = 4096;

/// Zeros in the file, which cost nothing, are erased bytes: everything is kept with its bits turned over.
fn turned(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().map(|byte| byte ^ ERASED).collect()
}

/// An open file of an emulated device.
#[derive(Debug)]
pub(super) struct NandFile {
    file: File,
    geometry: Geometry,
}

impl NandFile {
    /// Opens the file and the states of its blocks, or makes it when it is absent.
    pub(super) fn open(
        path: &Path,
        geometry: Geometry,
    ) -> Result<(Self, Option<Vec<BlockState>>), NandOpenError> {
        let failed = |step| move |source| NandOpenError::Io { path: path.to_owned(), step, source };
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let file = options.open(path).map_err(failed("opening"))?;
        crate::file::lock_exclusive(&file).map_err(failed("locking"))?;
        let nand = NandFile { file, geometry };
        let length = nand.file.metadata().map_err(failed("looking at"))?.len();
        if length == 0 {
            nand.file.set_len(nand.length()).map_err(failed("making room in"))?;
            nand.file.write_all_at(&Header { geometry }.encode(), 0).map_err(failed("writing"))?;
            return Ok((nand, None));
        }
        let states = nand.read_states(path, length)?;
        Ok((nand, Some(states)))
    }

    /// What an existing file says it is.
    pub(super) fn geometry_of(path: &Path) -> Result<Geometry, NandOpenError> {
        let failed = |source| NandOpenError::Io { path: path.to_owned(), step: "reading", source };
        let mut bytes = [0; Header::BYTES];
        let file = File::open(path).map_err(failed)?;
        match file.read_exact_at(&mut bytes, 0) {
            Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => return Err(failed(error)),
            _ => {}
        }
        match Header::decode(&bytes) {
            HeaderFound::Header(header) => Ok(header.geometry),
            HeaderFound::NotNand => Err(NandOpenError::NotNand { path: path.to_owned() }),
            HeaderFound::OtherVersion(version) => {
                Err(NandOpenError::OtherVersion { path: path.to_owned(), version })
            }
        }
    }

    fn read_states(&self, path: &Path, length: u64) -> Result<Vec<BlockState>, NandOpenError> {
        let mismatch = |what| NandOpenError::Mismatch { path: path.to_owned(), what };
        if Self::geometry_of(path)? != self.geometry {
            return Err(mismatch("its geometry is another than was asked for"));
        }
        if length < self.length() {
            return Err(mismatch("it is shorter than its geometry says"));
        }
        let mut bytes = vec![0; self.geometry.blocks() as usize * BlockState::BYTES];
        self.file.read_exact_at(&mut bytes, ALIGN).map_err(|source| NandOpenError::Io {
            path: path.to_owned(),
            step: "reading",
            source,
        })?;
        let decode = |bytes| BlockState::decode(bytes, self.geometry.pages_per_block);
        let states: Option<Vec<_>> = bytes.chunks(BlockState::BYTES).map(decode).collect();
        states.ok_or_else(|| mismatch("a block has more pages than the geometry says"))
    }

    pub(super) fn read_page(&self, page: PageId, bytes: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(bytes, self.page_at(page))?;
        bytes.iter_mut().for_each(|byte| *byte ^= ERASED);
        Ok(())
    }

    pub(super) fn read_oob(&self, page: PageId) -> io::Result<[u8; OOB_BYTES]> {
        let mut bytes = [0; OOB_BYTES];
        self.file.read_exact_at(&mut bytes, self.oob_at(page))?;
        Ok(bytes.map(|byte| byte ^ ERASED))
    }

    pub(super) fn program(&self, page: PageId, bytes: &[u8], oob: &[u8]) -> io::Result<()> {
        self.file.write_all_at(&turned(bytes), self.page_at(page))?;
        self.file.write_all_at(&turned(oob), self.oob_at(page))
    }

    pub(super) fn erase(&self, block: BlockId, pages: u32) -> io::Result<()> {
        let first = self.geometry.page(block, 0);
        let page_bytes = u64::from(self.geometry.page_bytes);
        self.zero(self.oob_at(first), u64::from(pages) * OOB_BYTES as u64)?;
        self.zero(self.page_at(first), u64::from(pages) * page_bytes)
    }

    pub(super) fn write_state(&self, block: BlockId, state: BlockState) -> io::Result<()> {
        self.file.write_all_at(&state.encode(), ALIGN + u64::from(block.0) * BlockState::BYTES as u64)
    }

    /// Makes everything durable that was programmed.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    /// Gives the range back to the file system, or overwrites it where that cannot be.
    fn zero(&self, offset: u64, length: u64) -> io::Result<()> {
        match crate::file::punch_hole(&self.file, offset, length) {
            Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => {
                self.file.write_all_at(&vec![0; length as usize], offset)
            }
            result => result,
        }
    }

    fn oob_start(&self) -> u64 {
        (ALIGN + u64::from(self.geometry.blocks()) * BlockState::BYTES as u64).next_multiple_of(ALIGN)
    }

    fn oob_at(&self, page: PageId) -> u64 {
        self.oob_start() + u64::from(page.0) * OOB_BYTES as u64
    }

    fn pages_start(&self) -> u64 {
        (self.oob_start() + u64::from(self.geometry.pages()) * OOB_BYTES as u64).next_multiple_of(ALIGN)
    }

    fn page_at(&self, page: PageId) -> u64 {
        self.pages_start() + u64::from(page.0) * u64::from(self.geometry.page_bytes)
    }

    fn length(&self) -> u64 {
        self.pages_start() + self.geometry.raw_bytes()
    }
}
