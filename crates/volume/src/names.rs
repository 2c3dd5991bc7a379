//! Names: folders, and what they name.

use std::ops::ControlFlow;

use crate::core::Change;
use crate::error::{Result, VolumeError};
use crate::folder::{self, NAME_BYTES_MAX};
use crate::index::{Index, Slot};
use crate::inode::{Inode, Kind, Time};
use crate::inodes::Cell;
use crate::key::{Ino, PageKey};
use crate::volume::Volume;
use crate::word::{PAGE_BYTES, PageBytes};

/// Most names of one file.
const LINKS_MAX: u32 = 65_000;
/// Longest path in a symbolic link.
pub const SYMLINK_BYTES_MAX: usize = PAGE_BYTES - 1;

/// An entry of a folder, as a listing gives it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Listed<'a> {
    /// The name.
    pub name: &'a [u8],
    /// What it stands for.
    pub ino: Ino,
    /// Which kind that is.
    pub kind: Kind,
    /// Where a listing goes on behind it.
    pub next: u64,
}

/// What to do when the new name of a file is taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IfTaken {
    /// What has it loses it.
    Replace,
    /// Nothing: it is an error.
    Fail,
    /// The two change names.
    Exchange,
}

impl Volume {
    /// What a name in a folder stands for.
    ///
    /// # Errors
    /// [`VolumeError::NotFound`], [`VolumeError::NotAFolder`], [`VolumeError::NameTooLong`].
    pub fn lookup(&self, folder: Ino, name: &[u8]) -> Result<Ino> {
        let _names = self.read_names();
        self.slot(folder, name)?.map(|slot| slot.ino).ok_or(VolumeError::NotFound)
    }

    /// As [`Volume::lookup`], and holds what the name stands for before anybody can take the name away.
    ///
    /// # Errors
    /// As [`Volume::lookup`]; then nothing is held.
    pub fn lookup_and_hold(&self, folder: Ino, name: &[u8]) -> Result<Ino> {
        let _names = self.read_names();
        let slot = self.slot(folder, name)?.ok_or(VolumeError::NotFound)?;
        self.hold(slot.ino);
        Ok(slot.ino)
    }

    /// Makes a file or an empty folder.
    ///
    /// # Errors
    /// [`VolumeError::Exists`], [`VolumeError::NoSpace`], those of [`Volume::lookup`].
    pub fn make(&self, folder: Ino, name: &[u8], kind: Kind, mode: u16, uid: u32, gid: u32) -> Result<Ino> {
        self.add(folder, name, Inode::new(kind, mode, uid, gid), &[])
    }

    /// Makes a symbolic link to `target`.
    ///
    /// # Errors
    /// As [`Volume::make`]; [`VolumeError::NameTooLong`] for a target of more than 4095 bytes.
    pub fn make_symlink(&self, folder: Ino, name: &[u8], target: &[u8], uid: u32, gid: u32) -> Result<Ino> {
        if target.len() > SYMLINK_BYTES_MAX {
            return Err(VolumeError::NameTooLong);
        }
        if target.is_empty() {
            return Err(VolumeError::NotFound);
        }
        self.add(folder, name, Inode::new(Kind::Symlink, 0o777, uid, gid), target)
    }

    fn add(&self, folder: Ino, name: &[u8], mut inode: Inode, target: &[u8]) -> Result<Ino> {
        check_name(name)?;
        let _names = self.write_names();
        if self.slot(folder, name)?.is_some() {
            return Err(VolumeError::Exists);
        }
        let change = self.core().begin()?;
        let mut parent = self.folder(folder)?;
        if parent.links == 0 {
            return Err(VolumeError::NotFound);
        }
        if inode.kind == Kind::Folder {
            if parent.links >= LINKS_MAX {
                return Err(VolumeError::TooManyLinks);
            }
            parent.links += 1;
        }
        (inode.parent, inode.size_bytes) = (folder, target.len() as u64);
        let ino = change.make_inode(inode)?;
        let filled = self.fill_link(&change, ino, &mut inode, target);
        let named =
            filled.and_then(|()| self.insert_entry(&change, folder, &mut parent, name, ino, inode.kind));
        if let Err(error) = named {
            self.free_file(&change, ino, &inode)?;
            return Err(error);
        }
        Ok(ino)
    }

    fn fill_link(&self, change: &Change<'_>, ino: Ino, inode: &mut Inode, target: &[u8]) -> Result<()> {
        if target.is_empty() {
            return Ok(());
        }
        change.write_page(PageKey::data(ino, 0), 0, target, None)?;
        inode.pages = 1;
        change.put_inode(ino, inode)
    }

