//! A leaf that one thread changes.

use std::sync::atomic::Ordering;

use aquifer_base::LeafId;
use aquifer_base::limits::OS_PAGE_BYTES;
use aquifer_log::record::record_bytes;
use aquifer_log::{Head, ReadError};

use super::{DIRTY, Leaves, PATCHED, REFERENCED, RESIDENT, cell, leaf_record, logged_place};
use crate::arena::Cell;
use crate::image::{Image, Place};
use crate::packed::{self, PACKED_BYTES_MAX};
use crate::patch;

/// A leaf that this thread has locked and unpacked.
pub struct Held<'a> {
    leaves: &'a Leaves,
    leaf: LeafId,
    word: u64,
    page_bytes: usize,
    image: Image,
    before: Image,
    /// The leaf as the log has it, if that is what there is of it besides a patch.
    base: Option<Image>,
}

/// Largest patch: a leaf is written anew when much of it has changed.
const PATCH_BYTES_MAX: usize = 400 - cell::HEADER_BYTES;

/// A whole leaf that is no larger stays in RAM as it is: a patch would hardly be smaller, and each look-up would read
/// the rest.
const SMALL_BYTES: usize = 256 - cell::HEADER_BYTES;

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
        let word = self.lock(leaf);
        // Only now: the leaf may have been freed and given out anew while we waited.
        let page_bytes = self.page_bytes(leaf);
        match self.unpack(leaf, word, page_bytes, scratch) {
            Ok((image, base)) => {
                Ok(Held { leaves: self, leaf, word, page_bytes, before: image.clone(), image, base })
            }
            Err(error) => {
                self.unlock(leaf, word);
                Err(error)
            }
        }
    }

    /// Unpacks a leaf whose word the caller has locked, as it is and, if it is not whole in RAM, as the log has it.
    fn unpack(
        &self,
        leaf: LeafId,
        word: u64,
        page_bytes: usize,
        scratch: &mut [u8],
    ) -> Result<(Image, Option<Image>), ReadError> {
        let mut image = Image::default();
        let cell = (word & RESIDENT != 0).then_some(Cell(word as u32));
        // SAFETY: we hold the lock of the word that names the cell.
        let (bytes, logged) = cell.map_or((&[][..], word), |cell| unsafe {
            (cell::packed(&self.arena, cell), cell::logged(&self.arena, cell))
        });
        let malformed = |_| leaf_mismatch(leaf, logged);
        if word & (RESIDENT | PATCHED) == RESIDENT {
            packed::decode(bytes, page_bytes, &mut image).map_err(malformed)?;
            return Ok((image, None));
        }
        if logged == 0 {
            return Ok((image, None));
        }
        let range = self.read_logged(leaf, logged, scratch)?;
        packed::decode(&scratch[range], page_bytes, &mut image).map_err(malformed)?;
        let base = image.clone();
        patch::apply(bytes, &mut image).map_err(malformed)?;
        Ok((image, Some(base)))
    }
}

