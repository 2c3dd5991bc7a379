//! Entries of folders: listed, found, added, changed and taken away.

use std::ops::ControlFlow;
use std::sync::Arc;

use super::Listed;
use crate::core::Change;
use crate::error::{Result, VolumeError};
use crate::folder_page::{self, NAME_BYTES_MAX};
use crate::index::{Index, Slot};
use crate::inode::{Inode, Kind, Time};
use crate::inodes::Cell;
use crate::key::{Ino, PageKey};
use crate::volume::Volume;
use crate::word::{PAGE_BYTES, PageBytes};

impl Volume {
    /// Calls `visit` for the entries of a folder, from where an earlier listing ended (0: from the first), until it breaks. Names may change
    /// meanwhile; those that stay are listed once.
    ///
    /// # Errors
    /// [`VolumeError::NotAFolder`]; the folder could not be read.
    pub fn list(
        &self,
        folder: Ino,
        from: u64,
        mut visit: impl FnMut(Listed<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        let pages = {
            let _names = self.read_names();
            self.folder_pages(folder)?
        };
        for page in (from / PAGE_BYTES as u64) as u32..pages {
            let bytes = {
                let _names = self.read_names();
                self.folder_page(folder, page)?
            };
            if list_page(folder, page, &bytes, from, &mut visit)?.is_break() {
                break;
            }
        }
        Ok(())
    }

    /// As [`Volume::list`], from the first entry, for a caller that holds the names.
    pub(crate) fn list_unlocked(
        &self,
        folder: Ino,
        mut visit: impl FnMut(Listed<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        for page in 0..self.folder_pages(folder)? {
            if list_page(folder, page, &self.folder_page(folder, page)?, 0, &mut visit)?.is_break() {
                break;
            }
        }
        Ok(())
    }

    pub(super) fn folder_pages(&self, folder: Ino) -> Result<u32> {
        Ok((self.folder(folder)?.size_bytes / PAGE_BYTES as u64) as u32)
    }

    pub(super) fn folder_page(&self, folder: Ino, page: u32) -> Result<PageBytes> {
        let key = PageKey::data(folder, page);
        let mut bytes = [0; PAGE_BYTES];
        self.core().with_page(key, None, |_, state| state.read(key, 0, &mut bytes))?;
        Ok(bytes)
    }

    /// The inode of a folder.
    pub(crate) fn folder(&self, ino: Ino) -> Result<Inode> {
        let inode = self.core().inode(ino)?;
        if inode.kind == Kind::Folder { Ok(inode) } else { Err(VolumeError::NotAFolder) }
    }

    pub(super) fn slot(&self, folder: Ino, name: &[u8]) -> Result<Option<Slot>> {
        if name.len() > NAME_BYTES_MAX {
            return Err(VolumeError::NameTooLong);
        }
        self.with_index(folder, |index| Ok(index.get(name)))
    }

    /// What `look` makes of a folder's names, which are read if need be. The caller holds the names.
    pub(super) fn with_index<T>(&self, folder: Ino, look: impl FnOnce(&mut Index) -> Result<T>) -> Result<T> {
        let cell: Arc<Cell> = self.cell(folder);
        let mut known = cell.index();
        if known.is_none() {
            let pages = self.folder_pages(folder)?;
            let mut index = Index::default();
            for page in 0..pages {
                if !index.add_page(&self.folder_page(folder, page)?) {
                    return Err(damaged_folder(folder, page));
                }
            }
            *known = Some(index);
        }
        let index = known.as_mut().expect("was just read");
        let outcome = look(index);
        self.note_index(&cell, index);
        outcome
    }

    /// Adds an entry; `parent` is the folder's inode, which is written.
    pub(super) fn insert_entry(
        &self,
        change: &Change<'_>,
        folder: Ino,
        parent: &mut Inode,
        name: &[u8],
        ino: Ino,
        kind: Kind,
    ) -> Result<()> {
        self.with_index(folder, |index| {
            let found = index.page_for(name);
            let page = found.unwrap_or(index.pages());
            let mut bytes = match found {
                Some(page) => self.folder_page(folder, page)?,
                None => folder_page::empty_page(),
            };
            let at = folder_page::insert(&mut bytes, name, ino, kind)
                .ok_or_else(|| damaged_folder(folder, page))?;
            change.write_page(PageKey::data(folder, page), 0, &bytes, None)?;
            if found.is_none() {
                parent.size_bytes += PAGE_BYTES as u64;
                parent.pages += 1;
            }
            touch_folder(parent);
            change.put_inode(folder, parent)?;
            index.note_page(page, &bytes);
            index.insert(name, Slot { ino, kind, page, at: at as u16 });
            Ok(())
        })
    }

    pub(super) fn remove_entry(
        &self,
        change: &Change<'_>,
        folder: Ino,
        parent: &mut Inode,
        name: &[u8],
        slot: Slot,
    ) -> Result<()> {
        self.with_index(folder, |index| {
            let mut bytes = self.folder_page(folder, slot.page)?;
            folder_page::remove(&mut bytes, slot.at.into());
            change.write_page(PageKey::data(folder, slot.page), 0, &bytes, None)?;
            touch_folder(parent);
            change.put_inode(folder, parent)?;
            index.note_page(slot.page, &bytes);
            index.remove(name);
            Ok(())
        })
    }

    pub(super) fn retarget_entry(
        &self,
        change: &Change<'_>,
        folder: Ino,
        name: &[u8],
        slot: Slot,
        target: Slot,
    ) -> Result<()> {
        self.with_index(folder, |index| {
            let mut bytes = self.folder_page(folder, slot.page)?;
            folder_page::retarget(&mut bytes, slot.at.into(), target.ino, target.kind);
            change.write_page(PageKey::data(folder, slot.page), 0, &bytes, None)?;
            let mut parent = self.folder(folder)?;
            touch_folder(&mut parent);
            change.put_inode(folder, &parent)?;
            index.insert(name, Slot { ino: target.ino, kind: target.kind, ..slot });
            Ok(())
        })
    }
}

fn list_page(
    folder: Ino,
    page: u32,
    bytes: &PageBytes,
    from: u64,
    visit: &mut dyn FnMut(Listed<'_>) -> ControlFlow<()>,
) -> Result<ControlFlow<()>> {
    let start = u64::from(page) * PAGE_BYTES as u64;
    for entry in folder_page::entries(bytes) {
        let entry = entry.ok_or_else(|| damaged_folder(folder, page))?;
        let at = start + entry.at as u64;
        if let Some((ino, kind)) = entry.target
            && at >= from
            && visit(Listed { name: entry.name, ino, kind, next: at + 1 }).is_break()
        {
            return Ok(ControlFlow::Break(()));
        }
    }
    Ok(ControlFlow::Continue(()))
}

fn touch_folder(inode: &mut Inode) {
    inode.written_at = Time::now();
    inode.changed_at = inode.written_at;
}

fn damaged_folder(folder: Ino, page: u32) -> VolumeError {
    VolumeError::Damaged { key: PageKey::data(folder, page), what: "its entries make no sense".into() }
}
