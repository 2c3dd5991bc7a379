//! Flash without a translation layer: the file system writes a log and cleans it.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

use aquifer_device::nand::{Nand, Timing};
use aquifer_device::{AlignedBuffer, Pacing};

use super::{Below, Outgoing};
use crate::error::{Result, VolumeError};
use crate::key::{Ino, PageKey};
use crate::medium::{Beside, Geometry, Medium, NandMedium};
use crate::word::{PAGE_BYTES, PageBytes, Physical, check_of, crc_of};

/// Whose a page of flash is: nobody's, that of a page of the file, or a node's. On real flash it is programmed beside the page, and takes no RAM; here it
/// takes none of the budget.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Owner(u32);

const NODE: u32 = 1 << 31;

impl Owner {
    const NOBODY: Owner = Owner(u32::MAX);

    fn page(index: u32) -> Self {
        Owner(index)
    }

    fn node(number: u32) -> Self {
        Owner(number | NODE)
    }

    fn key(self) -> PageKey {
        let (ino, index) =
            if self.0 & NODE == 0 { (Ino::FIRST_FREE, self.0) } else { (Ino::INODES, self.0 & !NODE) };
        PageKey::data(ino, index)
    }
}

/// Where new pages go, and where those that are moved go.
#[derive(Clone, Copy)]
enum Head {
    New,
    Moved,
}

#[derive(Clone)]
struct Log {
    /// Pages of each segment that somebody needs.
    valid: Vec<u32>,
    free: Vec<u32>,
    /// Segment, and pages used.
    heads: [Option<(u32, u32)>; 2],
}

/// What a mount would read from flash.
#[derive(Clone)]
pub struct Known {
    owners: Vec<u32>,
    checks: Vec<u32>,
    nodes: Vec<u32>,
    log: Log,
}

/// Flash that the file system knows.
pub struct CombinedFlash {
    medium: NandMedium,
    owners: Vec<AtomicU32>,
    checks: Vec<AtomicU32>,
    /// Where nodes are.
    nodes: RwLock<Vec<u32>>,
    log: Mutex<Log>,
    readers: RwLock<()>,
    nodes_max: u32,
}

fn atomics(words: Vec<u32>) -> Vec<AtomicU32> {
    words.into_iter().map(AtomicU32::new).collect()
}

fn words(atomics: Vec<AtomicU32>) -> Vec<u32> {
    atomics.into_iter().map(AtomicU32::into_inner).collect()
}

impl CombinedFlash {
    /// The flash, for a file of `pages`, with what is known of it, or new.
    ///
    /// # Errors
    /// Of [`NandMedium::new`].
    pub fn new(mut nand: Nand, pacing: Pacing, pages: u32, known: Option<Known>) -> Result<Self> {
        nand.set_timing(Timing::NONE);
        let medium = NandMedium::new(nand, pacing)?;
        let geometry = medium.geometry();
        let count = geometry.pages() as usize;
        let known = known.unwrap_or_else(|| Known {
            owners: vec![Owner::NOBODY.0; count],
            checks: vec![0; count],
            nodes: Vec::new(),
            log: Log {
                valid: vec![0; geometry.segments as usize],
                free: (0..geometry.segments).rev().filter(|&segment| !medium.is_bad(segment)).collect(),
                heads: [None; 2],
            },
        });
        Ok(CombinedFlash {
            medium,
            owners: atomics(known.owners),
            checks: atomics(known.checks),
            nodes: RwLock::new(known.nodes),
            log: Mutex::new(known.log),
            readers: RwLock::new(()),
            nodes_max: (count as u32).saturating_sub(pages),
        })
    }

    /// From now on the flash takes so long.
    pub fn set_timing(&self, timing: Timing) {
        self.medium.with(|nand| nand.set_timing(timing));
    }