fn leaf_mismatch(leaf: LeafId, logged: u64) -> ReadError {
    ReadError::Mismatch { address: logged_place(logged).0, wanted: leaf_record(leaf) }
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

    /// Makes the changes visible: packs the leaf into the arena if there is room or it is small, else leaves a patch
    /// there, else, with a `head`, writes the leaf to the log.
    ///
    /// # Errors
    /// [`NoRoom`], never with a head that has room for [`super::LEAF_RECORD_BYTES_MAX`]. Nothing has changed then.
    pub fn store(mut self, head: Option<&mut Head>) -> Result<(), NoRoom> {
        if self.image.is_zero() {
            self.release_logged();
            self.replace_cell(None);
            self.word = 0;
        } else {
            self.store_changed(head)?;
        }
        self.release_replaced();
        Ok(())
    }

    /// Writes the unchanged leaf to the log, if `head` has room for it, and frees its room in the arena.
    pub(super) fn move_to_log(mut self, head: &mut Head) {
        // Without room it stays where it is.
        let _ = self.append_whole(head);
    }

    fn store_changed(&mut self, head: Option<&mut Head>) -> Result<(), NoRoom> {
        let mut out = [0u8; PACKED_BYTES_MAX];
        let whole = if self.base.is_none() || self.leaves.arena.is_roomy() {
            Some(self.pack(&mut out))
        } else {
            self.pack_small(&mut out)
        };
        match (whole, head) {
            (Some(len), head) => self.store_whole(&out[..len], head),
            (None, _) if self.store_patch() => Ok(()),
            (None, Some(head)) => self.append_whole(head),
            (None, None) => {
                let len = self.pack(&mut out);
                self.store_whole(&out[..len], None)
            }
        }
    }

    fn pack_small(&self, out: &mut [u8; PACKED_BYTES_MAX]) -> Option<usize> {
        let block_bytes = self.leaves.log.geometry().block_bytes;
        packed::encode_small(&self.image, self.page_bytes, block_bytes, SMALL_BYTES, out)
    }

    fn pack(&self, out: &mut [u8; PACKED_BYTES_MAX]) -> usize {
        packed::encode(&self.image, self.page_bytes, self.leaves.log.geometry().block_bytes, out)
    }

    fn store_whole(&mut self, packed: &[u8], mut head: Option<&mut Head>) -> Result<(), NoRoom> {
        let Some(cell) = self.room_for(packed.len(), head.as_deref_mut()) else {
            let Some(head) = head else {
                self.leaves.wants_room.store(true, Ordering::Release);
                return Err(NoRoom);
            };
            return self.append_whole(head);
        };
        self.release_logged();
        self.replace_cell(Some(cell));
        // SAFETY: the cell is new and named by no word, or named by the word that we hold.
        unsafe { cell::fill(&self.leaves.arena, cell, self.leaf, 0, packed) };
        self.word = RESIDENT | DIRTY | REFERENCED | u64::from(cell.0);
        Ok(())
    }

    /// Stores what differs from the leaf in the log; false if that is too much or there is no room for it.
    fn store_patch(&mut self) -> bool {
        let Some(base) = &self.base else { return false };
        let (mut out, block_bytes) = ([0; PATCH_BYTES_MAX], self.leaves.log.geometry().block_bytes);
        let Some(len) = patch::encode(base, &self.image, self.page_bytes, block_bytes, &mut out) else {
            return false;
        };
        let logged = self.logged();
        let Some(cell) = self.room_for(len, None) else { return false };
        self.replace_cell(Some(cell));
        // SAFETY: the cell is new and named by no word, or named by the word that we hold.
        unsafe { cell::fill(&self.leaves.arena, cell, self.leaf, logged, &out[..len]) };
        self.word = RESIDENT | PATCHED | DIRTY | REFERENCED | u64::from(cell.0);
        true
    }

    fn append_whole(&mut self, head: &mut Head) -> Result<(), NoRoom> {
        let mut out = [0u8; PACKED_BYTES_MAX];
        let len = self.pack(&mut out);
        let word = self.leaves.append(self.leaf, &out[..len], head, 0).ok_or(NoRoom)?;
        self.release_logged();
        self.replace_cell(None);
        self.word = word;
        Ok(())
    }

    /// A cell for `len` bytes: the one that the leaf has, if it is of that size, or another.
    fn room_for(&self, len: usize, head: Option<&mut Head>) -> Option<Cell> {
        let arena = &self.leaves.arena;
        let same = self.resident().filter(|&cell| arena.same_class(cell, cell::HEADER_BYTES + len));
        same.or_else(|| self.leaves.allocate_evicting(len, head))
    }

    /// Frees the leaf's cell unless it is `next`.
    fn replace_cell(&self, next: Option<Cell>) {
        if let Some(cell) = self.resident().filter(|&cell| Some(cell) != next) {
            self.leaves.arena.free(cell);
        }
    }

    /// The leaf's record in the log is garbage from now on.
    fn release_logged(&self) {
        match self.logged() {
            0 => {}
            logged => {
                let (address, bytes) = logged_place(logged);
                self.leaves.log.release(address, record_bytes(bytes));
            }
        }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.leaves.unlock(self.leaf, self.word);
    }
}

const _: () = assert!(PACKED_BYTES_MAX < 1 << 12 && PACKED_BYTES_MAX + 16 <= OS_PAGE_BYTES);
