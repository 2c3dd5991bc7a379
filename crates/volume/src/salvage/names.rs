//! Names that are made of earlier ones, and a folder for files whose names are lost.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::inodes::MendedInodes;
use super::log::Wanted;
use super::{Salvage, Source};
use crate::error::Result;
use crate::folder_page;
use crate::inode::{Inode, Kind};
use crate::key::{Ino, PageKey};
use crate::word::{PAGE_BYTES, PageBytes};

/// What is known of names.
#[derive(Default)]
pub struct Names {
    /// How many names each file has.
    links: HashMap<Ino, u32>,
    /// Pages of folders that cannot be read.
    damaged: Vec<PageKey>,
}

impl Names {
    /// Whether no name can be missing.
    fn are_all_known(&self) -> bool {
        self.damaged.is_empty()
    }
}

/// The entries of a page of a folder; `None` if they make no sense.
fn entries(page: &PageBytes) -> Option<Vec<(Ino, Kind, Vec<u8>)>> {
    let entry =
        |entry: folder_page::Entry<'_>| entry.target.map(|(ino, kind)| (ino, kind, entry.name.to_vec()));
    let all: Option<Vec<_>> = folder_page::entries(page).map(|found| found.map(entry)).collect();
    Some(all?.into_iter().flatten().collect())
}