    /// The flash, and what is known of it.
    pub fn into_parts(self) -> (Nand, Known) {
        let known = Known {
            owners: words(self.owners),
            checks: words(self.checks),
            nodes: self.nodes.into_inner().unwrap_or_else(PoisonError::into_inner),
            log: self.log.into_inner().unwrap_or_else(PoisonError::into_inner),
        };
        (self.medium.into_inner(), known)
    }

    fn lock(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn owner(&self, at: u32) -> Owner {
        Owner(self.owners[at as usize].load(Ordering::Acquire))
    }

    fn read_verified(&self, at: u32, owner: Owner, bytes: &mut PageBytes) -> Result<()> {
        if u64::from(at) >= self.medium.geometry().pages() {
            return Err(VolumeError::Corrupt(format!("page {at} of the flash does not exist")));
        }
        let (found, check) = (self.owner(at), self.checks[at as usize].load(Ordering::Relaxed));
        self.medium.read(Physical(at), bytes)?;
        if found != owner || check_of(crc_of(bytes)) != check {
            return Err(VolumeError::Corrupt(format!("page {at} of the flash is not what was written")));
        }
        Ok(())
    }

    /// Writes pages at a head; returns where they are.
    fn append(&self, log: &mut Log, head: Head, pages: &[(Owner, &PageBytes)]) -> Result<Vec<u32>> {
        let geometry = self.medium.geometry();
        let (mut places, mut left) = (Vec::with_capacity(pages.len()), pages);
        while !left.is_empty() {
            let open = log.heads[head as usize].filter(|(_, used)| *used < geometry.pages_per_segment);
            let (segment, used) = match open {
                Some(open) => open,
                None => {
                    let segment = log.free.pop().ok_or(VolumeError::NoSpace)?;
                    self.medium.prepare(segment)?;
                    (segment, 0)
                }
            };
            let count = left.len().min((geometry.pages_per_segment - used) as usize);
            let (now, later) = left.split_at(count);
            let first = geometry.page(segment, used);
            self.program(first, now)?;
            log.valid[segment as usize] += count as u32;
            log.heads[head as usize] = Some((segment, used + count as u32));
            places.extend(first.0..first.0 + count as u32);
            left = later;
        }
        Ok(places)
    }

    fn program(&self, first: Physical, pages: &[(Owner, &PageBytes)]) -> Result<()> {
        let mut aligned = AlignedBuffer::new(pages.len() * PAGE_BYTES);
        let mut beside = Vec::with_capacity(pages.len());
        let targets = aligned.chunks_exact_mut(PAGE_BYTES).zip(first.0 as usize..);
        for ((owner, bytes), (target, at)) in pages.iter().zip(targets) {
            target.copy_from_slice(&bytes[..]);
            let crc = crc_of(&bytes[..]);
            self.checks[at].store(check_of(crc), Ordering::Relaxed);
            self.owners[at].store(owner.0, Ordering::Release);
            beside.push(Beside { key: Some(owner.key()), crc, sequence: 0 });
        }
        self.medium.append(first, &aligned, &beside)
    }

    /// The full segment of which least is needed.
    fn victim(log: &Log, geometry: Geometry) -> Option<u32> {
        let is_full = |segment: &u32| {
            !log.free.contains(segment) && log.heads.iter().flatten().all(|(head, _)| head != segment)
        };
        (0..geometry.segments)
            .filter(is_full)
            .min_by_key(|&segment| log.valid[segment as usize])
            .filter(|&segment| log.valid[segment as usize] < geometry.pages_per_segment)
    }

    /// Moves what is needed of a segment.
    fn empty(&self, segment: u32, moved: &mut dyn FnMut(u32, u32) -> Result<()>) -> Result<()> {
        let geometry = self.medium.geometry();
        let first = geometry.page(segment, 0).0;
        let needed: Vec<_> = (first..first + geometry.pages_per_segment)
            .filter(|&at| self.owner(at) != Owner::NOBODY)
            .collect();
        let mut pages = vec![[0; PAGE_BYTES]; needed.len()];
        let mut requests: Vec<_> =
            needed.iter().map(|&at| Physical(at)).zip(pages.iter_mut().map(|page| &mut page[..])).collect();
        self.medium.read_many(&mut requests)?;
        let owned: Vec<_> = needed.iter().map(|&at| self.owner(at)).zip(&pages).collect();
        let places = self.append(&mut self.lock(), Head::Moved, &owned)?;
        for ((owner, _), (at, old)) in owned.iter().zip(places.into_iter().zip(needed)) {
            if owner.0 & NODE == 0 {
                moved(owner.0, at)?;
            } else {
                self.nodes.write().unwrap_or_else(PoisonError::into_inner)[(owner.0 & !NODE) as usize] = at;
            }
            self.free(old);
        }
        Ok(())
    }
}

impl Below for CombinedFlash {
    fn read(&self, index: u32, at: u32, bytes: &mut PageBytes) -> Result<()> {
        self.read_verified(at, Owner::page(index), bytes)
    }

