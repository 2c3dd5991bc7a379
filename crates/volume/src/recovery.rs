//! Recovery: what was committed after the last anchor is found in the log and told to the table.
//!
//! Each head of the log is read from where the anchor says, block by block, until something is not a block that continues it (`recovery/head.rs`). What
//! both heads hold is put in the order of their sequence, and counts up to the first gap or unfinished transaction: a transaction was only begun when all
//! before it was written, so what lies behind a gap was never acknowledged.

mod head;

use crate::anchor::{Anchor, HeadPosition};
use crate::block::{Block, Kind};
use crate::error::Result;
use crate::flash::Flash;
use crate::key::PageKey;
use crate::segments::Segments;
use crate::table::Table;
use crate::word::{Place, Word, check_of};
use crate::writer::Head;

use head::FoundBlock;

/// What recovery found.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Recovered {
    /// Sequence of the next block.
    pub sequence: u64,
    /// Blocks that counted.
    pub blocks: u64,
    /// Blocks that did not, because a transaction was unfinished.
    pub lost: u64,
}

/// Reads the log after an anchor and changes the table accordingly. Says also how far each head had come.
///
/// # Errors
/// The medium's, or what the anchor can reach is damaged.
pub fn recover(
    flash: &Flash,
    table: &Table,
    segments: &mut Segments,
    anchor: &Anchor,
) -> Result<(Recovered, [HeadPosition; 2])> {
    let medium = flash.medium();
    let mut blocks = Vec::new();
    let mut heads = anchor.heads;
    for (head, position) in [Head::Changes, Head::Moves].into_iter().zip(&mut heads) {
        *position = head::read(medium, anchor, head, segments, &mut blocks);
    }
    blocks.sort_unstable_by_key(|found| found.sequence);
    let found = blocks.len() as u64;
    let whole = whole_transactions(anchor.sequence, &blocks);
    for found in &blocks[..whole] {
        let block = Block::decode(found.page()).expect("was decoded before");
        if block.header().kind != Kind::Checkpoint {
            apply(flash, table, segments, &block)?;
        }
    }
    let newest = blocks.last().map_or(anchor.sequence, |found| found.sequence + 1);
    Ok((Recovered { sequence: newest, blocks: whole as u64, lost: found - whole as u64 }, heads))
}

/// Blocks of the transactions that are whole, from the first.
fn whole_transactions(first_sequence: u64, blocks: &[FoundBlock]) -> usize {
    let mut whole = 0;
    for (nth, found) in blocks.iter().enumerate() {
        let header = Block::decode(found.page()).expect("was decoded before").header();
        let begins_here = blocks[whole].sequence == header.first_sequence;
        if found.sequence != first_sequence + nth as u64 || !begins_here {
            break;
        }
        if header.is_last {
            whole = nth + 1;
        }
    }
    whole
}

fn apply(flash: &Flash, table: &Table, segments: &mut Segments, block: &Block<'_>) -> Result<()> {
    for trim in block.trims() {
        table.trim(flash, trim.ino, trim.first, trim.last, &mut |word| segments.remove(word))?;
    }
    let at = block.header().at;
    for (tag, number) in block.tags().zip(at.0 + 1..) {
        let place = Place::Page { at: crate::word::Physical(number), check: check_of(tag.crc) };
        point(flash, table, segments, tag.key, place)?;
    }
    for patch in block.patches() {
        point(flash, table, segments, patch.key, Place::Patched { base: patch.base, block: at })?;
    }
    Ok(())
}

fn point(flash: &Flash, table: &Table, segments: &mut Segments, key: PageKey, place: Place) -> Result<()> {
    let word = Word::of(place);
    let old = if key.is_node() {
        table.set_node_word(flash, key, word)?
    } else {
        table.set(flash, key.ino(), key.index(), word)?
    };
    segments.remove(old);
    segments.add(word);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::{BlockBuilder, Header, Trim};
    use crate::key::Ino;
    use crate::word::Physical;

    fn found((sequence, first_sequence, is_last): (u64, u64, bool)) -> FoundBlock {
        let mut builder = BlockBuilder::default();
        assert!(builder.add_trim(Trim { ino: Ino(9), first: 0, last: 0 }));
        let (kind, at) = (Kind::Commit, Physical(100));
        let header =
            Header { volume: 1, sequence, epoch: 1, at, next_segment: 5, kind, is_last, first_sequence };
        FoundBlock::of(&builder, &header)
    }

    fn whole(blocks: &[(u64, u64, bool)]) -> usize {
        whole_transactions(7, &blocks.iter().copied().map(found).collect::<Vec<_>>())
    }

    #[test]
    fn transactions_count_up_to_the_first_gap_or_unfinished_one() {
        assert_eq!(whole(&[]), 0);
        assert_eq!(whole(&[(7, 7, true), (8, 8, false), (9, 8, true)]), 3);
        assert_eq!(whole(&[(7, 7, true), (8, 8, false)]), 1, "unfinished");
        assert_eq!(whole(&[(7, 7, true), (9, 9, true)]), 1, "the block between is lost");
        assert_eq!(whole(&[(8, 8, true)]), 0, "the first one is lost");
        assert_eq!(whole(&[(7, 7, true), (8, 7, true)]), 1, "of a transaction that has ended");
        assert_eq!(whole(&[(7, 6, true)]), 0, "of a transaction that began before the anchor");
    }
}
