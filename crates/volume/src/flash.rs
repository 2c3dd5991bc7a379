//! Reading pages and believing them.

use std::collections::HashMap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use aquifer_device::AlignedBuffer;

use crate::block::Block;
use crate::counted::{Counted, Traffic};
use crate::error::{Result, VolumeError};
use crate::grace::{Grace, Look};
use crate::key::PageKey;
use crate::medium::Medium;
use crate::patch::Ranges;
use crate::word::{PAGE_BYTES, PageBytes, Physical, Place, Word, check_of, crc_of};

/// The medium, and who reads it now.
pub struct Flash {
    medium: Counted,
    /// Held by readers from the look at a word to the end of the read; taken alone before segments are erased, so that no page is
    /// erased under a reader.
    readers: Grace,
    pages_read: AtomicU64,
    nodes_read: AtomicU64,
    /// Pages of a damaged volume that are read so, whatever flash has.
    mended: OnceLock<Mended>,
}

/// Pages as they are read in place of what flash has.
pub type Mended = HashMap<PageKey, Box<PageBytes>>;

/// What a page was found to be.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Found {
    /// What a patch changed, if there was one.
    pub patched: Option<Ranges>,
}

impl Flash {
    /// A medium that nobody reads yet.
    #[must_use]
    pub fn new(medium: Box<dyn Medium>) -> Self {
        let (pages_read, nodes_read) = Default::default();
        let medium = Counted::new(medium);
        Flash { medium, readers: Grace::default(), pages_read, nodes_read, mended: OnceLock::new() }
    }

    /// Says what is read in place of what flash has, of a volume that is open for reading alone and of which nothing was read yet.
    pub fn set_mended(&self, mended: Mended) {
        // It is said once, by who opens the volume.
        let _ = self.mended.set(mended);
    }

    /// How many pages of files, and how many nodes of the table, were read.
    pub fn reads(&self) -> (u64, u64) {
        (self.pages_read.load(Ordering::Relaxed), self.nodes_read.load(Ordering::Relaxed))
    }

    /// The medium.
    #[must_use]
    pub fn medium(&self) -> &dyn Medium {
        &self.medium
    }

    /// What the medium was asked for.
    pub fn traffic(&self) -> &Traffic {
        self.medium.traffic()
    }

    /// Keeps segments from being erased.
    pub fn reading(&self) -> Look<'_> {
        self.readers.look()
    }

    /// Waits for everybody who may still read what was replaced.
    pub fn wait_for_readers(&self) {
        self.readers.wait();
    }

    /// The bytes of a page, verified.
    ///
    /// # Errors
    /// [`VolumeError::Damaged`] if they are not what was written; the medium's.
    pub fn read(&self, key: PageKey, word: Word, bytes: &mut PageBytes) -> Result<Found> {
        if let Some(mended) = self.mended.get().and_then(|mended| mended.get(&key)) {
            bytes.copy_from_slice(&**mended);
            return Ok(Found::default());
        }
        if word != Word::ZERO {
            let reads = if key.is_node() { &self.nodes_read } else { &self.pages_read };
            reads.fetch_add(1, Ordering::Relaxed);
        }
        match word.place() {
            Some(Place::Zero) => {
                bytes.fill(0);
                Ok(Found::default())
            }
            Some(Place::Page { at, check }) => {
                self.check_range(key, at)?;
                self.medium.read(at, bytes)?;
                let found = check_of(crc_of(bytes));
                if found == check {
                    return Ok(Found::default());
                }
                Err(damaged(key, format!("page {} should have check {check:08x}, has {found:08x}", at.0)))
            }
            Some(Place::Patched { base, block, .. }) => self.read_patched(key, base, block, bytes),
            Some(Place::Lost) => {
                Err(damaged(key, "the block of the log is damaged that said where its bytes are".into()))
            }
            None => Err(damaged(key, format!("its word {:016x} means nothing", word.bits()))),
        }
    }

    fn read_patched(
        &self,
        key: PageKey,
        base: Physical,
        block: Physical,
        bytes: &mut PageBytes,
    ) -> Result<Found> {
        self.check_range(key, base)?;
        self.check_range(key, block)?;
        let mut both = AlignedBuffer::new(2 * PAGE_BYTES);
        let (base_bytes, block_bytes) = both.split_at_mut(PAGE_BYTES);
        self.medium.read_many(&mut [(base, base_bytes), (block, block_bytes)])?;
        bytes.copy_from_slice(base_bytes);
        let block_page: &PageBytes = (&*block_bytes).try_into().expect("a page");
        let decoded = Block::decode(block_page).filter(|found| found.header().at == block);
        let patch = decoded.and_then(|found| found.patch_of(key));
        let Some(patch) = patch.filter(|patch| patch.base == base) else {
            return Err(damaged(key, format!("block {} has no patch for it", block.0)));
        };
        let patched = Ranges::apply(patch.ranges, bytes);
        let found = crc_of(bytes);
        match patched {
            Some(ranges) if found == patch.crc => Ok(Found { patched: Some(ranges) }),
            _ => Err(damaged(
                key,
                format!(
                    "page {} with the patch in block {} should have checksum {:08x}, has {found:08x}",
                    base.0, block.0, patch.crc
                ),
            )),
        }
    }

    /// The bytes of several pages that are whole on flash: `words[n]` says where those of `bytes[n * 4096..]` are. Neighbours on flash are read at
    /// once. Says of each whether it is what was written.
    ///
    /// # Errors
    /// The medium's.
    pub fn read_whole(&self, words: &[Word], bytes: &mut [u8]) -> Result<Vec<bool>> {
        let place = |word: &Word| match word.place() {
            Some(Place::Page { at, check }) if u64::from(at.0) < self.medium.geometry().pages() => {
                Some((at, check))
            }
            _ => None,
        };
        let places: Vec<_> = words.iter().map(place).collect();
        let mut runs: Vec<(Physical, &mut [u8])> = Vec::new();
        let (mut rest, mut nth) = (&mut *bytes, 0);
        while nth < places.len() {
            let Some((at, _)) = places[nth] else {
                rest = &mut rest[PAGE_BYTES..];
                nth += 1;
                continue;
            };
            let follows =
                |next: usize| places[next].is_some_and(|(page, _)| page.0 == at.0 + (next - nth) as u32);
            let count = 1 + (nth + 1..places.len()).take_while(|&next| follows(next)).count();
            let (run, behind) = rest.split_at_mut(count * PAGE_BYTES);
            runs.push((at, run));
            (rest, nth) = (behind, nth + count);
        }
        let count = places.iter().flatten().count() as u64;
        self.pages_read.fetch_add(count, Ordering::Relaxed);
        self.medium.read_many(&mut runs)?;
        let pages = bytes.chunks_exact(PAGE_BYTES);
        Ok(places
            .iter()
            .zip(pages)
            .map(|(place, page)| place.is_some_and(|(_, check)| check_of(crc_of(page)) == check))
            .collect())
    }

    fn check_range(&self, key: PageKey, at: Physical) -> Result<()> {
        if u64::from(at.0) < self.medium.geometry().pages() {
            return Ok(());
        }
        Err(damaged(key, format!("its word names page {}, which does not exist", at.0)))
    }
}

fn damaged(key: PageKey, what: String) -> VolumeError {
    VolumeError::Damaged { key, what }
}
