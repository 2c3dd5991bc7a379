//! How large objects are, and which there are: what is allocated by the map, with what the transaction has allocated and freed.

use aquifer_base::limits::{LOG_GRAIN_BYTES, PARTITION_BYTES};
use aquifer_base::{HomeAddress, PartitionId};
use aquifer_map::partitions::{Hint, Source};

use crate::core::Core;
use crate::draft::{Committed, Draft};
use crate::error::{Error, Result};
use crate::homes::SizeClass;
use crate::write_set::Content;

const GRAIN: u64 = LOG_GRAIN_BYTES as u64;
const PARTITION: u64 = PARTITION_BYTES as u64;

impl Draft {
    /// See [`Transaction::size`](crate::Transaction::size).
    pub(crate) fn size(&mut self, heap: &Core, object: HomeAddress) -> Result<u64> {
        let class = self.slot_at(&heap.homes, object)?;
        let end = match self.writes.piece_at(object) {
            Some(piece) if piece.content == Content::Hole => None,
            Some(piece) if piece.is_fresh => Some(self.own_end(object, class)),
            _ => self.committed_end(heap, object, class)?,
        };
        end.map(|end| end.0 - object.0).ok_or(Error::NoObject(object))
    }

    /// Where an object of this transaction ends.
    fn own_end(&self, object: HomeAddress, class: SizeClass) -> HomeAddress {
        let (mut end, limit) = (object, object.0 + class.slot_bytes());
        while let Some(piece) = self.writes.piece_at(end).filter(|piece| piece.is_fresh && end.0 < limit) {
            end = HomeAddress(piece.end() * GRAIN);
        }
        end
    }

    /// Where a committed object ends; `None` if there is none.
    fn committed_end(
        &mut self,
        heap: &Core,
        object: HomeAddress,
        class: SizeClass,
    ) -> Result<Option<HomeAddress>> {
        // Of the partitions that its slot has, it has the first ones.
        let (mut has, mut lacks) = (0, class.slot_bytes().div_ceil(PARTITION));
        if self.is_hole_until(heap, object)?.is_some() {
            return Ok(None);
        }
        while lacks - has > 1 {
            let middle = has + (lacks - has) / 2;
            match self.is_hole_until(heap, object.plus_bytes(middle * PARTITION))? {
                None => has = middle,
                Some(_) => lacks = middle,
            }
        }
        let last = object.plus_bytes(has * PARTITION);
        let limit = last.0 / PARTITION * PARTITION + PARTITION;
        let limit = limit.min(object.0 + class.slot_bytes());
        self.allocated_end(heap, last).map(|end| Some(HomeAddress(end.min(limit))))
    }

    /// `None` if the grain at `home` is committed, else where the hole that it is in ends, in its partition.
    fn is_hole_until(&mut self, heap: &Core, home: HomeAddress) -> Result<Option<u64>> {
        let (id, start) = place(home);
        let run = self.view.read(heap.versions(), id, || heap.map.find(id, start, &mut Hint::default()))?;
        let end = id.start().0 + run.end as u64 * GRAIN;
        Ok((run.source == Source::Hole).then_some(end))
    }

    /// Where the bytes that are allocated from `home` on end, in its partition.
    fn allocated_end(&mut self, heap: &Core, home: HomeAddress) -> Result<u64> {
        let (id, start) = place(home);
        let until = |mut grain: usize| {
            while grain < PARTITION_BYTES / LOG_GRAIN_BYTES {
                let run = heap.map.find(id, grain, &mut Hint::default());
                if run.source == Source::Hole || run.end <= grain {
                    break;
                }
                grain = run.end;
            }
            grain
        };
        let end = self.view.read(heap.versions(), id, || until(start))?;
        Ok(id.start().0 + end as u64 * GRAIN)
    }

    /// See [`Transaction::next_object`](crate::Transaction::next_object).
    pub(crate) fn next_object(&mut self, heap: &Core, after: HomeAddress) -> Result<Option<HomeAddress>> {
        let from = HomeAddress(after.0.saturating_add(1));
        let committed = self.next_committed(heap, from)?;
        // Areas that have no class any more were passed over.
        self.view.ensure_era(heap.homes.era())?;
        let is_before = |home: &HomeAddress| committed.is_none_or(|committed| *home < committed);
        let mut own = self.writes.fresh_from(from).take_while(is_before);
        Ok(own.find(|&home| heap.homes.slot_at(home).is_some()).or(committed))
    }

    /// The first committed object from `home` on that this transaction has not freed.
    fn next_committed(&mut self, heap: &Core, mut home: HomeAddress) -> Result<Option<HomeAddress>> {
        while let Some((slot, _)) = heap.homes.slot_from(home) {
            if let Some(end) = self.is_hole_until(heap, slot)? {
                home = HomeAddress(end.max(slot.0 + 1));
                continue;
            }
            let is_freed = |piece: &crate::write_set::Piece| piece.content == Content::Hole;
            if !self.writes.piece_at(slot).as_ref().is_some_and(is_freed) {
                return Ok(Some(slot));
            }
            home = HomeAddress(slot.0 + 1);
        }
        Ok(None)
    }
}

fn place(home: HomeAddress) -> (PartitionId, usize) {
    (home.partition(), home.offset_bytes() / LOG_GRAIN_BYTES)
}
