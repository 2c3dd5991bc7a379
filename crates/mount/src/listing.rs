//! Entries of folders.

use std::ffi::{OsStr, OsString};
use std::ops::ControlFlow;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use aquifer_volume::{Ino, Inode, Kind, Result, VolumeError};
use fuser::{Generation, INodeNo, ReplyDirectory, ReplyDirectoryPlus};

use crate::attributes::{attributes_of, ino_of, number_of, type_of};
use crate::server::{Server, VALID};

/// Entries that are read from the volume at once.
const BATCH: usize = 256;
/// Places before those of the volume's listing: of `.` and `..`.
const DOTS: u64 = 2;

/// An entry, and where a listing goes on behind it.
struct Entry {
    name: OsString,
    ino: Ino,
    kind: Kind,
    next: u64,
}

impl Entry {
    fn is_dot(&self) -> bool {
        self.next <= DOTS
    }
}

impl Server {
    /// Entries of a folder from a place on; none at its end.
    fn entries(&self, folder: Ino, from: u64) -> Result<Vec<Entry>> {
        let mut entries = Vec::new();
        if from < DOTS {
            let inode = self.volume.inode(folder)?;
            let dots = [(".", folder), ("..", inode.parent)].into_iter().zip(1..).skip(from as usize);
            entries.extend(dots.map(|((name, ino), next)| Entry {
                name: name.into(),
                ino,
                kind: Kind::Folder,
                next,
            }));
        }
        self.volume.list(folder, from.saturating_sub(DOTS), |listed| {
            let name = OsString::from_vec(listed.name.to_vec());
            entries.push(Entry { name, ino: listed.ino, kind: listed.kind, next: listed.next + DOTS });
            if entries.len() < BATCH { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        Ok(entries)
    }

    /// Gives entries to `put` until it has enough.
    fn walk(
        &self,
        folder: INodeNo,
        mut from: u64,
        mut put: impl FnMut(&Entry) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        let folder = ino_of(folder)?;
        loop {
            let entries = self.entries(folder, from)?;
            let Some(last) = entries.last() else { return Ok(()) };
            from = last.next;
            for entry in &entries {
                if put(entry)?.is_break() {
                    return Ok(());
                }
            }
        }
    }

    /// Fills a reply with names.
    pub fn list_names(&self, folder: INodeNo, from: u64, reply: &mut ReplyDirectory) -> Result<()> {
        self.walk(folder, from, |entry| {
            let is_full = reply.add(number_of(entry.ino), entry.next, type_of(entry.kind), &entry.name);
            Ok(if is_full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })
    }

    /// Fills a reply with names and what `stat` says of them. The kernel is told of all but `.` and `..`.
    ///
    /// # Errors
    /// Only if the reply is empty: what it holds must reach the kernel, which counts it.
    pub fn list_inodes(&self, folder: INodeNo, from: u64, reply: &mut ReplyDirectoryPlus) -> Result<()> {
        let parent = ino_of(folder)?;
        let mut told = 0;
        let outcome = self.walk(folder, from, |entry| {
            let Some((ino, inode)) = self.held(parent, entry)? else { return Ok(ControlFlow::Continue(())) };
            let generation = Generation(inode.generation.into());
            let is_full = reply.add(
                number_of(ino),
                entry.next,
                &entry.name,
                &VALID,
                &attributes_of(ino, &inode),
                generation,
            );
            told += u64::from(!is_full);
            match (entry.is_dot(), is_full) {
                (true, _) => {}
                (false, true) => self.volume.let_go(ino)?,
                (false, false) => self.lookups.add(&self.volume, ino)?,
            }
            Ok(if is_full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        });
        if told > 0 { Ok(()) } else { outcome }
    }

    /// The file of an entry, held unless it is `.` or `..`; `None` if its name is gone.
    fn held(&self, parent: Ino, entry: &Entry) -> Result<Option<(Ino, Inode)>> {
        if entry.is_dot() {
            return Ok(Some((entry.ino, self.volume.inode(entry.ino)?)));
        }
        let name: &OsStr = &entry.name;
        match self.volume.lookup_and_hold(parent, name.as_bytes()) {
            Ok(ino) => match self.volume.inode(ino) {
                Ok(inode) => Ok(Some((ino, inode))),
                Err(error) => {
                    self.volume.let_go(ino)?;
                    Err(error)
                }
            },
            Err(VolumeError::NotFound) => Ok(None),
            Err(error) => Err(error),
        }
    }
}
