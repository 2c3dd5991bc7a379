//! Paths, as bytes: from a folder through names and symbolic links to a file. No path leads out of the volume.

use crate::error::{Result, VolumeError};
use crate::inode::Kind;
use crate::key::Ino;

/// Longest path.
pub const PATH_BYTES_MAX: usize = 4095;
/// Most symbolic links on the way.
pub const SYMLINKS_MAX: u32 = 40;

/// What to do with a symbolic link that the last name of a path stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Last {
    /// Go where it leads.
    Follow,
    /// Stop at it, unless a slash stands behind the name.
    Keep,
    /// Stop at it: the name itself is meant.
    Name,
}

/// Where a path leads.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    /// Folder and last name; `None` for paths that end with `/`, `.` or `..` alone.
    pub place: Option<(Ino, Vec<u8>)>,
    /// What is there.
    pub ino: Option<Ino>,
    /// Whether a slash stands behind the name: only a folder can be meant.
    pub is_folder_meant: bool,
}

/// What resolving a path asks of a volume.
pub trait Names {
    /// Fails if names cannot be looked up in `folder`: it is not a folder, or may not be searched.
    fn enter(&self, folder: Ino) -> Result<()>;
    /// What a name stands for.
    fn look_up(&self, folder: Ino, name: &[u8]) -> Result<Option<(Ino, Kind)>>;
    /// The folder that a folder is in; the first folder is in itself.
    fn parent(&self, folder: Ino) -> Result<Ino>;
    /// Where a symbolic link in `folder` leads. Fails if it must not be followed.
    fn target(&self, folder: Ino, link: Ino) -> Result<Vec<u8>>;
}

/// Follows `path`, from the folder `from` if it does not begin with a slash. What the last name stands for may be missing.
///
/// # Errors
/// [`VolumeError::NotFound`] for a missing folder or an empty path, [`VolumeError::NotAFolder`], [`VolumeError::NameTooLong`],
/// [`VolumeError::BadName`] for a NUL, [`VolumeError::TooManySymlinks`]; those of `names`.
pub fn resolve(names: &impl Names, from: Ino, path: &[u8], last: Last) -> Result<Found> {
    check_path(path)?;
    let mut at = if path.starts_with(b"/") { Ino::ROOT_FOLDER } else { from };
    let mut rest = path.to_vec();
    let mut links = 0;
    loop {
        let Some(Step { name, behind }) = next_step(&rest) else {
            return Ok(Found { place: None, ino: Some(at), is_folder_meant: true });
        };
        names.enter(at)?;
        let (is_last, has_slash) = (next_step(behind).is_none(), !behind.is_empty());
        if name == b"." || name == b".." {
            at = if name == b".." { names.parent(at)? } else { at };
            rest = behind.to_vec();
            continue;
        }
        let found = names.look_up(at, name)?;
        let is_followed = match last {
            Last::Follow => true,
            Last::Keep => !is_last || has_slash,
            Last::Name => !is_last,
        };
        match found {
            Some((link, Kind::Symlink)) if is_followed => {
                links += 1;
                if links > SYMLINKS_MAX {
                    return Err(VolumeError::TooManySymlinks);
                }
                let target = names.target(at, link)?;
                check_path(&target)?;
                if target.starts_with(b"/") {
                    at = Ino::ROOT_FOLDER;
                }
                rest = [&target, behind].concat();
            }
            _ if is_last => {
                if has_slash && last != Last::Name && found.is_some_and(|(_, kind)| kind != Kind::Folder) {
                    return Err(VolumeError::NotAFolder);
                }
                let ino = found.map(|(ino, _)| ino);
                return Ok(Found { place: Some((at, name.to_vec())), ino, is_folder_meant: has_slash });
            }
            Some((ino, _)) => {
                at = ino;
                rest = behind.to_vec();
            }
            None => return Err(VolumeError::NotFound),
        }
    }
}