impl Salvage<'_> {
    /// Reads all folders, and puts earlier versions in place of pages that cannot be read.
    pub(super) fn mend_names(&mut self, inodes: &MendedInodes) -> Result<Names> {
        let mut names = Names::default();
        let mut seen = HashSet::new();
        self.read_folders(vec![Ino::ROOT_FOLDER], inodes, &mut seen, &mut names)?;
        for ino in (Ino::FIRST_FREE.0..self.header()?.next_new).map(Ino) {
            if !seen.contains(&ino) && self.inode(ino)?.is_some_and(|inode| inode.kind == Kind::Folder) {
                self.read_folders(vec![ino], inodes, &mut seen, &mut names)?;
            }
        }
        if names.damaged.is_empty() {
            return Ok(names);
        }
        let found = self.search(&Wanted::pages(&names.damaged));
        for key in names.damaged.clone() {
            let folder = key.ino();
            // The pages of a number that was never given to another file are all of this folder.
            let is_its_own = self.inode(folder)?.is_some_and(|inode| inode.generation == 0);
            let earlier = match is_its_own {
                true => self.earlier(&found, key, |page| entries(page).is_some())?,
                false => None,
            };
            let mut page = folder_page::empty_page();
            let mut kept = 0;
            for (ino, kind, name) in earlier.as_ref().and_then(entries).unwrap_or_default() {
                if self.is_name_of(ino, kind, &names)?
                    && folder_page::insert(&mut page, &name, ino, kind).is_some()
                {
                    *names.links.entry(ino).or_default() += 1;
                    kept += 1;
                }
            }
            self.mended.insert(key, Box::new(page));
            self.doubt(folder).names = if kept > 0 { Source::Earlier } else { Source::Lost };
        }
        Ok(names)
    }

    /// Whether an entry of an earlier moment names the file that it named then, which lacks a name now.
    fn is_name_of(&self, ino: Ino, kind: Kind, names: &Names) -> Result<bool> {
        let known = names.links.get(&ino).copied().unwrap_or(0);
        let is_same = |inode: Inode| {
            let links = if kind == Kind::Folder { 1 } else { inode.links };
            inode.generation == 0 && inode.kind == kind && known < links
        };
        Ok(self.inode(ino)?.is_some_and(is_same))
    }

    /// Counts the names in folders and in those below, and has the inodes fit them.
    fn read_folders(
        &mut self,
        mut waiting: Vec<Ino>,
        inodes: &MendedInodes,
        seen: &mut HashSet<Ino>,
        names: &mut Names,
    ) -> Result<()> {
        while let Some(folder) = waiting.pop() {
            if !seen.insert(folder) {
                continue;
            }
            let Some(inode) = self.inode(folder)?.filter(|inode| inode.kind == Kind::Folder) else {
                continue;
            };
            for index in 0..(inode.size_bytes / PAGE_BYTES as u64) as u32 {
                let key = PageKey::data(folder, index);
                let Some(entries) = self.page(key)?.as_ref().and_then(entries) else {
                    names.damaged.push(key);
                    continue;
                };
                for (ino, kind, _) in entries {
                    *names.links.entry(ino).or_default() += 1;
                    if inodes.has(ino) {
                        self.mend_inode(ino, Some(kind))?;
                    }
                    if kind == Kind::Folder {
                        waiting.push(ino);
                    }
                }
            }
        }
        Ok(())
    }

    /// Puts files without a name into a folder `lost+found`.
    pub(super) fn name_nameless(&mut self, inodes: &MendedInodes, names: &Names) -> Result<()> {
        let mut nameless = BTreeSet::new();
        for ino in (Ino::FIRST_FREE.0..self.header()?.next_new).map(Ino) {
            let Some(inode) = self.inode(ino)? else { continue };
            let is_named = names.links.contains_key(&ino);
            // Of a file that has lost its last name an earlier inode does not say so.
            let is_removed =
                inode.links == 0 || (inodes.has(ino) && names.are_all_known() && self.pages_of(ino)?.0 == 0);
            if !is_named && !is_removed {
                nameless.insert(ino);
            } else if !is_named {
                self.salvaged.doubts.remove(&ino);
            }
        }
        if nameless.is_empty() {
            return Ok(());
        }
        let lost_and_found = Ino(self.header()?.next_new);
        let mut pages = vec![folder_page::empty_page()];
        for &ino in &nameless {
            let Some(inode) = self.inode(ino)? else { continue };
            let name = format!("inode-{}", ino.0);
            let last = pages.last_mut().expect("at least one");
            if folder_page::insert(last, name.as_bytes(), ino, inode.kind).is_none() {
                let mut page = folder_page::empty_page();
                let _ = folder_page::insert(&mut page, name.as_bytes(), ino, inode.kind);
                pages.push(page);
            }
        }
        self.salvaged.nameless = nameless.into_iter().collect();
        let mut inode = Inode::new(Kind::Folder, 0o700, 0, 0);
        inode.size_bytes = (pages.len() * PAGE_BYTES) as u64;
        self.put_inode(lost_and_found, &inode)?;
        for (index, page) in (0..).zip(pages) {
            self.mended.insert(PageKey::data(lost_and_found, index), Box::new(page));
        }
        self.add_to_root(lost_and_found)
    }

    /// Gives a folder the name `lost+found` in the first folder, or the first that is free behind it.
    fn add_to_root(&mut self, ino: Ino) -> Result<()> {
        let Some(mut root) = self.inode(Ino::ROOT_FOLDER)? else { return Ok(()) };
        let end = (root.size_bytes / PAGE_BYTES as u64) as u32;
        let mut taken = HashSet::new();
        for index in 0..end {
            let page = self.page(PageKey::data(Ino::ROOT_FOLDER, index))?;
            taken.extend(page.as_ref().and_then(entries).into_iter().flatten().map(|(_, _, name)| name));
        }
        let numbered = (2..).map(|number: u32| format!("lost+found.{number}"));
        let name = std::iter::once("lost+found".to_owned())
            .chain(numbered)
            .find(|name| !taken.contains(name.as_bytes()))
            .expect("a folder has an end");
        let mut page = folder_page::empty_page();
        let _ = folder_page::insert(&mut page, name.as_bytes(), ino, Kind::Folder);
        self.mended.insert(PageKey::data(Ino::ROOT_FOLDER, end), Box::new(page));
        root.size_bytes += PAGE_BYTES as u64;
        root.links += 1;
        self.put_inode(Ino::ROOT_FOLDER, &root)
    }
}
