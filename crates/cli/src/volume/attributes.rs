//! Permissions, owners, and all else that is known of a file.

use std::io::{self, Write};
use std::process::ExitCode;

use aquifer_volume::path::Last;
use aquifer_volume::{Ino, Inode, Kind, PAGE_BYTES, device_parts};
use serde::Serialize;

use super::arguments::{ModeArguments, OwnerArguments, StatArguments};
use super::names::for_each;
use super::opened::{access, failed, to_read, umask};
use super::print_json;
use super::show::{kind_word, mode_letters, moment};
use super::work::Outcome;
use crate::amounts::{grouped, size};
use crate::error::{Error, printable};

/// Changes permissions.
///
/// # Errors
/// What goes wrong with all.
pub fn change_mode(arguments: &ModeArguments) -> Result<ExitCode, Error> {
    let umask = umask();
    for_each(&arguments.files.places, |access, place| {
        let changed = access.stat(&place.path, Last::Follow).and_then(|(ino, inode)| {
            access.chmod_ino(ino, arguments.mode.apply(inode.mode, inode.kind == Kind::Folder, umask))
        });
        changed.map(drop).map_err(failed(place.shown()))
    })
}

/// Changes owner and group.
///
/// # Errors
/// What goes wrong with all.
pub fn change_owner(arguments: &OwnerArguments) -> Result<ExitCode, Error> {
    let (uid, gid) = (arguments.owner.uid, arguments.owner.gid);
    for_each(&arguments.files.places, |access, place| {
        access.chown(&place.path, Last::Follow, uid, gid).map(drop).map_err(failed(place.shown()))
    })
}

/// Shows what is known of files.
///
/// # Errors
/// A volume cannot be opened.
pub fn stat(arguments: &StatArguments) -> Result<ExitCode, Error> {
    let mut outcome = Outcome::default();
    for of_one in arguments.files.places.chunk_by(|a, b| a.volume == b.volume) {
        let volume = to_read(&of_one[0].volume)?;
        let access = access(&volume);
        for place in of_one {
            let found = access.stat(&place.path, Last::Keep).and_then(|(ino, inode)| {
                let is_link = inode.kind == Kind::Symlink;
                Ok((ino, inode, is_link.then(|| volume.read_link(ino)).transpose()?))
            });
            let Some((ino, inode, target)) = outcome.go_on(found.map_err(failed(place.shown())))? else {
                continue;
            };
            let target = target.map(|target| String::from_utf8_lossy(&target).into_owned());
            let line = Line::new(place.shown(), ino, &inode, target);
            if arguments.json {
                print_json(&line)?;
            } else {
                io::stdout().write_all(line.table(&inode).as_bytes())?;
            }
        }
    }
    Ok(outcome.exit_code())
}

/// What programs read.
#[derive(Serialize)]
pub(super) struct Line {
    path: String,
    kind: &'static str,
    ino: u32,
    generation: u32,
    size_bytes: u64,
    stored_bytes: u64,
    /// Octal.
    mode: String,
    links: u32,
    uid: u32,
    gid: u32,
    read_at_ns: i64,
    written_at_ns: i64,
    changed_at_ns: i64,
    made_at_ns: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<String>,
    /// Of a device: the driver's number, and the one that the driver gives it.
    #[serde(skip_serializing_if = "Option::is_none")]
    device: Option<(u32, u32)>,
}

impl Line {
    pub(super) fn new(path: String, ino: Ino, inode: &Inode, target: Option<String>) -> Self {
        Line {
            path,
            kind: kind_word(inode.kind),
            ino: ino.0,
            generation: inode.generation,
            size_bytes: inode.size_bytes,
            stored_bytes: inode.pages * PAGE_BYTES as u64,
            mode: format!("{:04o}", inode.mode),
            links: inode.links,
            uid: inode.uid,
            gid: inode.gid,
            read_at_ns: inode.read_at.0,
            written_at_ns: inode.written_at.0,
            changed_at_ns: inode.changed_at.0,
            made_at_ns: inode.made_at.0,
            target,
            device: inode.kind.is_device().then(|| device_parts(inode.device)),
        }
    }

    fn table(&self, inode: &Inode) -> String {
        let leads = self.target.as_ref().map(|target| format!(" to {}", printable(target)));
        let device = self.device.map(|(major, minor)| format!(" {major}, {minor}"));
        format!(
            "{}\n  kind     {}{}, {}\n  bytes    {}, {} on flash\n  mode     {} {}\n  owner    {}, group {}\n  \
             read     {} UTC\n  written  {} UTC\n  changed  {} UTC\n  made     {} UTC\n",
            printable(&self.path),
            self.kind,
            leads.or(device).unwrap_or_default(),
            format_args!("inode {}, generation {}, {} names", self.ino, self.generation, self.links),
            grouped(self.size_bytes),
            size(self.stored_bytes as f64),
            self.mode,
            mode_letters(inode),
            self.uid,
            self.gid,
            moment(inode.read_at),
            moment(inode.written_at),
            moment(inode.changed_at),
            moment(inode.made_at),
        )
    }
}
