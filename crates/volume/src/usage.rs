//! What the table takes for the pages of a file.

use crate::error::Result;
use crate::key::{Ino, PageKey};
use crate::node::Node;
use crate::volume::Volume;
use crate::word::{PAGE_BYTES, PAGE_UNITS, Word};

/// Nodes of a file's tree and the pages that they translate, on flash and in RAM.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TableUse {
    /// Pages of the file on flash.
    pub pages: u64,
    /// Nodes of its tree on flash.
    pub nodes: u64,
    /// Bytes that these take there, patches to them included.
    pub node_bytes: u64,
    /// Nodes of its tree in RAM.
    pub nodes_in_ram: u64,
    /// Bytes that these take there, with what finds them.
    pub node_bytes_in_ram: u64,
    /// Pages whose words are in RAM.
    pub pages_in_ram: u64,
}

impl Volume {
    /// What the table takes for a file, after all changes and all of the table went to flash. What is in RAM is counted before the nodes
    /// on flash are visited.
    ///
    /// # Errors
    /// A node could not be read; those of [`Volume::sync`].
    ///
    /// # Context
    /// Reads all of the file's table, and writes a checkpoint; nobody commits meanwhile.
    pub fn table_use(&self, ino: Ino) -> Result<TableUse> {
        let core = self.core();
        let mut writer = core.lock_writer();
        if core.allow_changes().is_ok() {
            core.commit_with(&mut writer)?;
            core.checkpoint(&mut writer, false)?;
        }
        let mut found = TableUse::default();
        for node in core.table.nodes_of(ino) {
            found.nodes_in_ram += 1;
            found.node_bytes_in_ram += Node::RAM_BYTES as u64;
            if node.key().level() == 1 {
                found.pages_in_ram += node.words().filter(|word| *word != Word::ZERO).count() as u64;
            }
        }
        core.table.walk(&core.flash, ino, &mut |key: PageKey, word: Word| {
            if key.is_node() {
                found.nodes += 1;
                let unit = PAGE_BYTES as u64 / u64::from(PAGE_UNITS);
                word.for_each_share(|_, units| found.node_bytes += u64::from(units) * unit);
            } else {
                found.pages += 1;
            }
            Ok(())
        })?;
        Ok(found)
    }
}
