//! The socket of a process.
//!
//! A process is asked only at sockets where it listens itself: its environment may have come from a parent
//! that has the heap. Which sockets those are is in `/proc`: the inodes of its open files, and the kernel's
//! table of Unix sockets.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, ErrorKind, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::arguments::Target;
use crate::error::Error;

const VARIABLE: &str = "AQUIFER_SOCKET";
/// Longest file of `/proc` that is read.
const PROC_BYTES_MAX: u64 = 64 << 20;
/// `SO_ACCEPTCON` in the flags of the kernel's table: the socket listens.
const LISTENING: u32 = 1 << 16;

/// Path of the socket that `target` names; without a name, that of `AQUIFER_SOCKET`.
///
/// # Errors
/// [`Error`], which says how to make a program offer a socket.
pub fn socket_of(target: &Target) -> Result<PathBuf, Error> {
    match target {
        Target { socket: Some(path), .. } => Ok(path.clone()),
        Target { pid: Some(pid), .. } => socket_of_process(*pid),
        _ => {
            std::env::var_os(VARIABLE).filter(|path| !path.is_empty()).map(Into::into).ok_or(Error::NoTarget)
        }
    }
}

fn socket_of_process(pid: u32) -> Result<PathBuf, Error> {
    let explain = |error: io::Error| match error.kind() {
        ErrorKind::PermissionDenied => Error::ForeignProcess(pid),
        // A process that ends while it is looked at has no such files either.
        _ => Error::NoProcess(pid),
    };
    let home = PathBuf::from(format!("/proc/{pid}"));
    let environment = read(&home.join("environ")).map_err(explain)?;
    let inodes = socket_inodes(&home.join("fd")).map_err(explain)?;
    let table = read(&home.join("net/unix")).map_err(explain)?;
    let mut paths: Vec<PathBuf> = listening(&table)
        .filter(|(inode, _)| inodes.contains(inode))
        .map(|(_, path)| path.to_owned())
        .collect();
    paths.sort();
    let path = choose(pid, paths, setting(&environment))?;
    Ok(as_seen_from_here(&home, &path))
}

