//! Makes, moves and removes names.

use std::process::ExitCode;

use aquifer_volume::path::Last;
use aquifer_volume::{IfTaken, Ino, Kind, VolumeError};

use super::arguments::{FolderArguments, LinkArguments, MoveArguments, RemoveArguments};
use super::opened::{Access, change, failed, umask};
use super::place::{Place, joined, last_name};
use super::work::{Outcome, Work};
use crate::error::Error;

/// Calls `work` for each place, in one opening of the volume as long as places of one volume follow each other. What goes wrong with one
/// place is told, and the others are done.
///
/// # Errors
/// What goes wrong with all.
pub fn for_each(
    places: &[Place],
    mut work: impl FnMut(&Access<'_>, &Place) -> Result<(), Error>,
) -> Result<ExitCode, Error> {
    let mut outcome = Outcome::default();
    for of_one in places.chunk_by(|a, b| a.volume == b.volume) {
        change(&of_one[0].volume, |access| {
            of_one.iter().try_for_each(|place| outcome.go_on(work(access, place)).map(drop))
        })?;
    }
    Ok(outcome.exit_code())
}

/// Makes folders.
///
/// # Errors
/// What goes wrong with all.
pub fn make_folders(arguments: &FolderArguments) -> Result<ExitCode, Error> {
    let mode = 0o777 & !umask();
    for_each(&arguments.folders.places, |access, place| {
        if !arguments.parents {
            return access.make_folder(&place.path, mode).map(drop).map_err(failed(place.shown()));
        }
        // Each path that ends before a slash, and the whole.
        let slashes =
            (1..place.path.len()).filter(|&at| place.path[at] == b'/' && place.path[at - 1] != b'/');
        for end in slashes.chain([place.path.len()]) {
            let path = &place.path[..end];
            match access.make_folder(path, mode) {
                Ok(_) => {}
                Err(VolumeError::Exists)
                    if access.stat(path, Last::Follow).is_ok_and(|(_, inode)| inode.kind == Kind::Folder) => {
                }
                Err(error) => return Err(failed(place.with_path(path).shown())(error)),
            }
        }
        Ok(())
    })
}

/// Gives a file another name, or makes a symbolic link.
///
/// # Errors
/// It could not be made.
pub fn link(arguments: &LinkArguments) -> Result<ExitCode, Error> {
    let link = &arguments.link;
    if arguments.symbolic {
        let target = arguments.target.as_encoded_bytes();
        change(&link.volume, |access| {
            access.make_symlink(target, &link.path).map(drop).map_err(failed(link.shown()))
        })?;
    } else {
        let target = Place::from(arguments.target.clone());
        check_same_volume(&target, link)?;
        change(&link.volume, |access| {
            access.link(&target.path, &link.path).map_err(|error| match error {
                VolumeError::NotOwner => failed(target.shown())(VolumeError::Invalid(
                    "a folder has one name only; -s makes a symbolic link to it",
                )),
                error => failed(format!("{} as {}", target.shown(), link.shown()))(error),
            })
        })?;
    }
    Ok(ExitCode::SUCCESS)
}

fn check_same_volume(a: &Place, b: &Place) -> Result<(), Error> {
    if a.volume == b.volume {
        return Ok(());
    }
    Err(Error::OtherVolume { first: a.volume.clone(), second: b.volume.clone() })
}

/// Moves or renames.
///
/// # Errors
/// What goes wrong with all.
pub fn move_all(arguments: &MoveArguments) -> Result<ExitCode, Error> {
    let target = &arguments.target;
    arguments.sources.iter().try_for_each(|source| check_same_volume(source, target))?;
    let mut is_folder = None;
    for_each(&arguments.sources, |access, source| {
        let is_folder = *is_folder.get_or_insert_with(|| {
            access.stat(&target.path, Last::Follow).is_ok_and(|(_, inode)| inode.kind == Kind::Folder)
        });
        if !is_folder && arguments.sources.len() > 1 {
            return Err(Error::SeveralIntoNoFolder { target: target.shown() });
        }
        let path = match last_name(&source.path) {
            Some(name) if is_folder => joined(&target.path, name),
            _ => target.path.clone(),
        };
        let moved = access.rename(&source.path, &path, IfTaken::Replace);
        moved.map_err(failed(format!("{} to {}", source.shown(), target.with_path(&path).shown())))
    })
}

/// Removes files, and folders with all that is in them.
///
/// # Errors
/// What goes wrong with all.
pub fn remove(arguments: &RemoveArguments) -> Result<ExitCode, Error> {
    let work = Work::on_bytes()?;
    for_each(&arguments.files.places, |access, place| {
        let failed = || failed(place.shown());
        let found = access.resolve(&place.path, Last::Name).map_err(failed())?;
        let Some((folder, name)) = found.place else {
            return Err(failed()(VolumeError::Invalid("this folder stays; name what is in it")));
        };
        let ino = found.ino.ok_or_else(|| failed()(VolumeError::NotFound))?;
        let is_folder = access.volume().inode(ino).map_err(failed())?.kind == Kind::Folder;
        match (is_folder, arguments.recursive) {
            (true, false) => {
                Err(failed()(VolumeError::Invalid("is a folder; -r removes it with all that is in it")))
            }
            (false, _) if found.is_folder_meant => Err(failed()(VolumeError::NotAFolder)),
            (false, _) => access.from(folder).unlink(&name).map_err(failed()),
            (true, true) => remove_tree(access, place, (folder, name, ino), &work),
        }
    })
}

/// A folder whose entries are being removed.
struct Open {
    parent: Ino,
    name: Vec<u8>,
    ino: Ino,
    entries: Vec<(Vec<u8>, Ino, Kind)>,
}

/// Removes a folder from below; names may lie deeper than a path is long.
fn remove_tree(
    access: &Access<'_>,
    place: &Place,
    top: (Ino, Vec<u8>, Ino),
    work: &Work,
) -> Result<(), Error> {
    let failed = || failed(place.shown());
    let open = |(parent, name, ino): (Ino, Vec<u8>, Ino)| -> Result<Open, Error> {
        let mut entries = Vec::new();
        let listed = access.volume().list(ino, 0, |entry| {
            entries.push((entry.name.to_vec(), entry.ino, entry.kind));
            std::ops::ControlFlow::Continue(())
        });
        listed.map_err(failed())?;
        Ok(Open { parent, name, ino, entries })
    };
    let mut above = vec![open(top)?];
    while let Some(mut folder) = above.pop() {
        work.advance(0)?;
        match folder.entries.pop() {
            Some((name, ino, Kind::Folder)) => {
                let below = open((folder.ino, name, ino))?;
                above.extend([folder, below]);
            }
            Some((name, ..)) => {
                access.from(folder.ino).unlink(&name).map_err(failed())?;
                above.push(folder);
            }
            None => access.from(folder.parent).remove_folder(&folder.name).map_err(failed())?,
        }
    }
    Ok(())
}
