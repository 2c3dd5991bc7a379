//! Copies between host and volumes.

use std::fs;
use std::ops::Range;
use std::path::Path;
use std::process::ExitCode;

use aquifer_volume::path::Last;
use aquifer_volume::{Ino, Kind, PAGE_BYTES, Volume, VolumeError};

use super::arguments::{CopyArguments, SalvageArguments};
use super::opened::{self, Access, access, change, to_read, umask};
use super::place::{HostOrVolume, Place, joined, last_name};
use super::tree::{HostTree, Meta, Source, Tree, VolumeTree};
use super::verify::paths;
use super::work::{Outcome, Work};
use crate::error::Error;

/// What is read and written at once.
const CHUNK_BYTES: usize = 1 << 20;

/// Copies files; each that is copied is whole, or not there.
///
/// # Errors
/// [`Error`] if nothing more could be copied. What was copied until then stays.
pub fn copy(arguments: &CopyArguments) -> Result<ExitCode, Error> {
    let is_on_host = |place: &HostOrVolume| matches!(place, HostOrVolume::Host(_));
    if is_on_host(&arguments.target) && arguments.sources.iter().any(is_on_host) {
        return Err(Error::NoVolumeToCopy);
    }
    let mut copier =
        Copier { is_recursive: arguments.recursive, keeps: arguments.preserve, ..Copier::new()? };
    let is_alone = arguments.sources.len() == 1;
    match &arguments.target {
        HostOrVolume::Host(path) => {
            let target = Target::new(&HostTree, path.as_os_str().as_encoded_bytes(), is_alone)?;
            for source in &arguments.sources {
                if let HostOrVolume::Volume(place) = source {
                    let volume = to_read(&place.volume)?;
                    copier.copy_from(
                        &VolumeTree::new(&access(&volume), &place.volume),
                        &place.path,
                        &target,
                    )?;
                }
            }
        }
        HostOrVolume::Volume(place) => {
            change(&place.volume, |access| copier.copy_into(access, place, &arguments.sources, is_alone))?;
        }
    }
    Ok(copier.outcome.exit_code())
}

/// Copies what can be read out of a damaged volume into a new folder of the host, and names what cannot.
///
/// # Errors
/// [`Error`] if nothing of the volume can be read, or the folder is there. What was copied until then stays.
pub fn salvage(arguments: &SalvageArguments) -> Result<ExitCode, Error> {
    let volume = opened::damaged(&arguments.volume)?;
    let (access, folder) = (access(&volume), arguments.folder.as_os_str().as_encoded_bytes());
    let mut copier = Copier { is_recursive: true, keeps: true, salvages: true, ..Copier::new()? };
    if let Some(doubt) = &volume.recovered().doubt {
        copier.outcome.note(Error::Salvaged {
            what: arguments.volume.display().to_string(),
            loss: format!("{doubt}: any file may be as it was before"),
        });
    }
    // Never into what is there: what is salvaged must be all that the folder holds.
    HostTree.make_folder(folder, 0o700)?;
    let target = Target { tree: &HostTree, path: folder, is_folder: false };
    tell_doubts(&volume, &arguments.volume, &mut copier.outcome);
    copier.copy_from(&VolumeTree::new(&access, &arguments.volume), b"/", &target)?;
    Ok(copier.outcome.exit_code())
}

/// Names each file of which something may not be as it was last.
fn tell_doubts(volume: &Volume, path: &Path, outcome: &mut Outcome) {
    let salvaged = volume.salvaged();
    if salvaged.doubts.is_empty() && salvaged.nameless.is_empty() {
        return;
    }
    let paths = paths(volume);
    let mut tell = |ino: Ino, loss: String| {
        let what = match paths.get(&ino) {
            Some(inside) => Place { volume: path.to_owned(), path: inside.clone() }.shown(),
            None => format!("{}: {ino}", path.display()),
        };
        outcome.note(Error::Salvaged { what, loss });
    };
    for (&ino, doubt) in &salvaged.doubts {
        tell(ino, doubt.to_string());
    }
    for &ino in salvaged.nameless.iter().filter(|ino| !salvaged.doubts.contains_key(ino)) {
        tell(ino, "its name is lost".into());
    }
}

/// Where copies go.
struct Target<'a> {
    tree: &'a dyn Tree,
    path: &'a [u8],
    /// Whether copies keep their names in it.
    is_folder: bool,
}

impl<'a> Target<'a> {
    fn new(tree: &'a dyn Tree, path: &'a [u8], is_alone: bool) -> Result<Self, Error> {
        let is_folder = tree.look(path, Last::Follow)?.is_some_and(|meta| meta.kind == Some(Kind::Folder));
        if !is_folder && !is_alone {
            return Err(Error::SeveralIntoNoFolder { target: tree.shown(path) });
        }
        Ok(Target { tree, path, is_folder })
    }

