//! A block of the log: says which pages follow it, and holds patches and trims itself.
//!
//! ```text
//! 0 magic "AQVB" | 4 crc u32 of the rest | 8 volume u64 | 16 sequence u64 | 24 epoch u32 | 28 own page u32
//! 32 next segment u32 | 36 kind u8 | 37 is_last u8 | 38 tags u16 | 40 trims u16 | 42 patches u16
//! 44 echoed trims u16 | 46 echoed keys u16 | 48 first sequence of the transaction u64 | 56 durable up to u64
//! 64 tags:         key u64, crc u32, zeros                               16 bytes each
//!    trims:        ino u32, first page u32, last page u32, zeros         16 bytes each
//!    echoed trims: as trims                                              16 bytes each
//!    echoed keys:  key u64                                                8 bytes each
//!    patches:      key u64, crc u32, base u32, len u16, zeros, the patch 24 bytes and the patch, to a multiple of 8
//! ```
//!
//! The **echo** says what the block before changed, by sequence: if that one cannot be read any more, recovery knows what is lost. In version 1 there is no
//! echo, and nothing says up to where the log was durable.

use crate::key::{Ino, PageKey};
use crate::word::{PAGE_BYTES, PATCH_BYTES_SHORT, PageBytes, Physical, Place, crc_of};

const MAGIC: [u8; 4] = *b"AQVB";
const HEADER_BYTES: usize = 64;
const TAG_BYTES: usize = 16;
const TRIM_BYTES: usize = 16;
/// What a patch takes besides its ranges.
pub const PATCH_HEADER_BYTES: usize = 24;
const CHECKED_FROM: usize = 8;
const EPOCH_AT: usize = 24;
/// Numbers that grow by one with each block or anchor end long before this one.
pub(crate) const SEQUENCE_END: u64 = 1 << 63;

/// What the echo of a block takes in the next one at most, so that there is room for what that one says itself.
const ECHO_BYTES_MAX: usize = (PAGE_BYTES - HEADER_BYTES) / 3;
const KEY_BYTES: usize = 8;
/// Most pages that one block names.
pub const BLOCK_PAGES_MAX: usize = ECHO_BYTES_MAX / KEY_BYTES;

/// Why a transaction was written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Changes to files.
    Commit = 1,
    /// Pages copied out of a segment that is cleaned.
    Move = 2,
    /// Nodes of the table. They count once an anchor names them.
    Checkpoint = 3,
}

/// What a block says besides its contents.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// Number of the volume.
    pub volume: u64,
    /// Grows by one with each block.
    pub sequence: u64,
    /// Which opening of the volume wrote it.
    pub epoch: u32,
    /// Where the block is.
    pub at: Physical,
    /// The segment in which this head goes on when this one is full.
    pub next_segment: u32,
    /// Why it was written.
    pub kind: Kind,
    /// Whether the transaction ends with this block.
    pub is_last: bool,
    /// Sequence of the transaction's first block.
    pub first_sequence: u64,
    /// All blocks before this sequence were durable when this one was written. If one of them cannot be read, it is damaged and not torn.
    pub durable: u64,
}

/// One of the pages that follow a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tag {
    /// Whose bytes.
    pub key: PageKey,
    /// Their CRC32C.
    pub crc: u32,
}

/// Pages of a file that read as zeros from now on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Trim {
    /// The file.
    pub ino: Ino,
    /// First page.
    pub first: u32,
    /// Last page.
    pub last: u32,
}

/// What makes a page of an older one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Patch<'a> {
    /// Whose bytes.
    pub key: PageKey,
    /// The older page.
    pub base: Physical,
    /// CRC32C of the bytes that come of it.
    pub crc: u32,
    /// As [`crate::patch::Ranges::apply`] takes it.
    pub ranges: &'a [u8],
}

impl Patch<'_> {
    /// Where the page is, if this patch is in `block`.
    #[must_use]
    pub fn place_in(&self, block: Physical) -> Place {
        let is_long = PATCH_HEADER_BYTES + self.ranges.len().next_multiple_of(8) > PATCH_BYTES_SHORT;
        Place::Patched { base: self.base, block, is_long }
    }
}

/// What a block changed, as the next one says it again.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Echo {
    /// Its trims.
    pub trims: Vec<Trim>,
    /// Keys of its pages and patches.
    pub keys: Vec<PageKey>,
}