    /// Gives a file another name.
    ///
    /// # Errors
    /// [`VolumeError::Exists`]; [`VolumeError::IsAFolder`]; those of [`Volume::lookup`].
    pub fn link(&self, ino: Ino, folder: Ino, name: &[u8]) -> Result<()> {
        check_name(name)?;
        let _names = self.write_names();
        let inode = self.core().inode(ino)?;
        match inode.kind {
            Kind::Folder => return Err(VolumeError::NotOwner),
            _ if inode.links == 0 => return Err(VolumeError::NotFound),
            _ if inode.links >= LINKS_MAX => return Err(VolumeError::TooManyLinks),
            _ => {}
        }
        if self.slot(folder, name)?.is_some() {
            return Err(VolumeError::Exists);
        }
        let change = self.core().begin()?;
        let mut parent = self.folder(folder)?;
        self.insert_entry(&change, folder, &mut parent, name, ino, inode.kind)?;
        let gain = |inode: &mut Inode| {
            inode.links += 1;
            inode.changed_at = Time::now();
        };
        change.update_inode(ino, gain).map(drop)
    }

    /// Takes a name away from a file or symbolic link; its bytes go with the last name, once nobody holds it.
    ///
    /// # Errors
    /// [`VolumeError::IsAFolder`]; those of [`Volume::lookup`].
    pub fn unlink(&self, folder: Ino, name: &[u8]) -> Result<()> {
        let _names = self.write_names();
        let slot = self.slot(folder, name)?.ok_or(VolumeError::NotFound)?;
        if slot.kind == Kind::Folder {
            return Err(VolumeError::IsAFolder);
        }
        let change = self.core().begin()?;
        let mut parent = self.folder(folder)?;
        self.remove_entry(&change, folder, &mut parent, name, slot)?;
        self.drop_link(&change, slot.ino)
    }

    /// Removes an empty folder.
    ///
    /// # Errors
    /// [`VolumeError::NotAFolder`], [`VolumeError::NotEmpty`]; those of [`Volume::lookup`].
    pub fn remove_folder(&self, folder: Ino, name: &[u8]) -> Result<()> {
        let _names = self.write_names();
        let slot = self.slot(folder, name)?.ok_or(VolumeError::NotFound)?;
        if slot.kind != Kind::Folder {
            return Err(VolumeError::NotAFolder);
        }
        if !self.with_index(slot.ino, |index| Ok(index.is_empty()))? {
            return Err(VolumeError::NotEmpty);
        }
        let change = self.core().begin()?;
        let mut parent = self.folder(folder)?;
        parent.links = parent.links.saturating_sub(1);
        self.remove_entry(&change, folder, &mut parent, name, slot)?;
        self.drop_folder(&change, slot.ino)
    }

    /// Changes the name of a file or folder; what had the new name loses it in the same moment.
    ///
    /// # Errors
    /// [`VolumeError::Invalid`] for a folder that would come into itself; [`VolumeError::NotEmpty`], [`VolumeError::IsAFolder`],
    /// [`VolumeError::NotAFolder`] for what has the new name; those of [`Volume::lookup`].
    pub fn rename(&self, from: (Ino, &[u8]), to: (Ino, &[u8]), if_taken: IfTaken) -> Result<()> {
        check_name(from.1)?;
        check_name(to.1)?;
        let _names = self.write_names();
        let moved = self.slot(from.0, from.1)?.ok_or(VolumeError::NotFound)?;
        let taken = self.slot(to.0, to.1)?;
        self.check_rename(moved, to.0, taken, if_taken)?;
        if if_taken == IfTaken::Exchange {
            let taken = taken.ok_or(VolumeError::NotFound)?;
            self.check_not_below(taken, from.0)?;
            return self.exchange(from, moved, to, taken);
        }
        if taken.is_some_and(|taken| taken.ino == moved.ino) {
            return Ok(());
        }
        let change = self.core().begin()?;
        let mut source = self.folder(from.0)?;
        let is_folder = moved.kind == Kind::Folder;
        match taken {
            Some(taken) => {
                self.retarget_entry(&change, to.0, to.1, taken, moved)?;
                match taken.kind {
                    Kind::Folder => self.drop_folder(&change, taken.ino)?,
                    _ => self.drop_link(&change, taken.ino)?,
                }
            }
            None => {
                let mut target = self.folder(to.0)?;
                if is_folder && to.0 != from.0 {
                    target.links += 1;
                }
                self.insert_entry(&change, to.0, &mut target, to.1, moved.ino, moved.kind)?;
            }
        }
        if from.0 == to.0 {
            source = self.folder(from.0)?;
        }
        let loses_link = is_folder && (from.0 != to.0 || taken.is_some());
        source.links = source.links.saturating_sub(loses_link.into());
        self.remove_entry(&change, from.0, &mut source, from.1, moved)?;
        self.note_moved(&change, moved, to.0)
    }

