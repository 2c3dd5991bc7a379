//! New names for what has one.

use super::{IfTaken, check_name};
use crate::core::Change;
use crate::error::{Result, VolumeError};
use crate::index::Slot;
use crate::inode::{Inode, Kind, Time};
use crate::key::Ino;
use crate::volume::Volume;

/// What a new name concerns.
pub(crate) struct Renamed {
    /// The folder of the old name.
    pub from: Inode,
    /// What has it.
    pub moved: Inode,
    /// The folder of the new name.
    pub to: Inode,
    /// What has that one.
    pub taken: Option<Inode>,
}

impl Volume {
    /// Changes the name of a file or folder; what had the new name loses it in the same moment.
    ///
    /// # Errors
    /// [`VolumeError::Invalid`] for a folder that would come into itself; [`VolumeError::NotEmpty`], [`VolumeError::IsAFolder`],
    /// [`VolumeError::NotAFolder`] for what has the new name; those of [`Volume::lookup`].
    pub fn rename(&self, from: (Ino, &[u8]), to: (Ino, &[u8]), if_taken: IfTaken) -> Result<()> {
        self.rename_if(from, to, if_taken, |_| Ok(()))
    }

    /// As [`Volume::rename`], if `may` allows it while nobody can change names and rights.
    pub(crate) fn rename_if(
        &self,
        from: (Ino, &[u8]),
        to: (Ino, &[u8]),
        if_taken: IfTaken,
        may: impl FnOnce(&Renamed) -> Result<()>,
    ) -> Result<()> {
        check_name(from.1)?;
        check_name(to.1)?;
        let _names = self.write_names();
        let moved = self.slot(from.0, from.1)?.ok_or(VolumeError::NotFound)?;
        let taken = self.slot(to.0, to.1)?;
        may(&Renamed {
            from: self.folder(from.0)?,
            moved: self.core().inode(moved.ino)?,
            to: self.folder(to.0)?,
            taken: taken.map(|taken| self.core().inode(taken.ino)).transpose()?,
        })?;
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
        if moved.kind != Kind::Folder {
            return Ok(());
        }
        let mut at = to;
        loop {
            if at == moved.ino {
                return Err(VolumeError::Invalid("a folder cannot be moved into itself"));
            }
            if at == Ino::ROOT_FOLDER {
                return Ok(());
            }
            at = self.core().inode(at)?.parent;
        }
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
}