impl Echo {
    fn bytes(&self) -> usize {
        self.trims.len() * TRIM_BYTES + self.keys.len() * KEY_BYTES
    }
}

/// A block as it is filled.
#[derive(Clone, Debug, Default)]
pub struct BlockBuilder {
    tags: Vec<Tag>,
    trims: Vec<Trim>,
    patches: Vec<u8>,
    patch_count: u16,
    /// Of this block, for the next.
    echo: Echo,
    /// Of the block before.
    echoed: Echo,
}

impl BlockBuilder {
    /// Whether nothing is in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tags.is_empty() && self.trims.is_empty() && self.patches.is_empty()
    }

    /// Pages that will follow.
    #[must_use]
    pub fn pages(&self) -> usize {
        self.tags.len()
    }

    fn room(&self) -> usize {
        let used = self.tags.len() * TAG_BYTES + self.trims.len() * TRIM_BYTES + self.patches.len();
        PAGE_BYTES - HEADER_BYTES - self.echoed.bytes() - used
    }

    fn fits(&self, bytes: usize, echo_bytes: usize) -> bool {
        self.room() >= bytes && self.echo.bytes() + echo_bytes <= ECHO_BYTES_MAX
    }

    /// Adds a page; `false` if the block is full.
    #[must_use]
    pub fn add_page(&mut self, tag: Tag) -> bool {
        let fits = self.fits(TAG_BYTES, KEY_BYTES);
        if fits {
            self.tags.push(tag);
            self.echo.keys.push(tag.key);
        }
        fits
    }

    /// Adds a trim; `false` if the block is full.
    #[must_use]
    pub fn add_trim(&mut self, trim: Trim) -> bool {
        let fits = self.fits(TRIM_BYTES, TRIM_BYTES);
        if fits {
            self.trims.push(trim);
            self.echo.trims.push(trim);
        }
        fits
    }

    /// Adds a patch; `false` if the block is full.
    #[must_use]
    pub fn add_patch(&mut self, patch: &Patch<'_>) -> bool {
        let padded = patch.ranges.len().next_multiple_of(8);
        if !self.fits(PATCH_HEADER_BYTES + padded, KEY_BYTES) {
            return false;
        }
        self.echo.keys.push(patch.key);
        self.patches.extend_from_slice(&patch.key.word().to_le_bytes());
        self.patches.extend_from_slice(&patch.crc.to_le_bytes());
        self.patches.extend_from_slice(&patch.base.0.to_le_bytes());
        self.patches.extend_from_slice(&(patch.ranges.len() as u16).to_le_bytes());
        self.patches.extend_from_slice(&[0; 6]);
        self.patches.extend_from_slice(patch.ranges);
        self.patches.resize(self.patches.len() + padded - patch.ranges.len(), 0);
        self.patch_count += 1;
        true
    }

    /// The block as it goes to flash.
    pub fn encode(&self, header: &Header, out: &mut PageBytes) {
        out.fill(0);
        out[..4].copy_from_slice(&MAGIC);
        out[8..16].copy_from_slice(&header.volume.to_le_bytes());
        out[16..24].copy_from_slice(&header.sequence.to_le_bytes());
        out[24..28].copy_from_slice(&header.epoch.to_le_bytes());
        out[28..32].copy_from_slice(&header.at.0.to_le_bytes());
        out[32..36].copy_from_slice(&header.next_segment.to_le_bytes());
        out[36] = header.kind as u8;
        out[37] = u8::from(header.is_last);
        out[38..40].copy_from_slice(&(self.tags.len() as u16).to_le_bytes());
        out[40..42].copy_from_slice(&(self.trims.len() as u16).to_le_bytes());
        out[42..44].copy_from_slice(&self.patch_count.to_le_bytes());
        out[44..46].copy_from_slice(&(self.echoed.trims.len() as u16).to_le_bytes());
        out[46..48].copy_from_slice(&(self.echoed.keys.len() as u16).to_le_bytes());
        out[48..56].copy_from_slice(&header.first_sequence.to_le_bytes());
        out[56..64].copy_from_slice(&header.durable.to_le_bytes());
        let mut at = HEADER_BYTES;
        for tag in &self.tags {
            out[at..at + 8].copy_from_slice(&tag.key.word().to_le_bytes());
            out[at + 8..at + 12].copy_from_slice(&tag.crc.to_le_bytes());
            at += TAG_BYTES;
        }
        for trim in self.trims.iter().chain(&self.echoed.trims) {
            out[at..at + 4].copy_from_slice(&trim.ino.0.to_le_bytes());
            out[at + 4..at + 8].copy_from_slice(&trim.first.to_le_bytes());
            out[at + 8..at + 12].copy_from_slice(&trim.last.to_le_bytes());
            at += TRIM_BYTES;
        }
        for key in &self.echoed.keys {
            out[at..at + KEY_BYTES].copy_from_slice(&key.word().to_le_bytes());
            at += KEY_BYTES;
        }
        out[at..at + self.patches.len()].copy_from_slice(&self.patches);
        let crc = crc_of(&out[CHECKED_FROM..]);
        out[4..8].copy_from_slice(&crc.to_le_bytes());
    }

    /// Makes it empty, for the next, which says again what this one, of `kind`, changed. Nothing that is needed is lost with a block of another kind
    /// than [`Kind::Commit`]: what was moved is still where it was, and nodes count once an anchor names them.
    pub fn clear(&mut self, kind: Kind) {
        self.tags.clear();
        self.trims.clear();
        self.patches.clear();
        self.patch_count = 0;
        let echo = std::mem::take(&mut self.echo);
        self.echoed = if kind == Kind::Commit { echo } else { Echo::default() };
    }
}