    fn check_rename(&self, moved: Slot, to: Ino, taken: Option<Slot>, if_taken: IfTaken) -> Result<()> {
        self.check_not_below(moved, to)?;
        self.folder(to)?;
        let Some(taken) = taken else { return Ok(()) };
        match (if_taken, moved.kind, taken.kind) {
            (IfTaken::Fail, ..) => Err(VolumeError::Exists),
            (IfTaken::Exchange, ..) => Ok(()),
            _ if taken.ino == moved.ino => Ok(()),
            (_, Kind::Folder, Kind::Folder) => {
                if self.with_index(taken.ino, |index| Ok(index.is_empty()))? {
                    Ok(())
                } else {
                    Err(VolumeError::NotEmpty)
                }
            }
            (_, Kind::Folder, _) => Err(VolumeError::NotAFolder),
            (_, _, Kind::Folder) => Err(VolumeError::IsAFolder),
            _ => Ok(()),
        }
    }

    /// A folder cannot come into itself.
    fn check_not_below(&self, moved: Slot, to: Ino) -> Result<()> {
        let mut at = to;
        while moved.kind == Kind::Folder {
            if at == moved.ino {
                return Err(VolumeError::Invalid("a folder cannot be moved into itself"));
            }
            if at == Ino::ROOT_FOLDER {
                break;
            }
            at = self.core().inode(at)?.parent;
        }
        Ok(())
    }

    fn exchange(&self, from: (Ino, &[u8]), moved: Slot, to: (Ino, &[u8]), taken: Slot) -> Result<()> {
        let change = self.core().begin()?;
        self.retarget_entry(&change, to.0, to.1, taken, moved)?;
        self.retarget_entry(&change, from.0, from.1, moved, taken)?;
        if from.0 != to.0 {
            for (folder, gains, loses) in [(from.0, taken, moved), (to.0, moved, taken)] {
                let mut inode = self.folder(folder)?;
                inode.links += u32::from(gains.kind == Kind::Folder);
                inode.links = inode.links.saturating_sub((loses.kind == Kind::Folder).into());
                change.put_inode(folder, &inode)?;
            }
        }
        self.note_moved(&change, moved, to.0)?;
        self.note_moved(&change, taken, from.0)
    }

    fn note_moved(&self, change: &Change<'_>, moved: Slot, folder: Ino) -> Result<()> {
        let note = |inode: &mut Inode| {
            inode.parent = folder;
            inode.changed_at = Time::now();
        };
        change.update_inode(moved.ino, note).map(drop)
    }

    /// What a symbolic link says.
    ///
    /// # Errors
    /// [`VolumeError::Invalid`] if it is none.
    pub fn read_link(&self, ino: Ino) -> Result<Vec<u8>> {
        let inode = self.core().inode(ino)?;
        if inode.kind != Kind::Symlink {
            return Err(VolumeError::Invalid("not a symbolic link"));
        }
        let key = PageKey::data(ino, 0);
        let mut target = vec![0; (inode.size_bytes as usize).min(SYMLINK_BYTES_MAX)];
        self.core().with_page(key, None, |_, state| state.read(key, 0, &mut target))?;
        Ok(target)
    }

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

    fn folder_pages(&self, folder: Ino) -> Result<u32> {
        Ok((self.folder(folder)?.size_bytes / PAGE_BYTES as u64) as u32)
    }

