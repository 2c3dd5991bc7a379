//! Files in a volume.

use std::ops::{ControlFlow, Range};
use std::path::Path;

use aquifer_volume::path::Last;
use aquifer_volume::{IfTaken, Inode, Kind, OpenFile, OpenHow, PAGE_BYTES, SetTime, Volume, VolumeError};

use super::{Meta, Sink, Source, Tree};
use crate::error::Error;
use crate::volume::opened::{self, Access};
use crate::volume::place::Place;

/// Files in a volume.
#[derive(Clone, Copy)]
pub struct VolumeTree<'a> {
    access: &'a Access<'a>,
    volume: &'a Path,
}

impl<'a> VolumeTree<'a> {
    /// What is in the volume at `volume`.
    pub fn new(access: &'a Access<'a>, volume: &'a Path) -> Self {
        VolumeTree { access, volume }
    }

    fn failed(&self, path: &[u8]) -> impl FnOnce(VolumeError) -> Error {
        opened::failed(self.shown(path))
    }

    fn set(&self, access: &Access<'_>, name: &[u8], meta: &Meta) -> Result<Inode, VolumeError> {
        access.chown(name, Last::Name, Some(meta.uid), Some(meta.gid))?;
        let ino = access.find(name, Last::Name)?;
        if meta.kind != Some(Kind::Symlink) {
            access.chmod_ino(ino, meta.mode)?;
        }
        access.set_times_ino(ino, SetTime::To(meta.read_at), SetTime::To(meta.written_at))
    }
}

fn meta_of(inode: &Inode) -> Meta {
    Meta {
        kind: (!inode.kind.is_node()).then_some(inode.kind),
        stored_bytes: inode.size_bytes.min(inode.pages * PAGE_BYTES as u64),
        mode: inode.mode,
        uid: inode.uid,
        gid: inode.gid,
        read_at: inode.read_at,
        written_at: inode.written_at,
    }
}

impl Tree for VolumeTree<'_> {
    fn shown(&self, path: &[u8]) -> String {
        Place { volume: self.volume.to_owned(), path: path.to_vec() }.shown()
    }

    fn look(&self, path: &[u8], last: Last) -> Result<Option<Meta>, Error> {
        match self.access.stat(path, last) {
            Ok((_, inode)) => Ok(Some(meta_of(&inode))),
            Err(VolumeError::NotFound) => Ok(None),
            Err(error) => Err(self.failed(path)(error)),
        }
    }

    fn names(&self, path: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
        let mut names = Vec::new();
        let listed = self.access.list(path, 0, |entry| {
            names.push(entry.name.to_vec());
            ControlFlow::Continue(())
        });
        listed.map_err(self.failed(path))?;
        names.sort_unstable();
        Ok(names)
    }

    fn target(&self, path: &[u8]) -> Result<Vec<u8>, Error> {
        self.access.read_link(path).map_err(self.failed(path))
    }

    fn source(&self, path: &[u8]) -> Result<Box<dyn Source + '_>, Error> {
        let file = self.access.open(path, &OpenHow::READ).map_err(self.failed(path))?;
        Ok(Box::new(VolumeSource { file, volume: self.access.volume(), name: self.shown(path) }))
    }

    fn sink(&self, path: &[u8], mode: u16) -> Result<Box<dyn Sink + '_>, Error> {
        let found = self.access.resolve(path, Last::Follow).map_err(self.failed(path))?;
        let (folder, name) = match found.place {
            Some(place) if !found.is_folder_meant => place,
            _ => return Err(self.failed(path)(VolumeError::IsAFolder)),
        };
        let access = self.access.from(folder);
        // Another process that copies to the same folder takes another number.
        let (temporary, file) = (0..u32::MAX)
            .map(|number| format!(".aquifer-copy-{number}").into_bytes())
            .find_map(|temporary| match access.open(&temporary, &OpenHow::make_new(mode)) {
                Err(VolumeError::Exists) => None,
                opened => Some(opened.map(|file| (temporary, file))),
            })
            .unwrap_or(Err(VolumeError::Exists))
            .map_err(self.failed(path))?;
        Ok(Box::new(VolumeSink {
            tree: *self,
            access,
            file,
            temporary: Some(temporary),
            name,
            shown: self.shown(path),
        }))
    }

    fn make_folder(&self, path: &[u8], mode: u16) -> Result<(), Error> {
        self.access.make_folder(path, mode).map(drop).map_err(self.failed(path))
    }

    fn make_symlink(&self, target: &[u8], path: &[u8]) -> Result<(), Error> {
        match self.access.unlink(path) {
            Ok(()) | Err(VolumeError::NotFound) => {}
            Err(error) => return Err(self.failed(path)(error)),
        }
        self.access.make_symlink(target, path).map(drop).map_err(self.failed(path))
    }

    fn set_meta(&self, path: &[u8], meta: &Meta) -> Result<(), Error> {
        self.set(self.access, path, meta).map(drop).map_err(self.failed(path))
    }
}

struct VolumeSource<'a> {
    file: OpenFile<&'a Volume>,
    volume: &'a Volume,
    name: String,
}

impl Source for VolumeSource<'_> {
    fn ranges(&mut self, from: u64) -> Result<Vec<Range<u64>>, Error> {
        /// Few enough to keep, many enough that asking for them costs little.
        const RANGES_AT_ONCE: usize = 4096;
        self.volume.data_ranges(self.file.ino(), from, RANGES_AT_ONCE).map_err(opened::failed(&self.name))
    }

    fn read(&mut self, offset: u64, bytes: &mut [u8]) -> Result<usize, Error> {
        self.file.read(offset, bytes).map_err(opened::failed(&self.name))
    }

    fn size_bytes(&mut self) -> Result<u64, Error> {
        Ok(self.file.inode().map_err(opened::failed(&self.name))?.size_bytes)
    }
}

struct VolumeSink<'a> {
    tree: VolumeTree<'a>,
    /// Paths begin in the file's folder.
    access: Access<'a>,
    file: OpenFile<&'a Volume>,
    /// Its name until it is finished.
    temporary: Option<Vec<u8>>,
    name: Vec<u8>,
    shown: String,
}

impl Sink for VolumeSink<'_> {
    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        let mut done = 0;
        while done < bytes.len() {
            // When the volume is full, the first attempt writes what there is room for, the next says so.
            let written = self.file.write(offset + done as u64, &bytes[done..]);
            done += written.map_err(opened::failed(&self.shown))?;
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>, size_bytes: u64, meta: Option<&Meta>) -> Result<(), Error> {
        let temporary = self.temporary.clone().expect("it is finished once");
        self.file
            .truncate(size_bytes)
            .and_then(|()| {
                meta.map_or(Ok(()), |meta| self.tree.set(&self.access, &temporary, meta).map(drop))
            })
            .and_then(|()| self.access.rename(&temporary, &self.name, IfTaken::Replace))
            .map_err(opened::failed(&self.shown))?;
        self.temporary = None;
        Ok(())
    }
}

impl Drop for VolumeSink<'_> {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            // The error that led here says more than a failure to clean up could.
            let _ = self.access.unlink(temporary);
        }
    }
}
