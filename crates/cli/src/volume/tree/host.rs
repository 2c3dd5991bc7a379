//! Files of the host.

use std::ffi::OsStr;
use std::fs::{self, File, Metadata, Permissions};
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, lchown, symlink};
use std::path::{Path, PathBuf};

use aquifer_volume::path::Last;
use aquifer_volume::{Kind, Time};
use rustix::fs::{AtFlags, CWD, SeekFrom, Timespec, Timestamps, seek, utimensat};
use rustix::io::Errno;
use tempfile::NamedTempFile;

use super::{Meta, Sink, Source, Tree};
use crate::error::Error;

/// Rights of owner and group that a file lends.
const LENT: u16 = 0o6000;
/// What the system counts the blocks of a file in.
const BLOCK_BYTES: u64 = 512;

/// Files of the host.
#[derive(Clone, Copy, Debug)]
pub struct HostTree;

fn path_of(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

fn failed(path: &Path) -> impl Fn(io::Error) -> Error {
    move |error| Error::File { path: path.to_owned(), error }
}

fn meta_of(metadata: &Metadata) -> Meta {
    let kind = metadata.file_type();
    let kind = if kind.is_file() {
        Some(Kind::File)
    } else if kind.is_dir() {
        Some(Kind::Folder)
    } else if kind.is_symlink() {
        Some(Kind::Symlink)
    } else {
        None
    };
    let time = |s: i64, ns: i64| Time(s.saturating_mul(1_000_000_000).saturating_add(ns));
    Meta {
        kind,
        stored_bytes: metadata.len().min(metadata.blocks() * BLOCK_BYTES),
        mode: (metadata.mode() & 0o7777) as u16,
        uid: metadata.uid(),
        gid: metadata.gid(),
        read_at: time(metadata.atime(), metadata.atime_nsec()),
        written_at: time(metadata.mtime(), metadata.mtime_nsec()),
    }
}

impl Tree for HostTree {
    fn shown(&self, path: &[u8]) -> String {
        path_of(path).display().to_string()
    }

    fn look(&self, path: &[u8], last: Last) -> Result<Option<Meta>, Error> {
        let path = path_of(path);
        let metadata = if last == Last::Follow { fs::metadata(path) } else { fs::symlink_metadata(path) };
        match metadata {
            Ok(metadata) => Ok(Some(meta_of(&metadata))),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed(path)(error)),
        }
    }

    fn names(&self, path: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
        let path = path_of(path);
        let entries = fs::read_dir(path).and_then(|entries| {
            entries.map(|entry| Ok(entry?.file_name().into_vec())).collect::<io::Result<Vec<_>>>()
        });
        let mut names = entries.map_err(failed(path))?;
        names.sort_unstable();
        Ok(names)
    }

    fn target(&self, path: &[u8]) -> Result<Vec<u8>, Error> {
        let path = path_of(path);
        Ok(fs::read_link(path).map_err(failed(path))?.into_os_string().into_vec())
    }

    fn source(&self, path: &[u8]) -> Result<Box<dyn Source + '_>, Error> {
        let path = path_of(path);
        Ok(Box::new(HostSource { file: File::open(path).map_err(failed(path))?, path: path.to_owned() }))
    }

    fn sink(&self, path: &[u8], mode: u16) -> Result<Box<dyn Sink + '_>, Error> {
        let named = path_of(path);
        // A symbolic link stays, what it leads to is replaced.
        let path = fs::canonicalize(named).unwrap_or_else(|_| named.to_owned());
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let permissions = Permissions::from_mode((mode & 0o777).into());
        let file = tempfile::Builder::new().prefix(".aquifer-").permissions(permissions).tempfile_in(folder);
        Ok(Box::new(HostSink { file: file.map_err(failed(&path))?, path }))
    }

    fn make_folder(&self, path: &[u8], mode: u16) -> Result<(), Error> {
        use std::os::unix::fs::DirBuilderExt;

        let path = path_of(path);
        // What is in it could not be made otherwise.
        let mode = u32::from(mode & 0o777) | 0o700;
        fs::DirBuilder::new().mode(mode).create(path).map_err(failed(path))
    }

    fn make_symlink(&self, target: &[u8], path: &[u8]) -> Result<(), Error> {
        let path = path_of(path);
        match fs::remove_file(path) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(failed(path)(error)),
            _ => {}
        }
        symlink(path_of(target), path).map_err(failed(path))
    }

    fn set_meta(&self, path: &[u8], meta: &Meta) -> Result<(), Error> {
        let path = path_of(path);
        set_meta(path, meta).map_err(failed(path))
    }
}

/// Owner, permissions and times. Only root gives files away: of others they keep the rest, without rights that are lent.
fn set_meta(path: &Path, meta: &Meta) -> io::Result<()> {
    let lent = match lchown(path, Some(meta.uid), Some(meta.gid)) {
        Ok(()) => LENT,
        Err(error) if error.kind() == ErrorKind::PermissionDenied => 0,
        Err(error) => return Err(error),
    };
    if meta.kind != Some(Kind::Symlink) {
        fs::set_permissions(path, Permissions::from_mode((meta.mode & (0o1777 | lent)).into()))?;
    }
    let time = |time: Time| Timespec {
        tv_sec: time.0.div_euclid(1_000_000_000),
        tv_nsec: time.0.rem_euclid(1_000_000_000),
    };
    let times = Timestamps { last_access: time(meta.read_at), last_modification: time(meta.written_at) };
    Ok(utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW)?)
}

struct HostSource {
    file: File,
    path: PathBuf,
}

impl Source for HostSource {
    fn ranges(&mut self, from: u64) -> Result<Vec<Range<u64>>, Error> {
        let size_bytes = self.size_bytes()?;
        if from >= size_bytes {
            return Ok(Vec::new());
        }
        let start = match seek(&self.file, SeekFrom::Data(from)) {
            Ok(start) => start,
            Err(Errno::NXIO) => return Ok(Vec::new()),
            // A file system that knows nothing of holes.
            Err(_) => return Ok(Vec::from_iter(Some(from..size_bytes))),
        };
        let end = seek(&self.file, SeekFrom::Hole(start)).unwrap_or(size_bytes);
        Ok((start < end).then_some(start..end).into_iter().collect())
    }

    fn read(&mut self, offset: u64, bytes: &mut [u8]) -> Result<usize, Error> {
        let mut done = 0;
        while done < bytes.len() {
            match self.file.read_at(&mut bytes[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(read) => done += read,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(failed(&self.path)(error)),
            }
        }
        Ok(done)
    }

    fn size_bytes(&mut self) -> Result<u64, Error> {
        Ok(self.file.metadata().map_err(failed(&self.path))?.len())
    }
}

struct HostSink {
    file: NamedTempFile,
    path: PathBuf,
}

impl Sink for HostSink {
    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        self.file.as_file().write_all_at(bytes, offset).map_err(failed(&self.path))
    }

    fn finish(self: Box<Self>, size_bytes: u64, meta: Option<&Meta>) -> Result<(), Error> {
        let HostSink { file, path } = *self;
        let finished = file
            .as_file()
            .set_len(size_bytes)
            .and_then(|()| meta.map_or(Ok(()), |meta| set_meta(file.path(), meta)))
            .and_then(|()| file.as_file().sync_all());
        finished.map_err(failed(&path))?;
        file.persist(&path).map_err(|error| failed(&path)(error.error))?;
        Ok(())
    }
}