fn check_path(path: &[u8]) -> Result<()> {
    match path {
        [] => Err(VolumeError::NotFound),
        _ if path.len() > PATH_BYTES_MAX => Err(VolumeError::NameTooLong),
        _ if path.contains(&0) => Err(VolumeError::BadName),
        _ => Ok(()),
    }
}

/// The first name of a path, and what stands behind it, slashes included.
struct Step<'a> {
    name: &'a [u8],
    behind: &'a [u8],
}

fn next_step(path: &[u8]) -> Option<Step<'_>> {
    let start = path.iter().position(|byte| *byte != b'/')?;
    let path = &path[start..];
    let (name, behind) = path.split_at(path.iter().position(|byte| *byte == b'/').unwrap_or(path.len()));
    Some(Step { name, behind })
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    type NamesIn = HashMap<&'static [u8], (u32, Kind)>;

    /// A tree: for each folder its parent and names; for each link its target.
    struct Tree {
        folders: HashMap<u32, (u32, NamesIn)>,
        links: HashMap<u32, Vec<u8>>,
    }

    const CLOSED: u32 = 9;

    impl Names for Tree {
        fn enter(&self, folder: Ino) -> Result<()> {
            match self.folders.get(&folder.0) {
                Some(_) if folder.0 == CLOSED => Err(VolumeError::PermissionDenied),
                Some(_) => Ok(()),
                None => Err(VolumeError::NotAFolder),
            }
        }

        fn look_up(&self, folder: Ino, name: &[u8]) -> Result<Option<(Ino, Kind)>> {
            crate::names::check_name(name)?;
            Ok(self.folders[&folder.0].1.get(name).map(|&(ino, kind)| (Ino(ino), kind)))
        }

        fn parent(&self, folder: Ino) -> Result<Ino> {
            Ok(Ino(self.folders[&folder.0].0))
        }

        fn target(&self, _folder: Ino, link: Ino) -> Result<Vec<u8>> {
            Ok(self.links[&link.0].clone())
        }
    }

    /// `/a/b/f`, `/a/closed/f` and links.
    fn tree() -> Tree {
        let mut names = NamesIn::new();
        names.insert(b"a", (3, Kind::Folder));
        let mut links = HashMap::new();
        let listed: [(&'static [u8], &[u8]); 12] = [
            (b"to_b", b"a/b"),
            (b"to_b_slash", b"a/b/"),
            (b"to_root", b"/"),
            (b"out", b"../../../etc"),
            (b"to_f", b"/a/b/f"),
            (b"dangling", b"a/none"),
            (b"deep_dangling", b"none/none"),
            (b"loop", b"loop"),
            (b"nul", b"a\0b"),
            (b"long", &[b'x'; 300]),
            (b"etc_link", b"/etc/passwd"),
            (b"link_of_link", b"to_b"),
        ];
        for (number, (name, target)) in (20..).zip(listed) {
            names.insert(name, (number, Kind::Symlink));
            links.insert(number, target.to_vec());
        }
        // 40 links one after the other, and one more.
        for number in 0..41u32 {
            let name: &'static [u8] = format!("chain{number}").leak().as_bytes();
            names.insert(name, (100 + number, Kind::Symlink));
            let target = if number == 0 { "a".into() } else { format!("chain{}", number - 1) };
            links.insert(100 + number, target.into_bytes());
        }
        let of = |names: &[(&'static [u8], u32, Kind)]| {
            names.iter().map(|(name, ino, kind)| (*name, (*ino, *kind))).collect()
        };
        let folders = HashMap::from([
            (2, (2, names)),
            (3, (2, of(&[(b"b", 4, Kind::Folder), (b"closed", CLOSED, Kind::Folder)]))),
            (4, (3, of(&[(b"f", 5, Kind::File)]))),
            (CLOSED, (3, of(&[(b"f", 6, Kind::File)]))),
        ]);
        Tree { folders, links }
    }

    #[test]
    fn paths_lead_to_files() {
        for (path, last, ino) in [
            (&b"/"[..], Last::Follow, 2),
            (b"////", Last::Follow, 2),
            (b".", Last::Follow, 2),
            (b"..", Last::Follow, 2),
            (b"/../../..", Last::Follow, 2),
            (b"/a", Last::Follow, 3),
            (b"a/", Last::Follow, 3),
            (b"a//b/./f", Last::Follow, 5),
            (b"/a/b/../b/f", Last::Follow, 5),
            (b"to_b/f", Last::Follow, 5),
            (b"to_b_slash/f", Last::Follow, 5),
            (b"to_b/..", Last::Follow, 3),
            (b"to_b", Last::Follow, 4),
            (b"to_b", Last::Keep, 20),
            (b"to_b/", Last::Keep, 4),
            (b"to_b/", Last::Name, 20),
            (b"to_b/.", Last::Name, 4),
            (b"to_root", Last::Follow, 2),
            (b"to_root/a/b", Last::Follow, 4),
            (b"to_f", Last::Follow, 5),
            (b"link_of_link/f", Last::Keep, 5),
            (b"chain39", Last::Follow, 3),
            (b"a/closed", Last::Follow, CLOSED),
            (b"a/closed/", Last::Follow, CLOSED),
        ] {
            let found = resolve(&tree(), Ino::ROOT_FOLDER, path, last);
            let shown = String::from_utf8_lossy(path);
            assert_eq!(found.map(|found| found.ino), Ok(Some(Ino(ino))), "{shown} {last:?}");
        }
    }

    #[test]
    fn a_path_begins_where_it_is_told_to() {
        let found = |path: &[u8]| resolve(&tree(), Ino(3), path, Last::Follow).map(|found| found.ino);
        assert_eq!(found(b"b/f"), Ok(Some(Ino(5))));
        assert_eq!(found(b"/a/b/f"), Ok(Some(Ino(5))));
        assert_eq!(found(b".."), Ok(Some(Ino(2))));
    }

    #[test]
    fn the_last_name_may_be_missing() {
        for (path, folder, name, is_folder_meant) in [
            (&b"new"[..], 2, &b"new"[..], false),
            (b"/a/b/new", 4, b"new", false),
            (b"a/new//", 3, b"new", true),
            (b"to_b/new", 4, b"new", false),
            (b"dangling", 3, b"none", false),
            (b"out", 2, b"etc", false),
        ] {
            let found = resolve(&tree(), Ino::ROOT_FOLDER, path, Last::Follow);
            let place = Some((Ino(folder), name.to_vec()));
            assert_eq!(
                found,
                Ok(Found { place, ino: None, is_folder_meant }),
                "{}",
                String::from_utf8_lossy(path)
            );
        }
    }

    #[test]
    fn tricks_are_refused() {
        use VolumeError::{BadName, NameTooLong, NotAFolder, NotFound, PermissionDenied, TooManySymlinks};
        let long_path = [&b"a/../"[..]; 820].concat();
        for (path, error) in [
            (&b""[..], NotFound),
            (b"a\0", BadName),
            (b"none/f", NotFound),
            (b"none/..", NotFound),
            (b"deep_dangling", NotFound),
            (b"etc_link", NotFound),
            (b"a/b/f/", NotAFolder),
            (b"a/b/f/x", NotAFolder),
            (b"a/b/f/..", NotAFolder),
            (b"to_f/", NotAFolder),
            (b"loop", TooManySymlinks),
            (b"loop/x", TooManySymlinks),
            (b"chain40", TooManySymlinks),
            (b"nul", BadName),
            (b"long", NameTooLong),
            (b"a/closed/f", PermissionDenied),
            (b"a/closed/..", PermissionDenied),
            (&[b'x'; 256], NameTooLong),
            (&long_path, NameTooLong),
        ] {
            let found = resolve(&tree(), Ino::ROOT_FOLDER, path, Last::Follow);
            assert_eq!(found, Err(error), "{}", String::from_utf8_lossy(path));
        }
        assert!(resolve(&tree(), Ino::ROOT_FOLDER, &long_path[..4095], Last::Follow).is_ok());
    }
}
