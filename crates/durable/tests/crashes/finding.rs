//! Damage that the library does not tell and could. Each of these is to be refused; until it is, a heap that was opened in spite of it is counted.

use crate::damage::{Damage, Damaged};
use crate::durable::{CHUNK_BYTES, SUPERBLOCK_BYTES};
use crate::excuse::Excuse;
use crate::machine::Machine;
use crate::verdict::Wrong;

const AREA_BYTES: u64 = 16 << 20;
/// Where the table of areas is in home space, and bytes of an entry.
const CLASSES: (u64, u64) = (4096, 2);

/// Which.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Finding {
    /// A chunk's header is gone, so that the chunk counts as free.
    HeaderGone,
    /// A header is there again that was taken away.
    HeaderBack,
    /// A part of a checkpoint stands over a chunk of blocks.
    PartOverChunk,
    /// A block stands in the place of another one of its chunk.
    BlockMoved,
    /// The newest floor is gone, and an older one counts.
    Floor,
    /// Objects are there, and the class of their area is not.
    AreaWithoutClass,
}

/// All, in the order of their counts.
pub const FINDINGS: usize = Finding::AreaWithoutClass as usize + 1;

impl Finding {
    /// The one that explains why `wrong` bytes of home space are shown.
    pub fn of(cut: &Machine, damaged: &Damaged, wrong: &[Wrong], excuse: &Excuse) -> Option<Self> {
        let old_heads = cut.with_memory(0, |memory| heads(memory.file()));
        let damaged_heads = damaged.machine.with_memory(0, |memory| heads(memory.file()));
        for (old, new) in old_heads.iter().zip(&damaged_heads).filter(|(old, new)| old != new) {
            match (&old[..4], &new[..4]) {
                (b"CHNK", b"CKPT") => return Some(Self::PartOverChunk),
                (b"CHNK", _) if *new == [0; 8] => return Some(Self::HeaderGone),
                (_, b"CHNK" | b"CKPT") => return Some(Self::HeaderBack),
                _ => {}
            }
        }
        let first = &damaged.ranges[0];
        if first.start < SUPERBLOCK_BYTES {
            return Some(Self::Floor);
        }
        let chunk = |at: u64| (at - SUPERBLOCK_BYTES) / CHUNK_BYTES;
        let is_in_one = damaged.ranges.iter().all(|range| chunk(range.start) == chunk(first.start));
        if matches!(damaged.damage, Damage::Misdirected(_)) && is_in_one {
            return Some(Self::BlockMoved);
        }
        let has_no_class =
            |wrong: &Wrong| excuse.is_of(CLASSES.0 + wrong.homes.start / AREA_BYTES * CLASSES.1);
        let mut other = wrong.iter().filter(|wrong| !excuse.is_of_all(&wrong.homes));
        other.all(has_no_class).then_some(Self::AreaWithoutClass)
    }
}

/// The first eight bytes of each chunk.
fn heads(file: &[u8]) -> Vec<[u8; 8]> {
    let chunks = file.get(SUPERBLOCK_BYTES as usize..).unwrap_or(&[]).chunks(CHUNK_BYTES as usize);
    chunks.filter_map(|chunk| chunk.first_chunk().copied()).collect()
}