    fn read_node(&self, number: u32, bytes: &mut PageBytes) -> Result<()> {
        let at = self.nodes.read().unwrap_or_else(PoisonError::into_inner).get(number as usize).copied();
        let at = at.ok_or_else(|| VolumeError::Corrupt(format!("node {number} is nowhere")))?;
        self.read_verified(at, Owner::node(number), bytes)
    }

    fn write(&self, pages: &[Outgoing<'_>]) -> Result<Vec<u32>> {
        let owned: Vec<_> = pages.iter().map(|page| (Owner::page(page.index), page.bytes)).collect();
        self.append(&mut self.lock(), Head::New, &owned)
    }

    fn write_nodes(&self, pages: &[(u32, Box<PageBytes>)]) -> Result<()> {
        let owned: Vec<_> = pages.iter().map(|(number, bytes)| (Owner::node(*number), &**bytes)).collect();
        let places = self.append(&mut self.lock(), Head::New, &owned)?;
        for ((number, _), at) in pages.iter().zip(places) {
            let number = *number as usize;
            let mut nodes = self.nodes.write().unwrap_or_else(PoisonError::into_inner);
            if nodes.len() <= number {
                nodes.resize(number + 1, u32::MAX);
            }
            let old = std::mem::replace(&mut nodes[number], at);
            drop(nodes);
            if old != u32::MAX {
                self.free(old);
            }
        }
        Ok(())
    }

    fn free(&self, at: u32) {
        let (segment, _) = self.medium.geometry().split(Physical(at));
        self.owners[at as usize].store(Owner::NOBODY.0, Ordering::Release);
        self.lock().valid[segment as usize] -= 1;
    }

    fn sync(&self) -> Result<()> {
        self.medium.sync()
    }

    fn reading(&self) -> Option<RwLockReadGuard<'_, ()>> {
        Some(self.readers.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn clean(&self, moved: &mut dyn FnMut(u32, u32) -> Result<()>) -> Result<()> {
        let geometry = self.medium.geometry();
        let wanted = 6.max(geometry.segments as usize / 64);
        for _ in 0..geometry.segments {
            let victim = {
                let log = self.lock();
                (log.free.len() < wanted).then(|| Self::victim(&log, geometry)).flatten()
            };
            let Some(segment) = victim else { return Ok(()) };
            self.empty(segment, moved)?;
            // Waits for reads that looked up a place in the segment before.
            drop(self.readers.write().unwrap_or_else(PoisonError::into_inner));
            self.lock().free.push(segment);
        }
        Ok(())
    }

    fn nodes_max(&self) -> u32 {
        self.nodes_max
    }

    /// The places of nodes, 4 bytes each.
    fn ram_bytes(&self) -> u64 {
        self.nodes.read().unwrap_or_else(PoisonError::into_inner).len() as u64 * 4
    }

    fn flash_reads(&self) -> u64 {
        self.medium.with(|nand| nand.counters().reads)
    }
}
