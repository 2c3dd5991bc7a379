//! Recovery: what was committed after the last anchor is found in the log and told to the table.
//!
//! Each head of the log is read from where the anchor says (`recovery/head.rs`), and what both hold is put in the order of its sequence. Each block says up to
//! where the log was durable when it was written. So there are two parts:
//!
//! - **Up to there** everything counts. A block that is not found was damaged. The next one says again what it changed: its trims hold, and of its pages it is
//!   known that they are lost. If that one is damaged as well, nobody knows what is lost, and the volume is not opened.
//! - **Behind it** blocks count up to the first gap, torn page or unfinished transaction: a transaction is only begun when all before it is written, so what
//!   lies behind was never acknowledged.

mod head;

use crate::anchor::{Anchor, HeadPosition};
use crate::block::{Block, Echo, Kind, Trim};
use crate::error::{Result, VolumeError, if_readable};
use crate::flash::Flash;
use crate::key::PageKey;
use crate::segments::Segments;
use crate::table::Table;
use crate::word::{Place, Word, check_of};
use crate::writer::Head;

use head::{FoundBlock, Reader};

/// What recovery found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Recovered {
    /// Sequence of the next block.
    pub sequence: u64,
    /// Blocks that counted.
    pub blocks: u64,
    /// Blocks at the end of the log that did not, because a transaction was torn by a crash, or damaged before the log said that it was durable.
    pub lost: u64,
    /// Whether those may have changed files. If not, they are of a checkpoint or of the cleaner, and nothing is lost with them.
    pub lost_changes: bool,
    /// Blocks that were durable, and are damaged.
    pub damaged: u64,
    /// Pages that were written with those, and are lost.
    pub lost_pages: Vec<PageKey>,
    /// Blocks among those of which nobody knows what they changed. More than 0 only if the opening accepts that.
    pub unknown: u64,
    /// Why files may be as they were before they were changed last: nobody knows what damage has lost. Only if the opening accepts that.
    pub doubt: Option<String>,
}

/// What is done with damage behind which nobody knows what was lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Loss {
    /// The volume is not opened.
    #[default]
    Refused,
    /// The volume is opened as far as it is known: files may be as they were before they were changed last.
    Accepted,
}

/// Reads the log after an anchor and changes the table accordingly. Says also how far each head had come.
///
/// # Errors
/// The medium's, or what the anchor can reach is damaged, or nobody knows what damage of the log has lost.
pub fn recover(
    flash: &Flash,
    table: &Table,
    segments: &mut Segments,
    anchor: &Anchor,
    loss: Loss,
) -> Result<(Recovered, [HeadPosition; 2])> {
    let mut reader = Reader::new(flash.medium(), anchor);
    let mut blocks = Vec::new();
    let mut heads = anchor.heads;
    for (head, position) in [Head::Changes, Head::Moves].into_iter().zip(&mut heads) {
        *position = reader.read(head, segments, &mut blocks);
    }
    if reader.unreadable.is_some() || Log::new(anchor.sequence, &mut blocks).unknown > 0 {
        reader.read_hidden(segments, &mut blocks);
    }
    let log = Log::new(anchor.sequence, &mut blocks);
    let doubt = doubt_of(&reader, &log);
    if loss == Loss::Refused
        && let Some(what) = doubt
    {
        return Err(VolumeError::Corrupt(format!(
            "{what}; `aquifer volume salvage` copies what can be read"
        )));
    }
    let mut recovered = Recovered {
        sequence: log.blocks.last().map_or(anchor.sequence, |found| found.sequence + 1),
        blocks: log.counting as u64,
        lost: (log.blocks.len() - log.counting) as u64 + reader.torn,
        lost_changes: reader.torn > 0 || log.has_lost_changes(),
        damaged: log.damaged,
        unknown: log.unknown,
        lost_pages: Vec::new(),
        doubt,
    };
    let mut next = anchor.sequence;
    for (nth, found) in log.blocks.iter().enumerate() {
        let block = found.block();
        if log.tells_of_damage(next, found.sequence) {
            recovered.lost_pages.extend(lose(flash, table, segments, block.echoed())?);
        }
        if nth < log.counting && block.header().kind != Kind::Checkpoint {
            apply(flash, table, segments, &block)?;
        }
        next = found.sequence + 1;
    }
    if segments.is_miscounted() {
        let what = "a part of its table is older than it should be";
        if loss == Loss::Refused {
            refuse(Some(what))?;
        }
        recovered.doubt.get_or_insert_with(|| what.into());
    }
    recovered.lost_pages.retain(|&key| is_lost(flash, table, key));
    segments.seal_needed();
    Ok((recovered, heads))
}

/// Does not open a volume of which nobody knows what is lost.
fn refuse(doubt: Option<&str>) -> Result<()> {
    let Some(what) = doubt else { return Ok(()) };
    Err(VolumeError::Corrupt(format!("{what}; `aquifer volume salvage` copies what can be read")))
}

/// Why nobody knows what damage has lost.
fn doubt_of(reader: &Reader<'_>, log: &Log<'_>) -> Option<String> {
    if let Some(error) = &reader.unreadable {
        Some(format!("the end of its log cannot be read, where the last changes may stand ({error})"))
    } else if log.unknown > 0 {
        Some(format!(
            "{} blocks of its log are damaged, and nobody knows which files they changed",
            log.unknown
        ))
    } else if reader.has_later_epoch {
        Some("the anchor is damaged that was written when it was opened last".into())
    } else {
        None
    }
}