/// A block that was read, checked throughout.
#[derive(Clone, Copy, Debug)]
pub struct Block<'a> {
    header: Header,
    tags: &'a [u8],
    trims: &'a [u8],
    echoed_trims: &'a [u8],
    echoed_keys: &'a [u8],
    patches: &'a [u8],
}

/// Whether bytes are no block, and look as if they had been written as one of this volume, opening and place: it was torn, or damaged since.
#[must_use]
pub fn was_block(bytes: &PageBytes, volume: u64, epoch: u32, at: Physical) -> bool {
    // What an earlier opening has left there is whole, or was torn then.
    if u32_at(bytes, EPOCH_AT) == epoch {
        return looks_like_block(bytes, volume, at);
    }
    // If the epoch alone is damaged, the block is whole with the right one.
    let mut mended = *bytes;
    mended[EPOCH_AT..EPOCH_AT + 4].copy_from_slice(&epoch.to_le_bytes());
    Block::decode(&mended).is_some_and(|block| block.header.volume == volume && block.header.at == at)
}

/// As [`was_block`], of any opening of the volume.
#[must_use]
pub fn looks_like_block(bytes: &PageBytes, volume: u64, at: Physical) -> bool {
    let signs = [bytes[..4] == MAGIC, u64_at(bytes, 8) == volume, u32_at(bytes, 28) == at.0];
    // Damage may have hit one of the signs.
    signs.into_iter().filter(|&sign| sign).count() >= 2 && Block::decode(bytes).is_none()
}

impl<'a> Block<'a> {
    /// Reads a block; `None` for anything that is not one.
    #[must_use]
    pub fn decode(bytes: &'a PageBytes) -> Option<Self> {
        if bytes[..4] != MAGIC || u32_at(bytes, 4) != crc_of(&bytes[CHECKED_FROM..]) {
            return None;
        }
        let kind =
            [Kind::Commit, Kind::Move, Kind::Checkpoint].into_iter().find(|kind| *kind as u8 == bytes[36])?;
        let header = Header {
            volume: u64_at(bytes, 8),
            sequence: u64_at(bytes, 16),
            epoch: u32_at(bytes, 24),
            at: Physical(u32_at(bytes, 28)),
            next_segment: u32_at(bytes, 32),
            kind,
            is_last: bytes[37] != 0,
            first_sequence: u64_at(bytes, 48),
            durable: u64_at(bytes, 56),
        };
        let (tags, rest) =
            bytes[HEADER_BYTES..].split_at_checked(usize::from(u16_at(bytes, 38)) * TAG_BYTES)?;
        let (trims, rest) = rest.split_at_checked(usize::from(u16_at(bytes, 40)) * TRIM_BYTES)?;
        let (echoed_trims, rest) = rest.split_at_checked(usize::from(u16_at(bytes, 44)) * TRIM_BYTES)?;
        let (echoed_keys, patches) = rest.split_at_checked(usize::from(u16_at(bytes, 46)) * KEY_BYTES)?;
        let block = Block { header, tags, trims, echoed_trims, echoed_keys, patches };
        let patch_count = usize::from(u16_at(bytes, 42));
        let is_trim = |trim: Trim| trim.first <= trim.last && trim.ino.0 < 1 << Ino::BITS;
        let is_whole = block.tags().count() == block.pages()
            && block.trims().all(is_trim)
            && trims_in(echoed_trims).all(is_trim)
            && keys_in(echoed_keys).count() == echoed_keys.len() / KEY_BYTES
            && block.patches().take(patch_count).count() == patch_count;
        (is_whole
            && header.sequence < SEQUENCE_END
            && header.first_sequence <= header.sequence
            && header.durable <= header.sequence)
            .then_some(Block { patches: block.cut(patch_count)?, ..block })
    }