    fn folder_page(&self, folder: Ino, page: u32) -> Result<PageBytes> {
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

    fn slot(&self, folder: Ino, name: &[u8]) -> Result<Option<Slot>> {
        if name.len() > NAME_BYTES_MAX {
            return Err(VolumeError::NameTooLong);
        }
        self.with_index(folder, |index| Ok(index.get(name)))
    }

    /// What `look` makes of a folder's names, which are read if need be. The caller holds the names.
    fn with_index<T>(&self, folder: Ino, look: impl FnOnce(&mut Index) -> Result<T>) -> Result<T> {
        let cell: std::sync::Arc<Cell> = self.cell(folder);
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
        look(known.as_mut().expect("was just read"))
    }

    /// Adds an entry; `parent` is the folder's inode, which is written.
    fn insert_entry(
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
                None => folder::empty_page(),
            };
            let at =
                folder::insert(&mut bytes, name, ino, kind).ok_or_else(|| damaged_folder(folder, page))?;
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

    fn remove_entry(
        &self,
        change: &Change<'_>,
        folder: Ino,
        parent: &mut Inode,
        name: &[u8],
        slot: Slot,
    ) -> Result<()> {
        self.with_index(folder, |index| {
            let mut bytes = self.folder_page(folder, slot.page)?;
            folder::remove(&mut bytes, slot.at.into());
            change.write_page(PageKey::data(folder, slot.page), 0, &bytes, None)?;
            touch_folder(parent);
            change.put_inode(folder, parent)?;
            index.note_page(slot.page, &bytes);
            index.remove(name);
            Ok(())
        })
    }

    fn retarget_entry(
        &self,
        change: &Change<'_>,
        folder: Ino,
        name: &[u8],
        slot: Slot,
        target: Slot,
    ) -> Result<()> {
        self.with_index(folder, |index| {
            let mut bytes = self.folder_page(folder, slot.page)?;
            folder::retarget(&mut bytes, slot.at.into(), target.ino, target.kind);
            change.write_page(PageKey::data(folder, slot.page), 0, &bytes, None)?;
            let mut parent = self.folder(folder)?;
            touch_folder(&mut parent);
            change.put_inode(folder, &parent)?;
            index.insert(name, Slot { ino: target.ino, kind: target.kind, ..slot });
            Ok(())
        })
    }

    fn drop_link(&self, change: &Change<'_>, ino: Ino) -> Result<()> {
        let inode = change.update_inode(ino, |inode| {
            inode.links = inode.links.saturating_sub(1);
            inode.changed_at = Time::now();
        })?;
        if inode.links > 0 { Ok(()) } else { self.forget_file(change, ino, &inode) }
    }

    fn drop_folder(&self, change: &Change<'_>, ino: Ino) -> Result<()> {
        let inode = change.update_inode(ino, |inode| inode.links = 0)?;
        self.forget_file(change, ino, &inode)
    }

    /// Frees a file that has no name any more, now or when nobody holds it.
    fn forget_file(&self, change: &Change<'_>, ino: Ino, inode: &Inode) -> Result<()> {
        if self.cell(ino).is_held() {
            return change.note_nameless(ino);
        }
        self.free_file(change, ino, inode)
    }

    fn free_file(&self, change: &Change<'_>, ino: Ino, inode: &Inode) -> Result<()> {
        if inode.size_bytes > 0 || inode.pages > 0 {
            let last = inode.size_bytes.div_ceil(PAGE_BYTES as u64).saturating_sub(1);
            self.free_pages(change, ino, inode, 0, u32::try_from(last).unwrap_or(u32::MAX))?;
        }
        change.free_inode(ino, inode)?;
        self.forget_cell(ino);
        Ok(())
    }

    /// Keeps a file's bytes even if it loses its last name, until [`Volume::let_go`].
    pub fn hold(&self, ino: Ino) {
        self.cell(ino).hold();
    }

    /// Ends what [`Volume::hold`] began. The bytes of a file without a name are freed when nobody holds it any more.
    ///
    /// # Errors
    /// They could not be freed now; they are when the volume is opened next.
    pub fn let_go(&self, ino: Ino) -> Result<()> {
        let cell = self.cell(ino);
        if !cell.let_go() || self.core().is_read_only() {
            return Ok(());
        }
        let _names = self.write_names();
        match self.core().inode(ino) {
            Ok(inode) if inode.links == 0 && !cell.is_held() => {
                let change = self.core().begin()?;
                change.forget_nameless(ino, &inode)?;
                self.free_file(&change, ino, &inode)
            }
            Ok(_) | Err(VolumeError::NotFound) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Frees all files without a name: whoever held them is gone.
    pub(crate) fn free_nameless(&self) -> Result<()> {
        let _names = self.write_names();
        loop {
            let ino = Ino(self.core().inodes_header()?.first_nameless);
            if ino.0 == 0 {
                return Ok(());
            }
            let inode = self.core().inode(ino)?;
            let change = self.core().begin()?;
            change.forget_nameless(ino, &inode)?;
            self.free_file(&change, ino, &inode)?;
        }
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
    for entry in folder::entries(bytes) {
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

/// Whether a name can be given.
///
/// # Errors
/// [`VolumeError::BadName`], [`VolumeError::NameTooLong`].
pub fn check_name(name: &[u8]) -> Result<()> {
    if name.len() > NAME_BYTES_MAX {
        return Err(VolumeError::NameTooLong);
    }
    if name.is_empty() || name == b"." || name == b".." || name.contains(&b'/') || name.contains(&0) {
        return Err(VolumeError::BadName);
    }
    Ok(())
}

fn touch_folder(inode: &mut Inode) {
    inode.written_at = Time::now();
    inode.changed_at = inode.written_at;
}

fn damaged_folder(folder: Ino, page: u32) -> VolumeError {
    VolumeError::Damaged { key: PageKey::data(folder, page), what: "its entries make no sense".into() }
}
