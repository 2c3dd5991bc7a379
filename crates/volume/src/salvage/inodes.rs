//! Inodes that are made of earlier ones, of what the table has, and of what folders say.

use std::collections::HashSet;

use super::log::Wanted;
use super::{Salvage, Source};
use crate::error::Result;
use crate::inode::{INODE_BYTES, INODES_PER_PAGE, Inode, InodesHeader, Kind, Time, inodes_max};
use crate::key::{Ino, PageKey};
use crate::word::{PAGE_BYTES, PageBytes};

/// Pages of inodes that are not as they were last.
pub struct MendedInodes {
    pages: HashSet<u32>,
}

impl MendedInodes {
    /// Whether the inode of a file may not be as it was last.
    pub fn has(&self, ino: Ino) -> bool {
        self.pages.contains(&(ino.0 / INODES_PER_PAGE))
    }
}

fn place_of(ino: Ino) -> (PageKey, usize) {
    let at = (ino.0 % INODES_PER_PAGE) as usize * INODE_BYTES;
    (PageKey::data(Ino::INODES, ino.0 / INODES_PER_PAGE), at)
}

fn inode_in(page: &PageBytes, at: usize) -> &[u8; INODE_BYTES] {
    page[at..at + INODE_BYTES].try_into().expect("an inode")
}

impl Salvage<'_> {
    /// The inode of a file, if there is one.
    pub(super) fn inode(&self, ino: Ino) -> Result<Option<Inode>> {
        let (key, at) = place_of(ino);
        Ok(self.page(key)?.and_then(|page| Inode::decode(inode_in(&page, at))))
    }

    /// What the table of inodes says of itself.
    pub(super) fn header(&self) -> Result<InodesHeader> {
        let page = self.page(place_of(Ino(0)).0)?.unwrap_or([0; PAGE_BYTES]);
        let header = InodesHeader::decode(inode_in(&page, 0));
        let next_new = header.next_new.min(inodes_max(self.flash.medium().geometry()));
        Ok(InodesHeader { next_new, ..header })
    }

    fn put(&mut self, ino: Ino, bytes: &[u8; INODE_BYTES]) -> Result<()> {
        let (key, at) = place_of(ino);
        let mut page = self.page(key)?.unwrap_or([0; PAGE_BYTES]);
        page[at..at + INODE_BYTES].copy_from_slice(bytes);
        self.mended.insert(key, Box::new(page));
        Ok(())
    }

    pub(super) fn put_inode(&mut self, ino: Ino, inode: &Inode) -> Result<()> {
        self.put(ino, &inode.encode())?;
        let header = self.header()?;
        let next_new = header.next_new.max(ino.0 + 1);
        if next_new > header.next_new {
            self.put(Ino(0), &InodesHeader { next_new, ..header }.encode())?;
        }
        Ok(())
    }

    /// Puts earlier versions in place of pages of inodes that cannot be read, and makes up inodes for files that the table has.
    pub(super) fn mend_inodes(&mut self) -> Result<MendedInodes> {
        let (_, last) = self.pages_of(Ino::INODES)?;
        let first = self.page(place_of(Ino(0)).0)?;
        let next_new = first.map_or(0, |page| InodesHeader::decode(inode_in(&page, 0)).next_new);
        let end = next_new.div_ceil(INODES_PER_PAGE).max(last.map_or(1, |last| last + 1));
        let mut damaged = Vec::new();
        for key in (0..end).map(|index| PageKey::data(Ino::INODES, index)) {
            if self.page(key)?.is_none() {
                damaged.push(key);
            }
        }
        let mended = MendedInodes { pages: damaged.iter().map(|key| key.index()).collect() };
        if damaged.is_empty() {
            return Ok(mended);
        }
        let found = self.search(&Wanted::pages(&damaged));
        for &key in &damaged {
            let earlier = self.earlier(&found, key, |_| true)?;
            self.mended.insert(key, Box::new(earlier.unwrap_or([0; PAGE_BYTES])));
        }
        let header = self.header()?;
        let next_new = header.next_new.max(last.map_or(1, |last| last + 1).min(1 << 23) * INODES_PER_PAGE);
        self.put(Ino(0), &InodesHeader { next_new, ..header }.encode())?;
        for ino in
            damaged.iter().flat_map(|key| key.index() * INODES_PER_PAGE..(key.index() + 1) * INODES_PER_PAGE)
        {
            if ino >= Ino::ROOT_FOLDER.0 {
                self.mend_inode(Ino(ino), None)?;
            }
        }
        self.mend_inode(Ino::ROOT_FOLDER, Some(Kind::Folder))?;
        Ok(mended)
    }

    /// Makes an inode of a damaged page fit what else is known: a folder says that it is of `kind`, or the table has pages of it.
    pub(super) fn mend_inode(&mut self, ino: Ino, kind: Option<Kind>) -> Result<()> {
        let (pages, last) = self.pages_of(ino)?;
        let earlier = self.inode(ino)?.filter(|inode| kind.is_none_or(|kind| kind == inode.kind));
        let source = if earlier.is_some() { Source::Earlier } else { Source::Lost };
        let made_up = match kind {
            Some(kind) => Some(kind),
            None => (pages > 0).then_some(Kind::File),
        };
        let Some(mut inode) = earlier.or_else(|| made_up.map(made_up_inode)) else { return Ok(()) };
        let behind = last.map_or(0, |last| (u64::from(last) + 1) * PAGE_BYTES as u64);
        inode.size_bytes = match (inode.kind, last) {
            (Kind::Folder, _) => behind,
            // What is behind the end of a file reads as zeros.
            (_, Some(last)) => inode.size_bytes.max(behind - self.zeros_at_end(ino, last)?),
            (_, None) => inode.size_bytes,
        };
        inode.pages = pages;
        self.put_inode(ino, &inode)?;
        let doubt = self.doubt(ino);
        if doubt.inode != Source::Lost {
            doubt.inode = source;
        }
        Ok(())
    }

    fn zeros_at_end(&self, ino: Ino, last: u32) -> Result<u64> {
        let page = self.page(PageKey::data(ino, last))?;
        let zeros = page.map_or(0, |page| page.iter().rev().take_while(|&&byte| byte == 0).count());
        Ok(zeros as u64)
    }
}

/// The inode of a file of which only the kind is known. Nobody but its owner, root, may use it.
fn made_up_inode(kind: Kind) -> Inode {
    let mode = if kind == Kind::Folder { 0o700 } else { 0o600 };
    let mut inode = Inode::new(kind, mode, 0, 0);
    (inode.read_at, inode.written_at, inode.changed_at, inode.made_at) = <[Time; 4]>::default().into();
    inode
}
