//! Tables that no volume writes: their checksums agree, and they would be walked for ever.

use super::Table;
use crate::error::{Result, VolumeError};
use crate::flash::Flash;
use crate::key::PageKey;
use crate::word::{PAGE_BYTES, PageBytes};

/// Nodes that a walk of one tree has entered.
#[derive(Default)]
pub struct Entered(u64);

impl Entered {
    /// Counts one more.
    ///
    /// # Errors
    /// [`VolumeError::Corrupt`] if the medium has fewer: a table that names a node more than once could be walked for days. Commits may move each once
    /// meanwhile.
    pub fn count(&mut self, table: &Table, flash: &Flash) -> Result<()> {
        self.0 += 1;
        if self.0 <= 2 * flash.medium().geometry().pages() + table.nodes.len() as u64 {
            return Ok(());
        }
        Err(VolumeError::Corrupt("its table names nodes more than once".into()))
    }
}

/// Refuses a node that names pages that no file has: 16 TiB of pages need only a part of a node of the highest level.
pub fn refuse_impossible(key: PageKey, page: &PageBytes) -> Result<()> {
    if page[key.children().saturating_mul(8).min(PAGE_BYTES)..].iter().all(|&byte| byte == 0) {
        return Ok(());
    }
    Err(VolumeError::Damaged { key, what: "it names pages that no file has".into() })
}

#[cfg(test)]
mod tests {
    use aquifer_device::{AlignedBuffer, Device, MemoryDevice};

    use super::*;
    use crate::key::Ino;
    use crate::medium::DeviceMedium;
    use crate::table::Root;
    use crate::word::{Physical, Place, Word, check_of, crc_of};

    /// A medium of 128 pages. Pages 20 and up are nodes, all words of which name the page before.
    fn folded(height: u32) -> (Flash, Table) {
        let device = MemoryDevice::new(1 << 19, PAGE_BYTES);
        let (mut page, mut word) = (AlignedBuffer::new(PAGE_BYTES), Word::ZERO);
        for number in 19..20 + height {
            page.chunks_exact_mut(8).for_each(|bytes| bytes.copy_from_slice(&word.bits().to_le_bytes()));
            device.write_at(Physical(number).offset_bytes(), &page).expect("memory");
            word = Word::of(Place::Page { at: Physical(number), check: check_of(crc_of(&page)) });
        }
        let flash = Flash::new(Box::new(DeviceMedium::new(device, 8).expect("a medium")));
        (flash, Table::new(Root { word, height }, 100))
    }

    #[test]
    fn a_table_that_names_nodes_again_and_again_is_not_walked_to_its_end() {
        let (flash, table) = folded(2);
        let mut pages = 0;
        let walked = table.walk(&flash, Ino::ROOTS, &mut |key, _| {
            pages += u64::from(key.level() == 0);
            Ok(())
        });
        assert!(walked.is_err_and(|error| matches!(error, VolumeError::Corrupt(_))));
        assert!(pages < 512 * 512, "{pages} pages of a medium of 128");
    }

    #[test]
    fn a_node_that_names_pages_behind_the_last_is_damaged() {
        let (flash, table) = folded(3);
        let found = table.get(&flash, Ino::ROOTS, 0);
        assert!(found.is_err_and(|error| matches!(error, VolumeError::Damaged { .. })));
    }

    #[test]
    fn what_is_freed_twice_ends_a_trim() {
        let (flash, table) = folded(2);
        let mut left = 1000;
        let trimmed = table.trim(&flash, Ino::ROOTS, 0, u32::MAX, &mut |_| {
            left -= 1;
            if left > 0 { Ok(()) } else { Err(VolumeError::Corrupt("freed twice".into())) }
        });
        assert_eq!((trimmed, left), (Err(VolumeError::Corrupt("freed twice".into())), 0));
    }
}
