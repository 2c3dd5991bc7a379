//! Salvage: where pages of the table, of inodes or of folders are damaged, the log still has most of what they said.
//!
//! 1. Nodes that cannot be read (`table.rs`): a leaf is its newest version that can be read, and what blocks behind that say of its pages. Blocks name the
//!    pages behind them, so what files have is found without any node.
//! 2. Pages of inodes (`inodes.rs`): an earlier version, or what the table and folders tell of a file.
//! 3. Pages of folders (`names.rs`): an earlier version, of which only names count that belong to the same file for certain. What is left without a name is
//!    put into a folder `lost+found`.
//!
//! Only what was committed counts. A trim can be erased before the pages that it freed: so what was found is compared with the number of pages that the
//! file should have, and all of it is said in [`Salvaged`].

mod inodes;
mod log;
mod names;
mod table;

use std::collections::BTreeMap;
use std::fmt;

use crate::anchor::Anchor;
use crate::error::{Result, if_readable};
use crate::flash::{Flash, Mended};
use crate::key::{Ino, PageKey};
use crate::table::Table;
use crate::word::{PAGE_BYTES, PageBytes, Word};

use log::Wanted;

/// Where something comes from that is told of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Source {
    /// It is as it was last.
    #[default]
    Last,
    /// It is as it was at an earlier moment.
    Earlier,
    /// It is lost, and made up of what else is known.
    Lost,
}

/// What is not known of a file to be as it was last.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Doubt {
    /// Pages that it has now, some of them found in the log, and pages that it should have by its inode.
    pub pages: Option<(u64, u64)>,
    /// Its inode: size, permissions, owner and times.
    pub inode: Source,
    /// Of a folder, the names in it.
    pub names: Source,
    /// Whether the log is damaged as well: it may have held something newer.
    pub may_be_older: bool,
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut said = Vec::new();
        match self.pages {
            Some((found, expected)) if found == expected && self.inode == Source::Last => {
                said.push(format!("the table is damaged, all {found} pages were found in the log"));
            }
            Some((found, _)) if self.inode != Source::Last => {
                said.push(format!("the table is damaged, {found} pages were found in the log"));
            }
            Some((found, expected)) if found < expected => said.push(format!(
                "the table is damaged, {found} of {expected} pages were found in the log, zeros stand in place of the others"
            )),
            Some((found, expected)) => said.push(format!(
                "the table is damaged, {found} pages were found in the log where {expected} should be: some were removed from it, or are of a file that had its number before"
            )),
            None => {}
        }
        match self.inode {
            Source::Last => {}
            Source::Earlier => said.push(
                "its inode is damaged, size, permissions, owner and times are of an earlier moment, and it may have been removed since".into(),
            ),
            Source::Lost => said.push(
                "its inode is lost, size, permissions, owner and times are guessed, and it may have been removed".into(),
            ),
        }
        match self.names {
            Source::Last => {}
            Source::Earlier => said.push(
                "names in it are damaged, some are of an earlier moment, other files are in `lost+found`"
                    .into(),
            ),
            Source::Lost => said.push("names in it are lost, the files are in `lost+found`".into()),
        }
        if self.may_be_older {
            said.push("blocks of the log are damaged too, so it may be older than it was".into());
        }
        write!(f, "{}", said.join("; "))
    }
}

/// What was salvaged of a damaged volume.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Salvaged {
    /// Files of which something may not be as it was last.
    pub doubts: BTreeMap<Ino, Doubt>,
    /// Files without a name, which are in `lost+found`.
    pub nameless: Vec<Ino>,
}

/// Looks for damage of table, inodes and folders, and puts in its place what the log still has. The volume is open for reading alone.
///
/// # Errors
/// What is not damage.
pub fn salvage(flash: &Flash, table: &Table, anchor: &Anchor) -> Result<Salvaged> {
    let (mended, salvaged) = <(Mended, Salvaged)>::default();
    let mut salvage = Salvage { flash, table, anchor, mended, salvaged, unknown: 0 };
    let nodes = table.damaged_nodes(flash)?;
    salvage.mend_table(&nodes)?;
    let inodes = salvage.mend_inodes()?;
    let names = salvage.mend_names(&inodes)?;
    salvage.name_nameless(&inodes, &names)?;
    salvage.count_pages(&Wanted::below(&nodes))?;
    flash.set_mended(salvage.mended);
    Ok(salvage.salvaged)
}

struct Salvage<'a> {
    flash: &'a Flash,
    table: &'a Table,
    anchor: &'a Anchor,
    /// Pages of inodes and folders that are not read from flash.
    mended: Mended,
    salvaged: Salvaged,
    /// Blocks and pages of the log that may have held something newer.
    unknown: u64,
}

impl Salvage<'_> {
    /// A page of inodes or of a folder; `None` if it cannot be read, or is nowhere.
    fn page(&self, key: PageKey) -> Result<Option<PageBytes>> {
        if let Some(mended) = self.mended.get(&key) {
            return Ok(Some(**mended));
        }
        let word = if_readable(self.table.get(self.flash, key.ino(), key.index()))?;
        let mut bytes = [0; PAGE_BYTES];
        match word {
            None | Some(Word::ZERO) => Ok(None),
            Some(word) => Ok(if_readable(self.flash.read(key, word, &mut bytes))?.map(|_| bytes)),
        }
    }

    /// What is in doubt of a file.
    fn doubt(&mut self, ino: Ino) -> &mut Doubt {
        let may_be_older = self.unknown > 0;
        let doubt = self.salvaged.doubts.entry(ino).or_default();
        doubt.may_be_older |= may_be_older;
        doubt
    }

    /// Looks through the log.
    fn search(&mut self, wanted: &Wanted) -> log::Found {
        let found = log::search(self.flash.medium(), self.anchor, wanted);
        self.unknown = self.unknown.max(found.unknown);
        found
    }

    /// The newest version of a page that can be read and that `is_right`.
    fn earlier(
        &self,
        found: &log::Found,
        key: PageKey,
        is_right: impl Fn(&PageBytes) -> bool,
    ) -> Result<Option<PageBytes>> {
        let mut bytes = [0; PAGE_BYTES];
        for version in found.of(key).iter().filter(|version| !found.is_trimmed(key, version.sequence)) {
            if if_readable(self.flash.read(key, version.word, &mut bytes))?.is_some() && is_right(&bytes) {
                return Ok(Some(bytes));
            }
        }
        Ok(None)
    }

    /// Pages of a file that are on flash, and the last of them.
    fn pages_of(&self, ino: Ino) -> Result<(u64, Option<u32>)> {
        let (mut count, mut last, mut from) = (0, None, 0);
        while let Some(page) = self.table.next(self.flash, ino, from)? {
            (count, last) = (count + 1, Some(page));
            let Some(next) = page.checked_add(1) else { break };
            from = next;
        }
        Ok((count, last))
    }

    /// Compares what files have whose table was damaged with what their inodes say.
    fn count_pages(&mut self, lost: &Wanted) -> Result<()> {
        for ino in (Ino::ROOT_FOLDER.0..self.header()?.next_new).map(Ino) {
            if !lost.has_ranges_of(ino) {
                continue;
            }
            let Some(inode) = self.inode(ino)? else { continue };
            let (found, _) = self.pages_of(ino)?;
            if found > 0 || inode.pages > 0 {
                self.doubt(ino).pages = Some((found, inode.pages));
            }
        }
        Ok(())
    }
}
