//! Leaves of the table that are made of what the log has.

use std::collections::{BTreeMap, HashMap};

use super::Salvage;
use super::log::{Found, Wanted};
use crate::error::{Result, if_readable};
use crate::key::PageKey;
use crate::word::{PAGE_BYTES, Word};

/// Where pages of files are, and the sequence of the block that says so.
type Places = BTreeMap<PageKey, (u64, Word)>;

impl Salvage<'_> {
    /// Puts nodes in place of those that are damaged, and says in them where pages are that the log still names.
    pub(super) fn mend_table(&mut self, nodes: &[PageKey]) -> Result<()> {
        if nodes.is_empty() {
            return Ok(());
        }
        let found = self.search(&Wanted::below(nodes));
        let mut places = Places::new();
        let leaves = self.read_leaves(&found, &mut places)?;
        for page in found.keys().filter(|key| key.level() == 0) {
            let least = leaves.get(&page.parent().0).copied().unwrap_or(0);
            if let Some(newest) = found.of(page).first().filter(|newest| newest.sequence >= least) {
                places.insert(page, (newest.sequence, newest.word));
            }
        }
        nodes.iter().for_each(|&node| self.table.put_empty(node));
        for (page, (sequence, word)) in places {
            if !found.is_trimmed(page, sequence) && self.is_there(&found, page, word)? {
                self.table.set(self.flash, page.ino(), page.index(), word)?;
            }
        }
        Ok(())
    }

    /// Adds what the newest versions of leaves say that can be read. Returns the sequence from which on blocks are newer than each leaf.
    fn read_leaves(&self, found: &Found, places: &mut Places) -> Result<HashMap<PageKey, u64>> {
        let mut leaves = HashMap::new();
        let mut bytes = [0; PAGE_BYTES];
        for leaf in found.keys().filter(|key| key.level() == 1) {
            for version in found.of(leaf) {
                if if_readable(self.flash.read(leaf, version.word, &mut bytes))?.is_none() {
                    continue;
                }
                leaves.insert(leaf, version.sequence);
                for (slot, word) in bytes.chunks_exact(8).enumerate() {
                    let word = Word::from_bits(u64::from_le_bytes(word.try_into().expect("eight bytes")));
                    if word != Word::ZERO {
                        places.insert(leaf.child(slot), (version.sequence, word));
                    }
                }
                break;
            }
        }
        Ok(leaves)
    }

    /// Whether a page is where a word says. What an older leaf names may have been freed since, by a trim that was erased.
    fn is_there(&self, found: &Found, page: PageKey, word: Word) -> Result<bool> {
        let is_named = word == Word::LOST || found.of(page).iter().any(|version| version.word == word);
        // If blocks are damaged, one of them may have named it.
        if is_named || found.unknown > 0 {
            return Ok(true);
        }
        Ok(if_readable(self.flash.read(page, word, &mut [0; PAGE_BYTES]))?.is_some())
    }
}
