//! A page-mapped translation layer as a block device.

use std::sync::RwLockReadGuard;
use std::sync::atomic::{AtomicU32, Ordering};

use aquifer_device::ftl::{Ftl, FtlDevice, FtlOpenError, FtlOptions};
use aquifer_device::nand::{Nand, Timing};
use aquifer_device::{AlignedBuffer, Device, Pacing, WriteRequest};

use super::{Below, Outgoing};
use crate::error::{Result, VolumeError};
use crate::word::{PAGE_BYTES, PageBytes, Physical};

/// Logical pages: first those of nodes, then as many as the file has.
pub struct FtlFlash {
    device: FtlDevice,
    first: u32,
    entry_bytes: u64,
    is_scattered: bool,
    next: AtomicU32,
}

impl FtlFlash {
    /// The device of `nand`, which has room for a file of `pages`, of which the first `used` that were allocated are.
    ///
    /// # Errors
    /// [`VolumeError::NoSpace`].
    pub fn new(
        nand: Nand,
        pacing: Pacing,
        pages: u32,
        used: u32,
        (entry_bytes, is_scattered): (u64, bool),
    ) -> Result<Self> {
        let mut ftl = Ftl::open(nand, FtlOptions::default()).map_err(refused)?;
        ftl.nand_mut().set_timing(Timing::NONE);
        let first = ftl.user_pages().checked_sub(pages).ok_or(VolumeError::NoSpace)?;
        let device = FtlDevice::new(ftl, pacing);
        Ok(FtlFlash { device, first, entry_bytes, is_scattered, next: AtomicU32::new(used) })
    }

    /// From now on the flash takes so long.
    pub fn set_timing(&self, timing: Timing) {
        self.device.with(|ftl| ftl.nand_mut().set_timing(timing));
    }

    /// The flash, and how many blocks were allocated.
    pub fn into_parts(self) -> (Nand, u32) {
        (self.device.into_inner().into_nand(), self.next.into_inner())
    }

    /// ext4 looks for a place that is as far from the file's first block as the page is from its first page.
    fn allocate(&self, index: u32) -> u32 {
        let next = self.next.fetch_add(1, Ordering::Relaxed);
        self.first + if self.is_scattered { next } else { index }
    }

    fn write_batch(&self, pages: &[(u32, &PageBytes)]) -> Result<()> {
        let mut aligned = AlignedBuffer::new(pages.len() * PAGE_BYTES);
        for ((_, bytes), page) in pages.iter().zip(aligned.chunks_exact_mut(PAGE_BYTES)) {
            page.copy_from_slice(&bytes[..]);
        }
        let mut requests: Vec<_> = pages
            .iter()
            .zip(aligned.chunks_exact(PAGE_BYTES))
            .map(|((at, _), bytes)| WriteRequest::new(Physical(*at).offset_bytes(), bytes))
            .collect();
        self.device.write_batch(&mut requests);
        Ok(requests.into_iter().try_for_each(|request| request.result)?)
    }
}

fn refused(error: FtlOpenError) -> VolumeError {
    match error {
        FtlOpenError::Nand(error) => error.into(),
        _ => VolumeError::Invalid("a translation layer needs more spare blocks than this flash has"),
    }
}

impl Below for FtlFlash {
    fn read(&self, _index: u32, at: u32, bytes: &mut PageBytes) -> Result<()> {
        if at < self.first {
            return Err(VolumeError::Corrupt(format!(
                "a page of the file is in block {at}, which is a node's"
            )));
        }
        Ok(self.device.read_at(Physical(at).offset_bytes(), &mut bytes[..])?)
    }

    fn read_node(&self, number: u32, bytes: &mut PageBytes) -> Result<()> {
        if number >= self.first {
            return Err(VolumeError::Corrupt(format!("block {number} is no node's")));
        }
        Ok(self.device.read_at(Physical(number).offset_bytes(), &mut bytes[..])?)
    }

    fn write(&self, pages: &[Outgoing<'_>]) -> Result<Vec<u32>> {
        let places: Vec<_> =
            pages.iter().map(|page| page.old.unwrap_or_else(|| self.allocate(page.index))).collect();
        let batch: Vec<_> = places.iter().copied().zip(pages.iter().map(|page| page.bytes)).collect();
        self.write_batch(&batch)?;
        Ok(places)
    }

    fn write_nodes(&self, nodes: &[(u32, Box<PageBytes>)]) -> Result<()> {
        let batch: Vec<_> = nodes.iter().map(|(number, bytes)| (*number, &**bytes)).collect();
        self.write_batch(&batch)
    }

    fn free(&self, _at: u32) {}

    fn sync(&self) -> Result<()> {
        Ok(self.device.sync()?)
    }

    fn reading(&self) -> Option<RwLockReadGuard<'_, ()>> {
        None
    }

    fn clean(&self, _moved: &mut dyn FnMut(u32, u32) -> Result<()>) -> Result<()> {
        Ok(())
    }

    fn nodes_max(&self) -> u32 {
        self.first
    }

    fn ram_bytes(&self) -> u64 {
        self.device.with(|ftl| u64::from(ftl.user_pages())) * self.entry_bytes
    }

    fn flash_reads(&self) -> u64 {
        self.device.with(|ftl| ftl.nand().counters().reads)
    }
}