    fn path_for(&self, source: &[u8]) -> Vec<u8> {
        match last_name(source) {
            Some(name) if self.is_folder => joined(self.path, name),
            _ => self.path.to_vec(),
        }
    }
}

/// Whether two paths are one file.
fn is_same_file(a: &Path, b: &Path) -> bool {
    matches!((fs::canonicalize(a), fs::canonicalize(b)), (Ok(a), Ok(b)) if a == b)
}

struct Copier {
    is_recursive: bool,
    /// Permissions, owner and times.
    keeps: bool,
    /// Zeros in place of what cannot be read.
    salvages: bool,
    umask: u16,
    outcome: Outcome,
    work: Work,
    chunk: Vec<u8>,
}

impl Copier {
    fn new() -> Result<Self, Error> {
        Ok(Copier {
            is_recursive: false,
            keeps: false,
            salvages: false,
            umask: umask(),
            outcome: Outcome::default(),
            work: Work::on_bytes()?,
            chunk: vec![0; CHUNK_BYTES],
        })
    }

    fn copy_into(
        &mut self,
        inside: &Access<'_>,
        place: &Place,
        sources: &[HostOrVolume],
        is_alone: bool,
    ) -> Result<(), Error> {
        let tree = VolumeTree::new(inside, &place.volume);
        let target = Target::new(&tree, &place.path, is_alone)?;
        for source in sources {
            match source {
                HostOrVolume::Host(path) => {
                    self.copy_from(&HostTree, path.as_os_str().as_encoded_bytes(), &target)?;
                }
                HostOrVolume::Volume(source) if is_same_file(&source.volume, &place.volume) => {
                    let checked = check_not_below(inside, source, &target.path_for(&source.path));
                    if self.outcome.go_on(checked)?.is_some() {
                        self.copy_from(&tree, &source.path, &target)?;
                    }
                }
                HostOrVolume::Volume(source) => {
                    let volume = to_read(&source.volume)?;
                    let outside = access(&volume);
                    self.copy_from(&VolumeTree::new(&outside, &source.volume), &source.path, &target)?;
                }
            }
        }
        Ok(())
    }

    fn copy_from(&mut self, tree: &dyn Tree, path: &[u8], target: &Target<'_>) -> Result<(), Error> {
        let last = if self.is_recursive { Last::Keep } else { Last::Follow };
        self.work.expect(bytes_below(tree, path, last));
        self.copy_one(tree, path, last, target.tree, &target.path_for(path))
    }

    /// Copies a file, folder or link, and tells if that went wrong.
    fn copy_one(
        &mut self,
        tree: &dyn Tree,
        path: &[u8],
        last: Last,
        to: &dyn Tree,
        target: &[u8],
    ) -> Result<(), Error> {
        let copied = self.try_copy(tree, path, last, to, target);
        self.outcome.go_on(copied).map(drop)
    }

    fn try_copy(
        &mut self,
        tree: &dyn Tree,
        path: &[u8],
        last: Last,
        to: &dyn Tree,
        target: &[u8],
    ) -> Result<(), Error> {
        let failed = |error| opened::failed(tree.shown(path))(error);
        let meta = tree.look(path, last)?.ok_or_else(|| failed(VolumeError::NotFound))?;
        self.work.advance(0)?;
        let taken = to.look(target, Last::Follow)?.map(|meta| meta.kind);
        let is_folder_taken = taken == Some(Some(Kind::Folder));
        match meta.kind {
            Some(Kind::Folder) if !self.is_recursive => {
                Err(failed(VolumeError::Invalid("is a folder; -r copies it with all that is in it")))
            }
            Some(Kind::Folder) if taken.is_some() && !is_folder_taken => {
                Err(opened::failed(to.shown(target))(VolumeError::NotAFolder))
            }
            Some(Kind::Folder) => self.copy_folder(tree, path, &meta, to, target, is_folder_taken),
            Some(_) if is_folder_taken => Err(opened::failed(to.shown(target))(VolumeError::IsAFolder)),
            Some(Kind::File) if taken == Some(None) => Err(Error::NotCopied { path: to.shown(target) }),
            Some(Kind::File) => self.copy_file(tree, path, &meta, to, target),
            Some(Kind::Symlink) => {
                to.make_symlink(&tree.target(path)?, target)?;
                if self.keeps { to.set_meta(target, &meta) } else { Ok(()) }
            }
            _ => Err(Error::NotCopied { path: tree.shown(path) }),
        }
    }

