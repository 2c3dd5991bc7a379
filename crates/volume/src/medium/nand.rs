//! Raw flash as a medium: the volume is its translation layer.

use std::sync::{Mutex, MutexGuard, PoisonError};

use aquifer_base::checksum::crc32c_seeded;
use aquifer_device::nand::{BlockId, Nand, NandError, OOB_BYTES, PageId, Urgency};
use aquifer_device::{PacedClock, Pacing};

use super::{Beside, Geometry, Medium};
use crate::error::{Result, VolumeError};
use crate::word::{PAGE_BYTES, PageBytes, Physical};

/// Flash whose segments are one erase block of each die, so that all dies program side by side.
pub struct NandMedium {
    state: Mutex<State>,
    geometry: Geometry,
    dies: u32,
    clock: PacedClock,
}

struct State {
    nand: Nand,
    /// When the last request ended.
    last_ns: u64,
}

impl NandMedium {
    /// The whole of `nand`.
    ///
    /// # Errors
    /// [`VolumeError::Invalid`] if its pages have not 4096 bytes, or their bytes are not kept.
    pub fn new(nand: Nand, pacing: Pacing) -> Result<Self> {
        let flash = *nand.geometry();
        if flash.page_bytes as usize != PAGE_BYTES {
            return Err(VolumeError::Invalid("a volume needs flash with pages of 4096 bytes"));
        }
        if !nand.keeps_bytes() {
            return Err(VolumeError::Invalid("a volume needs flash that keeps its bytes"));
        }
        let dies = flash.dies();
        let geometry =
            Geometry { segments: flash.blocks_per_die(), pages_per_segment: dies * flash.pages_per_block };
        if geometry.pages() > Physical::END {
            return Err(VolumeError::Invalid("a volume has at most 8 TiB"));
        }
        let state = Mutex::new(State { nand, last_ns: 0 });
        Ok(NandMedium { state, geometry, dies, clock: PacedClock::new(pacing) })
    }

    /// What `look` makes of the flash, which is locked meanwhile.
    pub fn with<T>(&self, look: impl FnOnce(&mut Nand) -> T) -> T {
        look(&mut self.lock().nand)
    }

    /// The flash.
    pub fn into_inner(self) -> Nand {
        self.state.into_inner().unwrap_or_else(PoisonError::into_inner).nand
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn block(&self, nand: &Nand, segment: u32, die: u32) -> BlockId {
        BlockId(die * nand.geometry().blocks_per_die() + segment)
    }

    fn page(&self, nand: &Nand, at: Physical) -> PageId {
        let (segment, index) = self.geometry.split(at);
        nand.geometry().page(self.block(nand, segment, index % self.dies), index / self.dies)
    }

    /// Does requests that begin together, and returns when the last of them has ended.
    fn together(
        &self,
        work: impl FnOnce(&mut Nand, u64) -> std::result::Result<u64, NandError>,
    ) -> Result<()> {
        let mut state = self.lock();
        let now_ns = self.clock.now_ns(state.last_ns);
        state.nand.forget_before(now_ns);
        let done_ns = work(&mut state.nand, now_ns)?;
        state.last_ns = state.last_ns.max(done_ns);
        drop(state);
        self.clock.wait_until(done_ns);
        Ok(())
    }

    fn read_one(
        &self,
        nand: &mut Nand,
        at: Physical,
        bytes: &mut [u8],
        now_ns: u64,
    ) -> std::result::Result<u64, NandError> {
        /// More bits may be wrong in one attempt than in the next.
        const ATTEMPTS: u32 = 3;
        let page = self.page(nand, at);
        let mut attempt = || nand.read(page, bytes, Urgency::Now, now_ns).map(|read| read.done_ns);
        (1..ATTEMPTS).fold(attempt(), |outcome, _| outcome.or_else(|_| attempt()))
    }
}

impl Medium for NandMedium {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn is_bad(&self, segment: u32) -> bool {
        let nand = &self.lock().nand;
        (0..self.dies).any(|die| nand.is_bad(self.block(nand, segment, die)))
    }

