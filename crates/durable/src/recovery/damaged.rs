//! Blocks that were durable and whose payloads do not verify: damage if the map needs something of them, else none.

use aquifer_base::limits::LOG_GRAIN_BYTES;
use aquifer_map::partitions::{Hint, Source, portions};

use super::Part;
use super::survey::{Damage, Filled};
use crate::block::{Entry, Kind};
use crate::chunk;
use crate::core::Core;
use crate::error::Result;
use crate::walk::{Blocks, Found};

const GRAIN: u64 = LOG_GRAIN_BYTES as u64;

/// Looks for such blocks in chunks, of which all that concerns a part of home space is in its map. Returns how many there are, needed or not.
///
/// # Errors
/// [`Error::Damaged`](crate::Error::Damaged) of one that is needed.
pub(super) fn check(heap: &Core, filled: &[Filled], part: &Part<'_>, damage: &mut Damage) -> Result<u64> {
    let (log, mut bytes, mut count) = (&heap.log, Vec::new(), 0);
    for filled in filled.iter().filter(|filled| filled.has_damage) {
        let start = log.offset_of(filled.id);
        bytes.resize(filled.end as usize, 0);
        log.persist.read(start, &mut bytes);
        let seed = chunk::seed(log.superblock.id, filled.id.0, log.table.generation(filled.id));
        for (at, found) in Blocks::new(&bytes, seed) {
            let Found::Block(block) = found else { continue };
            let is_left_out = filled.gaps.iter().any(|gap| gap.contains(&(at as u32)));
            if block.is_intact() || is_left_out {
                continue;
            }
            count += 1;
            let offset = start + at as u64;
            if block.entries().any(|entry| is_needed(entry, offset, part)) {
                damage.add_needed(offset, &block)?;
            }
        }
    }
    Ok(count)
}

/// Whether the map points to bytes of an entry of the block at `offset`.
fn is_needed(entry: Entry, offset: u64, part: &Part<'_>) -> bool {
    if entry.kind != Kind::Bytes {
        return false;
    }
    let first = Source::Log((offset + entry.payload as u64) / GRAIN);
    let mut portions = portions(entry.home.0 / GRAIN, entry.grains);
    portions.any(|portion| {
        let (mut at, source) = (portion.start, first.plus(portion.before as usize));
        while at < portion.end && part.partitions.contains(&portion.id.0.into()) {
            let run = part.map.find(portion.id, at, &mut Hint::default());
            if run.source == source.plus(at - portion.start) {
                return true;
            }
            at = run.end;
        }
        false
    })
}
