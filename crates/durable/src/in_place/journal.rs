//! The durable record of transactions under way: each session has a part of it, with blocks of one transaction at a time.
//!
//! ```text
//! | header: magic "AQJRNL\n\0", kind u32, zeros u32, opened u32, crc u32 | part 0, 64 KiB | part 1 | ...      (little-endian)
//! ```
//!
//! A part is truncated by zeros in its first eight bytes. The number of times that the heap was opened seeds
//! the checksums, so that blocks of earlier transactions do not verify after versions have begun anew. That
//! number shares a word with the checksum, which a crash leaves old or new. The magic is written last, so
//! that an unfinished header is invalid.

use crate::block::Block;
use crate::checksum::crc32c;
use crate::error::{Error, Result};
use crate::persist::Persist;
use crate::sessions::SESSIONS;

/// Bytes before the first part.
const HEADER_BYTES: u64 = 4096;
const USED_BYTES: usize = 24;
/// What is written last.
const FIRST_BYTES: usize = 8;
/// Larger transactions are refused.
const PART_BYTES: u64 = 64 << 10;
const MAGIC: [u8; 8] = *b"AQJRNL\n\0";

/// What a journal records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// New bytes, which are written to their homes when all of them are durable.
    Redo,
    /// Old bytes, which are put back if the transaction did not commit.
    Undo,
}

/// A journal.
pub(super) struct Journal {
    persist: Box<dyn Persist>,
    pub(super) kind: Kind,
    opened: u32,
}

impl Journal {
    /// Opens a journal, or makes an empty one.
    pub(super) fn open(persist: Box<dyn Persist>, kind: Kind) -> Result<Self> {
        let foreign = |why: &str| Error::Foreign { path: "the journal".into(), why: why.into() };
        let mut header = [0; USED_BYTES];
        persist.read(0, &mut header);
        let word = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().expect("four bytes"));
        let opened = match header {
            [0, ..] => 0,
            _ if header[..8] != MAGIC => return Err(foreign("it does not begin as one")),
            _ if word(20) != crc32c(0, &header[..20]) => return Err(foreign("its header does not verify")),
            _ if word(8) != kind as u32 => return Err(foreign("it is of the other kind")),
            _ => word(16),
        };
        persist.grow(HEADER_BYTES + SESSIONS as u64 * PART_BYTES)?;
        Ok(Self { persist, kind, opened })
    }

    /// Begins another life, in which nothing verifies that was written before.
    pub(super) fn begin(&mut self) -> Result<()> {
        self.opened += 1;
        let mut header = [0; USED_BYTES];
        header[..8].copy_from_slice(&MAGIC);
        header[8..12].copy_from_slice(&(self.kind as u32).to_le_bytes());
        header[16..20].copy_from_slice(&self.opened.to_le_bytes());
        let crc = crc32c(0, &header[..20]);
        header[20..].copy_from_slice(&crc.to_le_bytes());
        self.persist.persist(FIRST_BYTES as u64, &header[FIRST_BYTES..])?;
        self.persist.persist(0, &header[..FIRST_BYTES])
    }

    /// What the checksums in a session's part begin with.
    pub(super) fn seed(&self, session: usize) -> u32 {
        (self.opened.wrapping_mul(SESSIONS as u32) + session as u32).wrapping_mul(0x9E37_79B9)
    }

    fn part(session: usize) -> u64 {
        HEADER_BYTES + session as u64 * PART_BYTES
    }

    /// Makes a sealed block durable behind `used` bytes of a session's part; returns how many are used then.
    pub(super) fn append(&self, session: usize, used: u64, block: &[u8]) -> Result<u64> {
        let (bytes, end) = (block.len() as u64, used + block.len() as u64);
        if end > PART_BYTES {
            return Err(Error::TooLarge { what: "a transaction in place", bytes, limit: PART_BYTES - used });
        }
        self.persist.persist(Self::part(session) + used, block)?;
        Ok(end)
    }

    /// Forgets what a session's part has.
    pub(super) fn truncate(&self, session: usize) -> Result<()> {
        self.persist.persist(Self::part(session), &[0; 8])
    }

    /// Calls `visit` for the blocks of one transaction that a session's part has, as many as verify.
    pub(super) fn read(&self, session: usize, visit: &mut dyn FnMut(&[u8], &Block<'_>)) {
        let mut bytes = vec![0; PART_BYTES as usize];
        self.persist.read(Self::part(session), &mut bytes);
        let (mut rest, mut version) = (&bytes[..], None);
        while let Some(block) = Block::decode(rest, self.seed(session)).filter(Block::is_intact) {
            if *version.get_or_insert(block.version()) != block.version() {
                return;
            }
            visit(rest, &block);
            rest = &rest[block.len_bytes()..];
        }
    }

    pub(super) fn persist(&self) -> &dyn Persist {
        &*self.persist
    }
}
