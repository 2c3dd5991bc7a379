//! Names in folders.

use std::io::{self, BufWriter, Write};
use std::ops::ControlFlow;
use std::process::ExitCode;

use aquifer_volume::path::Last;
use aquifer_volume::{Ino, Inode, Kind, device_parts};

use super::arguments::ListArguments;
use super::attributes::Line;
use super::opened::{self, Access, access, failed};
use super::place::{Place, joined};
use super::show::{Names, mode_letters, moment};
use super::work::Outcome;
use crate::error::Error;

/// Lists a folder, or shows a file.
///
/// # Errors
/// The volume, or what was named, cannot be read.
pub fn list(arguments: &ListArguments) -> Result<ExitCode, Error> {
    let place = &arguments.place;
    let volume = opened::to_read(&place.volume)?;
    let mut out = BufWriter::new(io::stdout().lock());
    let mut listing = Listing {
        access: access(&volume),
        volume: place,
        is_long: arguments.long,
        is_json: arguments.json,
        names: Names::new(),
        outcome: Outcome::default(),
        out: &mut out,
    };
    let (ino, inode) = listing.access.stat(&place.path, Last::Keep).map_err(failed(place.shown()))?;
    if inode.kind == Kind::Folder {
        listing.folder(&place.path, ino, arguments.recursive)?;
    } else if arguments.json {
        listing.json(&place.path, ino, &inode)?;
    } else {
        listing.line(&place.path, ino, &inode)?;
    }
    let outcome = listing.outcome;
    out.flush()?;
    Ok(outcome.exit_code())
}

struct Listing<'a, W> {
    access: Access<'a>,
    volume: &'a Place,
    is_long: bool,
    is_json: bool,
    names: Names,
    outcome: Outcome,
    out: &'a mut W,
}

impl<W: Write> Listing<'_, W> {
    fn folder(&mut self, path: &[u8], ino: Ino, is_recursive: bool) -> Result<(), Error> {
        let mut waiting = vec![(path.to_vec(), ino)];
        let mut is_first = true;
        while let Some((path, ino)) = waiting.pop() {
            if is_recursive && !self.is_json {
                self.out.write_all(if is_first { b"" } else { b"\n" })?;
                self.names.write(&path, self.out)?;
                self.out.write_all(b":\n")?;
            }
            is_first = false;
            let entries = self.entries(&path, ino);
            let folders = entries.iter().filter(|(_, _, kind)| *kind == Kind::Folder);
            let mut below: Vec<_> = folders.map(|(name, ino, _)| (joined(&path, name), *ino)).collect();
            for (name, ino, _) in &entries {
                self.entry(&path, name, *ino)?;
            }
            if is_recursive {
                below.reverse();
                waiting.append(&mut below);
            }
        }
        Ok(())
    }

    /// Names of a folder in their order, as far as they can be read.
    fn entries(&mut self, path: &[u8], folder: Ino) -> Vec<(Vec<u8>, Ino, Kind)> {
        let mut entries = Vec::new();
        let listed = self.access.volume().list(folder, 0, |entry| {
            entries.push((entry.name.to_vec(), entry.ino, entry.kind));
            ControlFlow::Continue(())
        });
        if let Err(error) = listed {
            self.outcome.note(failed(self.volume.with_path(path).shown())(error));
        }
        entries.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        entries
    }

    fn entry(&mut self, path: &[u8], name: &[u8], ino: Ino) -> Result<(), Error> {
        if !self.is_long && !self.is_json {
            self.names.write(name, self.out)?;
            return Ok(self.out.write_all(b"\n")?);
        }
        match self.access.volume().inode(ino) {
            Ok(inode) if self.is_json => self.json(&joined(path, name), ino, &inode),
            Ok(inode) => self.line(name, ino, &inode),
            Err(error) => {
                self.outcome.note(failed(self.volume.with_path(&joined(path, name)).shown())(error));
                Ok(())
            }
        }
    }

    fn json(&mut self, path: &[u8], ino: Ino, inode: &Inode) -> Result<(), Error> {
        let shown = self.volume.with_path(path).shown();
        let target = (inode.kind == Kind::Symlink).then(|| self.access.volume().read_link(ino)).transpose();
        let target = target.unwrap_or_else(|error| {
            self.outcome.note(failed(shown.clone())(error));
            None
        });
        let target = target.map(|target| String::from_utf8_lossy(&target).into_owned());
        serde_json::to_writer(&mut *self.out, &Line::new(shown, ino, inode, target))
            .map_err(io::Error::from)?;
        Ok(self.out.write_all(b"\n")?)
    }

    fn line(&mut self, name: &[u8], ino: Ino, inode: &Inode) -> Result<(), Error> {
        if self.is_long {
            let (letters, time) = (mode_letters(inode), moment(inode.written_at));
            let Inode { links, uid, gid, size_bytes, .. } = inode;
            let size = match inode.kind.is_device().then(|| device_parts(inode.device)) {
                Some((major, minor)) => format!("{major}, {minor}"),
                None => size_bytes.to_string(),
            };
            write!(self.out, "{letters} {links:>3} {uid:>5} {gid:>5} {size:>12} {time} ")?;
        }
        self.names.write(name, self.out)?;
        if self.is_long && inode.kind == Kind::Symlink {
            match self.access.volume().read_link(ino) {
                Ok(target) => {
                    self.out.write_all(b" -> ")?;
                    self.names.write(&target, self.out)?;
                }
                Err(error) => self.outcome.note(failed(self.volume.with_path(name).shown())(error)),
            }
        }
        Ok(self.out.write_all(b"\n")?)
    }
}