    /// Two may fail, and two others still take turns.
    fn anchor_segments(&self) -> u32 {
        4
    }

    fn anchor_copies(&self) -> u32 {
        1
    }

    fn erases(&self, segment: u32) -> u32 {
        let nand = &self.lock().nand;
        (0..self.dies).map(|die| nand.erases(self.block(nand, segment, die))).max().unwrap_or(0)
    }

    fn read(&self, at: Physical, bytes: &mut PageBytes) -> Result<()> {
        self.read_run(at, bytes)
    }

    fn read_run(&self, at: Physical, bytes: &mut [u8]) -> Result<()> {
        self.together(|nand, now_ns| {
            bytes.chunks_exact_mut(PAGE_BYTES).zip(at.0..).try_fold(now_ns, |done_ns, (page, number)| {
                Ok(done_ns.max(self.read_one(nand, Physical(number), page, now_ns)?))
            })
        })
    }

    fn read_many(&self, runs: &mut [(Physical, &mut [u8])]) -> Result<()> {
        self.together(|nand, now_ns| {
            let pages =
                runs.iter_mut().flat_map(|(at, bytes)| (at.0..).zip(bytes.chunks_exact_mut(PAGE_BYTES)));
            pages.into_iter().try_fold(now_ns, |done_ns, (number, page)| {
                Ok(done_ns.max(self.read_one(nand, Physical(number), page, now_ns)?))
            })
        })
    }

    fn append(&self, at: Physical, bytes: &[u8], beside: &[Beside]) -> Result<()> {
        self.together(|nand, now_ns| {
            let pages = bytes.chunks_exact(PAGE_BYTES).zip(beside).zip(at.0..);
            pages.into_iter().try_fold(now_ns, |done_ns, ((page, beside), number)| {
                let id = self.page(nand, Physical(number));
                let outcome = nand.program(id, page, &encode(beside), now_ns);
                if let Err(NandError::ProgramFailed(_)) = outcome {
                    nand.retire(id.split(nand.geometry().pages_per_block).0)?;
                }
                Ok(done_ns.max(outcome?))
            })
        })
    }

    fn prepare(&self, segment: u32) -> Result<()> {
        self.together(|nand, now_ns| {
            (0..self.dies).try_fold(now_ns, |done_ns, die| {
                let block = self.block(nand, segment, die);
                if nand.used_pages(block) == 0 {
                    return Ok(done_ns);
                }
                Ok(done_ns.max(nand.erase(block, now_ns)?))
            })
        })
    }

    /// Preparing it has erased it.
    fn wipe(&self, _segment: u32) -> Result<()> {
        Ok(())
    }

    fn discard(&self, _segment: u32) -> Result<()> {
        Ok(())
    }

    /// Programs are durable when they end; this is for the file behind the emulation.
    fn sync(&self) -> Result<()> {
        Ok(self.lock().nand.sync_backing()?)
    }
}

/// | bytes | content (little-endian) |
/// |---|---|
/// | 0 | 0x56 |
/// | 1 | 1 if the page has a key |
/// | 8..16 | key |
/// | 16..24 | sequence of the block that names the page |
/// | 24..28 | CRC32C of the page |
/// | 28..32 | CRC32C of the 28 bytes before |
fn encode(beside: &Beside) -> [u8; OOB_BYTES] {
    let mut oob = [0; OOB_BYTES];
    oob[0] = 0x56;
    oob[1] = u8::from(beside.key.is_some());
    oob[8..16].copy_from_slice(&beside.key.map_or(0, crate::PageKey::word).to_le_bytes());
    oob[16..24].copy_from_slice(&beside.sequence.to_le_bytes());
    oob[24..28].copy_from_slice(&beside.crc.to_le_bytes());
    let crc = crc32c_seeded(0, &oob[..28]);
    oob[28..].copy_from_slice(&crc.to_le_bytes());
    oob
}
