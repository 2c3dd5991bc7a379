//! What is done with names: looked up, made, moved and removed in folders. `entries` changes the entries of one folder, `rename` moves
//! names; the bytes on flash are in `folder_page`.

mod entries;
mod rename;

pub(crate) use rename::Renamed;

use crate::core::Change;
use crate::error::{Result, VolumeError, if_readable};
use crate::folder_page::NAME_BYTES_MAX;
use crate::inode::{Inode, Kind, Time};
use crate::key::{Ino, PageKey};
use crate::volume::Volume;
use crate::word::PAGE_BYTES;

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
        self.add(folder, name, &[], false, |_| Ok(Inode::new(kind, mode, uid, gid)))
    }

    /// Makes a pipe, a socket or a device: `node` says which, with permissions, owner and group.
    ///
    /// # Errors
    /// As [`Volume::make`]; [`VolumeError::Invalid`] for other kinds.
    pub fn make_node(&self, folder: Ino, name: &[u8], node: &Inode) -> Result<Ino> {
        if !node.kind.is_node() {
            return Err(VolumeError::Invalid("not a pipe, a socket or a device"));
        }
        let mut made = Inode::new(node.kind, node.mode, node.uid, node.gid);
        made.device = if node.kind.is_device() { node.device } else { 0 };
        self.add(folder, name, &[], false, |_| Ok(made))
    }

    /// Makes a symbolic link to `target`.
    ///
    /// # Errors
    /// As [`Volume::make`]; [`VolumeError::NameTooLong`] for a target of more than 4095 bytes.
    pub fn make_symlink(&self, folder: Ino, name: &[u8], target: &[u8], uid: u32, gid: u32) -> Result<Ino> {
        self.add_symlink(folder, name, target, |_| Ok(Inode::new(Kind::Symlink, 0o777, uid, gid)))
    }

    /// As [`Volume::make_symlink`], with what `make` says for this folder.
    pub(crate) fn add_symlink(
        &self,
        folder: Ino,
        name: &[u8],
        target: &[u8],
        make: impl FnOnce(&Inode) -> Result<Inode>,
    ) -> Result<Ino> {
        if target.len() > SYMLINK_BYTES_MAX {
            return Err(VolumeError::NameTooLong);
        }
        if target.is_empty() {
            return Err(VolumeError::NotFound);
        }
        self.add(folder, name, target, false, make)
    }

    /// Gives a name to a new inode, which `make` makes for this folder while nobody can change names and rights. `target` are the
    /// bytes of a symbolic link. If it is to be held, it is before anybody can take the name away.
    pub(crate) fn add(
        &self,
        folder: Ino,
        name: &[u8],
        target: &[u8],
        is_held: bool,
        make: impl FnOnce(&Inode) -> Result<Inode>,
    ) -> Result<Ino> {
        check_name(name)?;
        let _names = self.write_names();
        let mut parent = self.folder(folder)?;
        let mut inode = make(&parent)?;
        if self.slot(folder, name)?.is_some() {
            return Err(VolumeError::Exists);
        }
        let change = self.core().begin()?;
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
        if is_held {
            self.hold(ino);
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
        self.link_if(ino, folder, name, |_| Ok(()))
    }

    /// As [`Volume::link`], if `may` allows it for the folder while nobody can change names and rights.
    pub(crate) fn link_if(
        &self,
        ino: Ino,
        folder: Ino,
        name: &[u8],
        may: impl FnOnce(&Inode) -> Result<()>,
    ) -> Result<()> {
        check_name(name)?;
        let _names = self.write_names();
        may(&self.folder(folder)?)?;
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
        self.unlink_if(folder, name, |_, _| Ok(()))
    }

    /// As [`Volume::unlink`], if `may` allows it for the folder and what the name stands for while nobody can change names and rights.
    pub(crate) fn unlink_if(
        &self,
        folder: Ino,
        name: &[u8],
        may: impl FnOnce(&Inode, &Inode) -> Result<()>,
    ) -> Result<()> {
        let _names = self.write_names();
        let slot = self.slot(folder, name)?.ok_or(VolumeError::NotFound)?;
        may(&self.folder(folder)?, &self.core().inode(slot.ino)?)?;
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
        self.remove_folder_if(folder, name, |_, _| Ok(()))
    }

    /// As [`Volume::remove_folder`], if `may` allows it, as in [`Volume::unlink_if`].
    pub(crate) fn remove_folder_if(
        &self,
        folder: Ino,
        name: &[u8],
        may: impl FnOnce(&Inode, &Inode) -> Result<()>,
    ) -> Result<()> {
        let _names = self.write_names();
        let slot = self.slot(folder, name)?.ok_or(VolumeError::NotFound)?;
        may(&self.folder(folder)?, &self.core().inode(slot.ino)?)?;
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

    /// What a symbolic link says.
    ///
    /// # Errors
    /// [`VolumeError::Invalid`] if the file is not a symbolic link.
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

    pub(super) fn drop_link(&self, change: &Change<'_>, ino: Ino) -> Result<()> {
        let inode = change.update_inode(ino, |inode| {
            inode.links = inode.links.saturating_sub(1);
            inode.changed_at = Time::now();
        })?;
        if inode.links > 0 { Ok(()) } else { self.forget_file(change, ino, &inode) }
    }

    pub(super) fn drop_folder(&self, change: &Change<'_>, ino: Ino) -> Result<()> {
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

    /// Holds a file that has a name, by its number alone. Whether that is the file that had the number before, its generation says.
    ///
    /// # Errors
    /// [`VolumeError::NotFound`] if no file with a name has the number; then nothing is held.
    pub fn hold_by_number(&self, ino: Ino) -> Result<()> {
        let _names = self.read_names();
        let inode = self.core().inode(ino)?;
        if inode.links == 0 || inode.kind == Kind::Xattrs {
            return Err(VolumeError::NotFound);
        }
        self.hold(ino);
        Ok(())
    }

    /// Holds the folder that a folder is in, and returns it. The root folder is in itself.
    ///
    /// # Errors
    /// [`VolumeError::NotFound`] if it has no name, [`VolumeError::NotAFolder`]; then nothing is held.
    pub fn hold_parent(&self, folder: Ino) -> Result<Ino> {
        let _names = self.read_names();
        let inode = self.folder(folder)?;
        if inode.links == 0 {
            return Err(VolumeError::NotFound);
        }
        let parent = if folder == Ino::ROOT_FOLDER { folder } else { inode.parent };
        self.hold(parent);
        Ok(parent)
    }

    pub(crate) fn free_file(&self, change: &Change<'_>, ino: Ino, inode: &Inode) -> Result<()> {
        self.free_xattrs(change, ino, inode)?;
        if inode.size_bytes > 0 || inode.pages > 0 {
            let end = inode.end_page().max(1);
            let taken = self.core().take_pages(ino);
            self.free_pages(change, &taken, ino, inode, 0..end)?;
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

    /// Frees all files without a name: the handles that kept them are gone.
    pub(crate) fn free_nameless(&self) -> Result<()> {
        let _names = self.write_names();
        loop {
            // What cannot be read keeps its room, and those behind it in the list.
            if if_readable(self.free_first_nameless())? != Some(true) {
                return Ok(());
            }
        }
    }

    /// Frees the first file of the list; says whether there was one.
    fn free_first_nameless(&self) -> Result<bool> {
        let ino = Ino(self.core().inodes_header()?.first_nameless);
        if ino.0 == 0 {
            return Ok(false);
        }
        let inode = self.core().inode(ino)?;
        let change = self.core().begin()?;
        change.forget_nameless(ino, &inode)?;
        self.free_file(&change, ino, &inode)?;
        Ok(true)
    }
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

#[cfg(test)]
mod tests {
    use aquifer_device::MemoryDevice;

    use super::*;
    use crate::medium::DeviceMedium;
    use crate::{OpenOptions, SetXattr};

    #[test]
    fn files_are_held_by_their_numbers_while_they_have_names() {
        let device = std::sync::Arc::new(MemoryDevice::new(16 << 20, 4096));
        let medium = || Box::new(DeviceMedium::new(device.clone(), 256).expect("a medium"));
        Volume::create(medium(), (0, 0)).expect("it is made");
        let volume = Volume::open(medium(), OpenOptions::default()).expect("it opens");
        let make =
            |folder, name: &[u8], kind| volume.make(folder, name, kind, 0o700, 0, 0).expect("it is made");
        let outer = make(Ino::ROOT_FOLDER, b"outer", Kind::Folder);
        let inner = make(outer, b"inner", Kind::Folder);
        let file = make(inner, b"file", Kind::File);
        volume.set_xattr(file, b"user.name", b"value", SetXattr::Any).expect("it is set");
        assert_eq!(volume.hold_parent(inner), Ok(outer));
        assert_eq!(volume.hold_parent(Ino::ROOT_FOLDER), Ok(Ino::ROOT_FOLDER));
        assert_eq!(volume.hold_parent(file), Err(VolumeError::NotAFolder));
        // Numbers behind the last one: of the attributes, and of nothing.
        for number in file.0 + 1..file.0 + 200 {
            assert_eq!(volume.hold_by_number(Ino(number)), Err(VolumeError::NotFound));
        }
        volume.hold_by_number(file).expect("it has a name");
        volume.unlink(inner, b"file").expect("it goes");
        assert_eq!(volume.hold_by_number(file), Err(VolumeError::NotFound));
        volume.let_go(file).expect("it is freed");
        assert_eq!(volume.hold_by_number(file), Err(VolumeError::NotFound));
    }
}
