//! A leaf of which the arena holds a patch and the log the rest.

use aquifer_base::{LeafId, PageId};
use aquifer_log::{Head, ReadError};

use super::{Leaves, cell, leaf_record, logged_place};
use crate::arena::Cell;
use crate::image::{Image, Place};
use crate::packed::{self, PACKED_BYTES_MAX};
use crate::patch;

impl Leaves {
    /// The place of a page whose leaf's word is locked and names a patch.
    pub(super) fn locate_patched(
        &self,
        page: PageId,
        word: u64,
        scratch: &mut [u8],
    ) -> Result<Place, ReadError> {
        let (leaf, cell) = (page.leaf(), Cell(word as u32));
        // SAFETY: the directory word is locked by the caller and names this cell.
        let (changes, logged) = unsafe { (cell::packed(&self.arena, cell), cell::logged(&self.arena, cell)) };
        let malformed = ReadError::Mismatch { address: logged_place(logged).0, wanted: leaf_record(leaf) };
        if let Some(place) = patch::place_of(changes, page.index()).map_err(|_| malformed)? {
            return Ok(place);
        }
        let range = self.read_logged(leaf, logged, scratch)?;
        packed::place_of(&scratch[range], page.index(), self.page_bytes(leaf)).map_err(|_| malformed)
    }

    /// Appends the leaf `packed` with the patch that the locked `word` names as one; returns the new word.
    pub(super) fn relocate_patched(&self, leaf: LeafId, word: u64, packed: &[u8], head: &mut Head) -> u64 {
        const ROOM: &str = "the caller made room";
        let (cell, page_bytes) = (Cell(word as u32), self.page_bytes(leaf));
        // SAFETY: the caller holds the lock of the leaf that owns the cell.
        let changes = unsafe { cell::packed(&self.arena, cell) };
        let mut image = Image::default();
        let unpacked =
            packed::decode(packed, page_bytes, &mut image).and_then(|()| patch::apply(changes, &mut image));
        if unpacked.is_err() {
            // Readers of the leaf will be told.
            let logged = self.append(leaf, packed, head, 0).expect(ROOM);
            // SAFETY: as above.
            unsafe { cell::set_logged(&self.arena, cell, logged) };
            return word;
        }
        let mut merged = [0; PACKED_BYTES_MAX];
        let len = packed::encode(&image, page_bytes, self.log.geometry().block_bytes, &mut merged);
        self.arena.free(cell);
        self.append(leaf, &merged[..len], head, 0).expect(ROOM)
    }
}