/// The socket to ask, of those where the process listens and the one that it was told of.
fn choose(pid: u32, mut paths: Vec<PathBuf>, told: Option<&Path>) -> Result<PathBuf, Error> {
    match told {
        Some(told) if paths.iter().any(|path| path == told) => Ok(told.to_owned()),
        _ if paths.len() > 1 => Err(Error::SeveralSockets { pid, paths }),
        _ => paths.pop().ok_or_else(|| match told {
            Some(told) => Error::NoHeap { pid, path: told.to_owned() },
            None => Error::NoSocket(pid),
        }),
    }
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    fs::File::open(path)?.take(PROC_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// `AQUIFER_SOCKET` in an environment as `/proc` shows it.
fn setting(environment: &[u8]) -> Option<&Path> {
    let prefix = [VARIABLE.as_bytes(), b"="].concat();
    let value = environment.split(|&byte| byte == 0).find_map(|entry| entry.strip_prefix(&prefix[..]))?;
    (!value.is_empty()).then(|| Path::new(OsStr::from_bytes(value)))
}

fn socket_inodes(open_files: &Path) -> io::Result<HashSet<u64>> {
    let mut inodes = HashSet::new();
    for file in fs::read_dir(open_files)? {
        // A file that is closed meanwhile is no socket.
        let Ok(link) = fs::read_link(file?.path()) else { continue };
        inodes.extend(link.to_str().and_then(inode_in_link));
    }
    Ok(inodes)
}

fn inode_in_link(link: &str) -> Option<u64> {
    link.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

/// Inode and path of each listening socket in the kernel's table that has a path in the file system.
fn listening(table: &[u8]) -> impl Iterator<Item = (u64, &Path)> {
    table.split(|&byte| byte == b'\n').filter_map(listening_in_line)
}

/// The columns are number, references, protocol, flags, type, state, inode and, behind one blank, the path.
/// Names that are in no file system begin with `@`.
fn listening_in_line(line: &[u8]) -> Option<(u64, &Path)> {
    let mut rest = line;
    let mut columns = [""; 7];
    for column in &mut columns {
        let (word, behind) = next_word(rest)?;
        *column = std::str::from_utf8(word).ok()?;
        rest = behind;
    }
    let listens = u32::from_str_radix(columns[3], 16).ok()? & LISTENING != 0;
    let path = rest.strip_prefix(b" ").filter(|path| !path.is_empty() && path[0] != b'@')?;
    let inode = columns[6].parse().ok().filter(|_| listens)?;
    Some((inode, Path::new(OsStr::from_bytes(path))))
}

fn next_word(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let text = text.trim_ascii_start();
    let end = text.iter().position(|&byte| byte == b' ').unwrap_or(text.len());
    (end > 0).then(|| text.split_at(end))
}

/// The path by which this process reaches a socket that a process calls `path`, which may have another
/// working directory and another root.
fn as_seen_from_here(home: &Path, path: &Path) -> PathBuf {
    if path.is_relative() {
        return home.join("cwd").join(path);
    }
    let inside = home.join("root").join(path.strip_prefix("/").unwrap_or(path));
    let identity = |path: &Path| fs::metadata(path).map(|meta| (meta.dev(), meta.ino())).ok();
    match identity(&inside) {
        // Sockets have short paths, so the direct way is taken where there is one.
        Some(there) if identity(path) != Some(there) => inside,
        _ => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &[u8] = b"Num       RefCount Protocol Flags    Type St Inode Path\n\
        0000000000000000: 00000002 00000000 00010000 0001 01   901 /run/with a blank.sock\n\
        0000000000000000: 00000002 00000000 00010000 0001 01 12345 @/tmp/abstract\n\
        0000000000000000: 00000003 00000000 00000000 0001 03 23456 /run/connected.sock\n\
        0000000000000000: 00000003 00000000 00000000 0001 03 34567\n\
        0000000000000000: 00000002 00000000 00010000 0001 01 45678 relative.sock\n";

    #[test]
    fn only_listening_sockets_with_a_file_count() {
        let found: Vec<_> = listening(TABLE).collect();
        assert_eq!(found, [(901, Path::new("/run/with a blank.sock")), (45678, Path::new("relative.sock"))]);
    }

    #[test]
    fn the_setting_is_one_variable_of_many() {
        let environment = b"HOME=/root\0MY_AQUIFER_SOCKET=/no\0AQUIFER_SOCKET=/tmp/a b\0AQUIFER_RAM=1\0";
        assert_eq!(setting(environment), Some(Path::new("/tmp/a b")));
        assert_eq!(setting(b"AQUIFER_SOCKET=\0"), None);
        assert_eq!(setting(b""), None);
    }

    #[test]
    fn a_process_is_not_asked_at_the_socket_of_another() {
        let (a, b) = (PathBuf::from("/a"), PathBuf::from("/b"));
        let told = Some(Path::new("/a"));
        assert_eq!(choose(1, vec![a.clone(), b.clone()], told).unwrap(), a);
        assert_eq!(choose(1, vec![b.clone()], told).unwrap(), b);
        assert!(matches!(choose(1, vec![], told), Err(Error::NoHeap { pid: 1, .. })));
        assert!(matches!(choose(1, vec![], None), Err(Error::NoSocket(1))));
        assert!(matches!(choose(1, vec![a, b], None), Err(Error::SeveralSockets { pid: 1, .. })));
    }

    #[test]
    fn a_process_that_is_not_there() {
        let target = Target { pid: Some(u32::MAX), socket: None };
        assert!(matches!(socket_of(&target), Err(Error::NoProcess(u32::MAX))));
    }
}