/// The blocks of both heads, by sequence.
struct Log<'a> {
    blocks: &'a [FoundBlock],
    /// All blocks before this sequence were durable.
    durable: u64,
    /// How many of the blocks count, from the first.
    counting: usize,
    /// Blocks that were durable and were not found.
    damaged: u64,
    /// Of those, how many no block tells of.
    unknown: u64,
}

impl<'a> Log<'a> {
    /// The log from a sequence on. Of blocks with one sequence the last that was found counts.
    fn new(first: u64, blocks: &'a mut Vec<FoundBlock>) -> Self {
        blocks.reverse();
        blocks.sort_by_key(|found| found.sequence);
        blocks.dedup_by_key(|found| found.sequence);
        let durable = blocks.iter().map(|found| found.block().header().durable).fold(first, u64::max);
        let durable_blocks = blocks.partition_point(|found| found.sequence < durable);
        let counting = durable_blocks + whole_transactions(durable, &blocks[durable_blocks..]);
        let mut log = Log { blocks, durable, counting, damaged: 0, unknown: 0 };
        let mut next = first;
        for found in log.blocks {
            let missing = found.sequence.min(durable).saturating_sub(next);
            log.damaged += missing;
            log.unknown += missing - u64::from(log.tells_of_damage(next, found.sequence));
            next = found.sequence + 1;
        }
        log
    }

    /// Whether a block that does not count may have changed files. A commit only begins behind a checkpoint whose anchor is durable: so none is missing
    /// behind one that is not whole.
    fn has_lost_changes(&self) -> bool {
        let (counting, lost) = self.blocks.split_at(self.counting);
        let next = counting.last().map_or(0, |found| found.sequence + 1).max(self.durable);
        let follows = |(found, sequence): (&FoundBlock, u64)| {
            found.sequence == sequence && found.block().header().kind == Kind::Checkpoint
        };
        !lost.iter().zip(next..).all(follows)
    }

    /// Whether the block before the one of `sequence` was durable and is missing, if `next` was the first sequence that was not found yet.
    fn tells_of_damage(&self, next: u64, sequence: u64) -> bool {
        next < sequence && sequence <= self.durable
    }
}

/// Blocks of the transactions that are whole, from the first.
fn whole_transactions(first_sequence: u64, blocks: &[FoundBlock]) -> usize {
    let mut whole = 0;
    for (nth, found) in blocks.iter().enumerate() {
        let header = found.block().header();
        let begins_here = blocks[whole].sequence == header.first_sequence;
        if found.sequence != first_sequence + nth as u64 || !begins_here || !found.is_whole {
            break;
        }
        if header.is_last {
            whole = nth + 1;
        }
    }
    whole
}

/// Does the trims of a block that is damaged, and says that the pages it wrote are lost. Returns those.
fn lose(flash: &Flash, table: &Table, segments: &mut Segments, echo: Echo) -> Result<Vec<PageKey>> {
    for trim in echo.trims {
        do_trim(flash, table, segments, trim)?;
    }
    for &key in &echo.keys {
        point(flash, table, segments, key, Place::Lost)?;
    }
    Ok(echo.keys)
}

fn is_lost(flash: &Flash, table: &Table, key: PageKey) -> bool {
    table.get(flash, key.ino(), key.index()).is_ok_and(|word| word == Word::LOST)
}

fn apply(flash: &Flash, table: &Table, segments: &mut Segments, block: &Block<'_>) -> Result<()> {
    for trim in block.trims() {
        do_trim(flash, table, segments, trim)?;
    }
    let at = block.header().at;
    for (tag, number) in block.tags().zip(at.0 + 1..) {
        let place = Place::Page { at: crate::word::Physical(number), check: check_of(tag.crc) };
        point(flash, table, segments, tag.key, place)?;
    }
    for patch in block.patches() {
        point(flash, table, segments, patch.key, patch.place_in(at))?;
    }
    Ok(())
}

fn do_trim(flash: &Flash, table: &Table, segments: &mut Segments, trim: Trim) -> Result<()> {
    let trimmed = table.trim(flash, trim.ino, trim.first, trim.last, &mut |word| {
        segments.remove_found(word);
        Ok(())
    });
    if_readable(trimmed).map(|_| ())
}

fn point(flash: &Flash, table: &Table, segments: &mut Segments, key: PageKey, place: Place) -> Result<()> {
    let word = Word::of(place);
    let old = if key.is_node() {
        table.set_node_word(flash, key, word)
    } else {
        table.set(flash, key.ino(), key.index(), word)
    };
    // Where the table is damaged nobody can read the page, wherever it is now.
    if let Some(old) = if_readable(old)? {
        segments.remove_found(old);
        segments.add(word);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::{BlockBuilder, Header};
    use crate::key::Ino;
    use crate::word::Physical;

    fn found((sequence, first_sequence, is_last): (u64, u64, bool)) -> FoundBlock {
        let mut builder = BlockBuilder::default();
        assert!(builder.add_trim(Trim { ino: Ino(9), first: 0, last: 0 }));
        let (kind, at) = (Kind::Commit, Physical(100));
        let header = Header {
            volume: 1,
            sequence,
            epoch: 1,
            at,
            next_segment: 5,
            kind,
            is_last,
            first_sequence,
            durable: 0,
        };
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