    fn copy_folder(
        &mut self,
        tree: &dyn Tree,
        path: &[u8],
        meta: &Meta,
        to: &dyn Tree,
        target: &[u8],
        is_there: bool,
    ) -> Result<(), Error> {
        let names = tree.names(path)?;
        if !is_there {
            to.make_folder(target, meta.mode & 0o777 & !self.umask)?;
        }
        for name in names {
            self.copy_one(tree, &joined(path, &name), Last::Keep, to, &joined(target, &name))?;
        }
        // Last, because what is made in it changes its times.
        if self.keeps { to.set_meta(target, meta) } else { Ok(()) }
    }

    fn copy_file(
        &mut self,
        tree: &dyn Tree,
        path: &[u8],
        meta: &Meta,
        to: &dyn Tree,
        target: &[u8],
    ) -> Result<(), Error> {
        self.work.begin(&tree.shown(path));
        let mut source = tree.source(path)?;
        let mut sink = to.sink(target, meta.mode & 0o777 & !self.umask)?;
        let (mut from, mut lost) = (0, Vec::new());
        loop {
            let ranges = source.ranges(from)?;
            let Some(last) = ranges.last() else { break };
            from = last.end;
            for mut range in ranges {
                while range.start < range.end {
                    let len = (range.end - range.start).min(CHUNK_BYTES as u64) as usize;
                    let read = match source.read(range.start, &mut self.chunk[..len]) {
                        Err(_) if self.salvages => {
                            self.read_pages(&mut *source, range.start, len, &mut lost)?
                        }
                        read => read?,
                    };
                    // It was cut meanwhile.
                    if read == 0 {
                        break;
                    }
                    sink.write(range.start, &self.chunk[..read])?;
                    self.work.advance(read as u64)?;
                    range.start += read as u64;
                }
            }
        }
        if !lost.is_empty() {
            let shown: Vec<String> =
                lost.iter().map(|range| format!("{} to {}", range.start, range.end - 1)).collect();
            self.outcome.note(Error::Salvaged {
                what: tree.shown(path),
                loss: format!("bytes {} cannot be read, zeros stand in their place", shown.join(", ")),
            });
        }
        let size_bytes = source.size_bytes()?;
        sink.finish(size_bytes, self.keeps.then_some(meta))
    }

    /// Reads bytes page by page: zeros where that fails, which is noted in `lost`.
    fn read_pages(
        &mut self,
        source: &mut dyn Source,
        offset: u64,
        len: usize,
        lost: &mut Vec<Range<u64>>,
    ) -> Result<usize, Error> {
        let end = source.size_bytes()?.saturating_sub(offset).min(len as u64) as usize;
        let chunk = &mut self.chunk[..end];
        for (at, page) in (offset..).step_by(PAGE_BYTES).zip(chunk.chunks_mut(PAGE_BYTES)) {
            if source.read(at, page).is_ok_and(|read| read == page.len()) {
                continue;
            }
            page.fill(0);
            let bytes = at..at + page.len() as u64;
            match lost.last_mut() {
                Some(last) if last.end == bytes.start => last.end = bytes.end,
                _ => lost.push(bytes),
            }
        }
        Ok(end)
    }
}

/// Bytes to copy, as far as they can be known.
fn bytes_below(tree: &dyn Tree, path: &[u8], last: Last) -> u64 {
    match tree.look(path, last) {
        Ok(Some(Meta { kind: Some(Kind::File), stored_bytes, .. })) => stored_bytes,
        Ok(Some(Meta { kind: Some(Kind::Folder), .. })) => {
            let names = tree.names(path).unwrap_or_default();
            names.iter().map(|name| bytes_below(tree, &joined(path, name), Last::Keep)).sum()
        }
        _ => 0,
    }
}

/// A folder cannot be copied into itself.
fn check_not_below(access: &Access<'_>, source: &Place, target: &[u8]) -> Result<(), Error> {
    let failed = || opened::failed(source.shown());
    let ino = access.find(&source.path, Last::Keep).map_err(failed())?;
    let found = access.resolve(target, Last::Follow).map_err(failed())?;
    let folder = found.place.map(|(folder, _)| folder);
    let mut at = found.ino.or(folder).unwrap_or(Ino::ROOT_FOLDER);
    loop {
        let inode = access.volume().inode(at).map_err(failed())?;
        match inode.kind {
            Kind::Folder if at == ino => {
                return Err(failed()(VolumeError::Invalid("a folder cannot be copied into itself")));
            }
            Kind::Folder if at == Ino::ROOT_FOLDER => return Ok(()),
            Kind::Folder => at = inode.parent,
            _ => at = folder.unwrap_or(Ino::ROOT_FOLDER),
        }
    }
}
