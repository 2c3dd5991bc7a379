//! Where a file is: on the host, or in a volume.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// A path in a volume, as in `data.vol:/a/b`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    /// The file or block device.
    pub volume: PathBuf,
    /// The path in it, which is never empty.
    pub path: Vec<u8>,
}

impl Place {
    /// The place that an argument names: what stands before the first colon that ends it, or that has a slash behind it, is the volume.
    fn parse(argument: &OsStr) -> Option<Self> {
        let bytes = argument.as_bytes();
        let colon = (1..bytes.len())
            .find(|&at| bytes[at] == b':' && bytes.get(at + 1).is_none_or(|byte| *byte == b'/'))?;
        let volume = OsStr::from_bytes(&bytes[..colon]).into();
        let path = if colon + 1 == bytes.len() { b"/" } else { &bytes[colon + 1..] };
        Some(Place { volume, path: path.to_vec() })
    }

    /// Another path of the same volume.
    pub fn with_path(&self, path: &[u8]) -> Self {
        Place { volume: self.volume.clone(), path: path.to_vec() }
    }

    /// As it is shown.
    pub fn shown(&self) -> String {
        format!("{}:{}", self.volume.display(), String::from_utf8_lossy(&self.path))
    }
}

impl From<OsString> for Place {
    /// A volume alone stands for its first folder.
    fn from(argument: OsString) -> Self {
        Self::parse(&argument).unwrap_or_else(|| Place { volume: argument.into(), path: b"/".to_vec() })
    }
}

/// A path with a name behind it.
pub fn joined(path: &[u8], name: &[u8]) -> Vec<u8> {
    let slash: &[u8] = if path.ends_with(b"/") { b"" } else { b"/" };
    [path, slash, name].concat()
}

/// The last name of a path, if it ends with one.
pub fn last_name(path: &[u8]) -> Option<&[u8]> {
    let name = path.split(|byte| *byte == b'/').rfind(|name| !name.is_empty())?;
    (name != b"." && name != b"..").then_some(name)
}

/// A path of the host, or a place in a volume.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum HostOrVolume {
    /// On the host.
    Host(PathBuf),
    /// In a volume.
    Volume(Place),
}

impl From<OsString> for HostOrVolume {
    fn from(argument: OsString) -> Self {
        match Place::parse(&argument) {
            Some(place) => Self::Volume(place),
            None => Self::Host(argument.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_end_with_names() {
        for (path, name) in [
            (&b"/a/b"[..], Some(&b"b"[..])),
            (b"a//", Some(b"a")),
            (b"/", None),
            (b"", None),
            (b"/a/..", None),
            (b"./", None),
        ] {
            assert_eq!(last_name(path), name);
        }
        assert_eq!((joined(b"/", b"a"), joined(b"/a", b"b")), (b"/a".to_vec(), b"/a/b".to_vec()));
    }

    #[test]
    fn a_colon_parts_volume_and_path() {
        for (argument, volume, path) in [
            ("a.vol", "a.vol", "/"),
            ("a.vol:", "a.vol", "/"),
            ("a.vol:/", "a.vol", "/"),
            ("/x/a.vol:/b/c", "/x/a.vol", "/b/c"),
            ("a.vol:/b:/c", "a.vol", "/b:/c"),
            ("a:b.vol:/c", "a:b.vol", "/c"),
            (":/c", ":/c", "/"),
        ] {
            let place = Place::from(OsString::from(argument));
            assert_eq!(place, Place { volume: volume.into(), path: path.into() }, "{argument}");
        }
        for host in ["a", "/a/b", "a:b", ":", ":/a"] {
            assert_eq!(HostOrVolume::from(OsString::from(host)), HostOrVolume::Host(host.into()), "{host}");
        }
        assert!(matches!(HostOrVolume::from(OsString::from("a:/")), HostOrVolume::Volume(_)));
    }
}