    /// The bytes of the first `count` patches.
    fn cut(&self, count: usize) -> Option<&'a [u8]> {
        let mut at = 0;
        for _ in 0..count {
            at += patch_at(self.patches, at)?.1;
        }
        Some(&self.patches[..at])
    }

    /// What it says besides its contents.
    #[must_use]
    pub fn header(&self) -> Header {
        self.header
    }

    /// Pages that follow it.
    #[must_use]
    pub fn pages(&self) -> usize {
        self.tags.len() / TAG_BYTES
    }

    /// The pages that follow it, in their order.
    pub fn tags(&self) -> impl Iterator<Item = Tag> + use<'a> {
        self.tags.chunks_exact(TAG_BYTES).filter_map(|bytes| {
            Some(Tag { key: PageKey::from_word(u64_at(bytes, 0))?, crc: u32_at(bytes, 8) })
        })
    }

    /// Its trims.
    pub fn trims(&self) -> impl Iterator<Item = Trim> + use<'a> {
        trims_in(self.trims)
    }

    /// What the block before changed.
    #[must_use]
    pub fn echoed(&self) -> Echo {
        Echo { trims: trims_in(self.echoed_trims).collect(), keys: keys_in(self.echoed_keys).collect() }
    }

    /// Its patches.
    pub fn patches(&self) -> impl Iterator<Item = Patch<'a>> + use<'a> {
        let (all, mut at) = (self.patches, 0);
        std::iter::from_fn(move || {
            let (patch, bytes) = patch_at(all, at)?;
            at += bytes;
            Some(patch)
        })
    }

    /// The patch of a page.
    #[must_use]
    pub fn patch_of(&self, key: PageKey) -> Option<Patch<'a>> {
        self.patches().find(|patch| patch.key == key)
    }
}

fn trims_in(bytes: &[u8]) -> impl Iterator<Item = Trim> + use<'_> {
    bytes.chunks_exact(TRIM_BYTES).map(|bytes| Trim {
        ino: Ino(u32_at(bytes, 0)),
        first: u32_at(bytes, 4),
        last: u32_at(bytes, 8),
    })
}

fn keys_in(bytes: &[u8]) -> impl Iterator<Item = PageKey> + use<'_> {
    bytes.chunks_exact(KEY_BYTES).filter_map(|bytes| PageKey::from_word(u64_at(bytes, 0)))
}

/// The patch at a place, and how many bytes it takes with its header.
fn patch_at(all: &[u8], at: usize) -> Option<(Patch<'_>, usize)> {
    let (header, rest) = all.get(at..)?.split_at_checked(PATCH_HEADER_BYTES)?;
    let len = usize::from(u16_at(header, 16));
    let ranges = rest.get(..len.next_multiple_of(8)).and_then(|padded| padded.get(..len))?;
    let key = PageKey::from_word(u64_at(header, 0))?;
    let patch = Patch { key, crc: u32_at(header, 8), base: Physical(u32_at(header, 12)), ranges };
    Some((patch, PATCH_HEADER_BYTES + len.next_multiple_of(8)))
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from(u16_at(bytes, at)) | u32::from(u16_at(bytes, at + 2)) << 16
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

#[cfg(test)]
mod tests;
