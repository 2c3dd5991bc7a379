//! Files by path. A path begins at the volume's root, with a slash or without.

use std::collections::VecDeque;

use aquifer_volume::{Ino, Kind, Result, Volume, VolumeError};

/// Symbolic links on the way to one file.
const SYMLINKS_MAX: u32 = 40;

/// Where a path leads.
pub struct Place {
    /// The folder that has the name, or would have it.
    pub folder: Ino,
    /// The last part of the path.
    pub name: Vec<u8>,
    /// What has the name.
    pub target: Option<(Ino, Kind)>,
}

fn parts(path: &[u8]) -> impl DoubleEndedIterator<Item = Vec<u8>> {
    path.split(|&byte| byte == b'/').filter(|part| !part.is_empty() && *part != b".").map(<[u8]>::to_vec)
}

/// Where a path leads, through symbolic links to folders. The last part may be a symbolic link itself, or nothing at all.
///
/// # Errors
/// [`VolumeError::NotFound`] for a folder that is not there, [`VolumeError::IsAFolder`] for the root.
pub fn find(volume: &Volume, path: &[u8]) -> Result<Place> {
    let mut folder = Ino::ROOT_FOLDER;
    let mut links = 0;
    let mut left: VecDeque<Vec<u8>> = parts(path).collect();
    while let Some(part) = left.pop_front() {
        if part == b".." {
            folder = volume.inode(folder)?.parent;
            continue;
        }
        let target = match volume.lookup(folder, &part) {
            Ok(ino) => Some((ino, volume.inode(ino)?.kind)),
            Err(VolumeError::NotFound) if left.is_empty() => None,
            Err(error) => return Err(error),
        };
        match target {
            target if left.is_empty() => return Ok(Place { folder, name: part, target }),
            Some((ino, Kind::Symlink)) => {
                links += 1;
                if links > SYMLINKS_MAX {
                    return Err(VolumeError::TooManySymlinks);
                }
                let link = volume.read_link(ino)?;
                if link.starts_with(b"/") {
                    folder = Ino::ROOT_FOLDER;
                }
                for part in parts(&link).rev() {
                    left.push_front(part);
                }
            }
            Some((ino, Kind::Folder)) => folder = ino,
            _ => return Err(VolumeError::NotAFolder),
        }
    }
    Err(VolumeError::IsAFolder)
}

/// The one name that connections to a file should know it by: absolute, without dots and empty parts.
pub fn full(path: &[u8]) -> Vec<u8> {
    let mut kept: Vec<Vec<u8>> = Vec::new();
    for part in parts(path) {
        if part == b".." {
            kept.pop();
        } else {
            kept.push(part);
        }
    }
    let mut full = Vec::with_capacity(path.len() + 1);
    for part in &kept {
        full.push(b'/');
        full.extend_from_slice(part);
    }
    if full.is_empty() {
        full.push(b'/');
    }
    full
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_names_have_no_dots() {
        for (path, expected) in [
            ("test.db", "/test.db"),
            ("/a//b/./c", "/a/b/c"),
            ("a/../../b", "/b"),
            ("/", "/"),
            ("", "/"),
            ("/..hidden/...", "/..hidden/..."),
        ] {
            assert_eq!(full(path.as_bytes()), expected.as_bytes(), "{path}");
        }
    }
}
