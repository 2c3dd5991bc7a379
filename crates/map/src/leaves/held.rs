//! A leaf that one thread changes.

use aquifer_base::limits::OS_PAGE_BYTES;
use aquifer_base::{LeafId, LogAddress};
use aquifer_log::record::record_bytes;
use aquifer_log::{Head, ReadError};

use super::{DIRTY, Leaves, PAYLOAD_MASK, REFERENCED, RESIDENT, cell, leaf_record, logged_place};
use crate::arena::Cell;
use crate::image::{Image, Place};
use crate::packed::{self, PACKED_BYTES_MAX};

/// A leaf that this thread has locked and unpacked.
pub struct Held<'a> {
    leaves: &'a Leaves,
    leaf: LeafId,
    word: u64,
    page_bytes: usize,
    image: Image,
    before: Image,
}

/// The changed leaf fits neither the arena nor the head. Nothing was changed; try again after the writer
/// has cleaned some.
#[derive(Debug, PartialEq, Eq)]
pub struct NoRoom;

impl Leaves {
    /// Locks and unpacks `leaf`. Others wait for it, so hold it briefly and wait for nothing meanwhile.
    ///
    /// # Errors
    /// The leaf could not be read from the log.
    ///
    /// # Context
    /// Blocks on the device if the leaf is not resident. Signals are blocked by the caller.
    pub fn hold(&self, leaf: LeafId, scratch: &mut [u8]) -> Result<Held<'_>, ReadError> {
        let mut image = Image::default();
        let word = self.lock(leaf);
        // Only now: the leaf may have been freed and given out anew while we waited.
        let page_bytes = self.page_bytes(leaf);
        let unpacked = if word == 0 {
            Ok(())
        } else if word & RESIDENT != 0 {
            // SAFETY: we hold the lock of the word that names the cell.
            let packed = unsafe { cell::packed(&self.arena, Cell(word as u32)) };
            packed::decode(packed, page_bytes, &mut image).map_err(|_| leaf_mismatch(leaf, word))
        } else {
            self.read_logged(leaf, word, scratch).and_then(|range| {
                packed::decode(&scratch[range], page_bytes, &mut image).map_err(|_| leaf_mismatch(leaf, word))
            })
        };
        if let Err(error) = unpacked {
            self.unlock(leaf, word);
            return Err(error);
        }
        let before = image.clone();
        Ok(Held { leaves: self, leaf, word, page_bytes, image, before })
    }
}

fn leaf_mismatch(leaf: LeafId, word: u64) -> ReadError {
    ReadError::Mismatch { address: LogAddress(word & PAYLOAD_MASK), wanted: leaf_record(leaf) }
}

impl Held<'_> {
    /// Place of the page at `index`.
    pub fn place(&self, index: usize) -> Place {
        self.image.place(index)
    }

    /// Points the page at `index` to `place`; its former record is garbage as soon as the leaf is stored.
    pub fn set_place(&mut self, index: usize, place: Place) {
        self.image.replace(index, place);
    }

    /// Bytes of the leaf's own record in the log, if it has one.
    pub fn logged_bytes(&self) -> usize {
        match self.logged() {
            0 => 0,
            word => record_bytes(logged_place(word).1),
        }
    }

    fn resident(&self) -> Option<Cell> {
        (self.word & RESIDENT != 0).then_some(Cell(self.word as u32))
    }

    /// Directory word of the copy in the log, 0 if there is none.
    fn logged(&self) -> u64 {
        // SAFETY: we hold the lock of the word that names the cell.
        self.resident().map_or(self.word, |cell| unsafe { cell::logged(&self.leaves.arena, cell) })
    }

    /// Counts the records that the changes left behind as garbage.
    fn release_replaced(&self) {
        let pairs = self.before.places().iter().zip(self.image.places());
        for (before, _) in pairs.filter(|(before, after)| before != after) {
            if let Some(address) = before.address() {
                // A cluster lies in one block, so its first address names the right segment.
                self.leaves.log.release(address, self.record_bytes());
            }
        }
    }

    /// Bytes of a record of this leaf's pages.
    pub fn record_bytes(&self) -> usize {
        record_bytes(self.page_bytes)
    }

    /// Makes the changes visible: packs the leaf into the arena, or, with a `head`, into the log when the
    /// arena has no room. A `head` has room for [`super::LEAF_RECORD_BYTES_MAX`].
    ///
    /// # Errors
    /// [`NoRoom`], only without a head.
    pub fn store(mut self, mut head: Option<&mut Head>) -> Result<(), NoRoom> {
        let (leaves, leaf) = (self.leaves, self.leaf);
        let (resident, logged) = (self.resident(), self.logged());
        let mut packed = [0u8; PACKED_BYTES_MAX];
        let block_bytes = leaves.log.geometry().block_bytes;
        let len = match self.image.is_zero() {
            true => 0,
            false => packed::encode(&self.image, self.page_bytes, block_bytes, &mut packed),
        };
        let packed = &packed[..len];
        let reusable = resident.filter(|&cell| leaves.arena.same_class(cell, cell::HEADER_BYTES + len));
        let cell = match reusable {
            _ if len == 0 => None,
            Some(cell) => Some(cell),
            None => leaves.allocate_evicting(len, head.as_deref_mut()),
        };
        let after = match (cell, head) {
            _ if len == 0 => 0,
            (Some(cell), _) => {
                // SAFETY: the cell is new and named by no word, or named by the word that we hold.
                unsafe { cell::fill(&leaves.arena, cell, leaf, 0, packed) };
                RESIDENT | DIRTY | REFERENCED | u64::from(cell.0)
            }
            (None, Some(head)) => leaves.append(leaf, packed, head, 0).expect("the caller made room"),
            (None, None) => return Err(NoRoom),
        };
        if let Some(old) = resident.filter(|&old| Some(old) != cell) {
            leaves.arena.free(old);
        }
        self.release_replaced();
        if logged != 0 {
            let (address, bytes) = logged_place(logged);
            leaves.log.release(address, record_bytes(bytes));
        }
        self.word = after;
        Ok(())
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.leaves.unlock(self.leaf, self.word);
    }
}

const _: () = assert!(PACKED_BYTES_MAX < 1 << 12 && PACKED_BYTES_MAX + 16 <= OS_PAGE_BYTES);
