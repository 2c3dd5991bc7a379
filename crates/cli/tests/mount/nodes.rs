//! Pipes, sockets and devices: names in the folder, and the kernel's for the rest.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::Command;
use std::thread;

use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
use rustix::io::Errno;

use crate::ground::{Mount, VOLUME_BYTES, cannot_mount, fails, is_root, skipped};

fn make(at: &Path, kind: FileType, device: u64) -> rustix::io::Result<()> {
    mknodat(CWD, at, kind, Mode::from_raw_mode(0o640), device)
}

pub fn pipes_carry_bytes(at: &Path) {
    let pipe = at.join("pipe");
    make(&pipe, FileType::Fifo, 0).expect("a pipe");
    let metadata = fs::symlink_metadata(&pipe).expect("it is there");
    assert!(metadata.file_type().is_fifo());
    assert_eq!((metadata.mode() & 0o7777, metadata.nlink(), metadata.len()), (0o640, 1, 0));
    thread::scope(|scope| {
        let path = &pipe;
        scope.spawn(move || {
            File::create(path).and_then(|mut end| end.write_all(b"through")).expect("written")
        });
        let mut read = String::new();
        File::open(path).and_then(|mut end| end.read_to_string(&mut read)).expect("it reads");
        assert_eq!(read, "through");
    });
    fails(make(&pipe, FileType::Fifo, 0), Errno::EXIST);
    fs::hard_link(&pipe, at.join("other")).expect("another name");
    fs::rename(&pipe, at.join("renamed")).expect("it moves");
    fs::remove_file(at.join("renamed")).expect("it goes");
    assert_eq!(fs::metadata(at.join("other")).expect("it is there").nlink(), 1);
}

pub fn sockets_are_connected_to(at: &Path) {
    let socket = at.join("socket");
    let listener = UnixListener::bind(&socket).expect("a socket");
    assert!(fs::symlink_metadata(&socket).expect("it is there").file_type().is_socket());
    let mut near = UnixStream::connect(&socket).expect("it is found");
    let (mut far, _) = listener.accept().expect("it came");
    near.write_all(b"hello").expect("it writes");
    let mut read = [0; 5];
    far.read_exact(&mut read).expect("it reads");
    assert_eq!(&read, b"hello");
    fails(File::open(&socket), Errno::NXIO);
    fs::remove_file(&socket).expect("it goes");
    fails(UnixStream::connect(&socket), Errno::NOENT);
}

pub fn devices_keep_their_numbers(at: &Path) {
    if !is_root() {
        return skipped("devices_keep_their_numbers", "only root can make devices");
    }
    for (name, kind, major, minor) in [
        ("null", FileType::CharacterDevice, 1, 3),
        ("disk", FileType::BlockDevice, 259, 70_000),
        ("last", FileType::CharacterDevice, 0xfff, 0xf_ffff),
    ] {
        make(&at.join(name), kind, makedev(major, minor)).expect("a device");
        let metadata = fs::symlink_metadata(at.join(name)).expect("it is there");
        assert_eq!(metadata.rdev(), makedev(major, minor), "{name}");
        assert_eq!(metadata.file_type().is_char_device(), kind == FileType::CharacterDevice, "{name}");
        assert_eq!(metadata.file_type().is_block_device(), kind == FileType::BlockDevice, "{name}");
    }
    let mut listed: Vec<_> = fs::read_dir(at).expect("it lists").map(|entry| entry.expect("one")).collect();
    listed.sort_by_key(fs::DirEntry::file_name);
    let is_char: Vec<bool> =
        listed.iter().map(|entry| entry.file_type().expect("known").is_char_device()).collect();
    assert_eq!(is_char, [false, true, true]);
}

/// What the command shows of them, and leaves out of a copy.
#[test]
fn the_command_shows_them() {
    if let Some(reason) = cannot_mount() {
        return skipped("the_command_shows_them", &reason);
    }
    let mut mount = Mount::new(VOLUME_BYTES);
    make(&mount.folder.join("pipe"), FileType::Fifo, 0).expect("a pipe");
    drop(UnixListener::bind(mount.folder.join("socket")).expect("a socket"));
    if is_root() {
        make(&mount.folder.join("tty"), FileType::CharacterDevice, makedev(5, 1)).expect("a device");
    }
    fs::write(mount.folder.join("file"), "bytes").expect("a file");
    mount.stop();
    let run = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_aquifer")).arg("volume").args(arguments).output();
        let output = output.expect("it runs");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let image = mount.image.to_str().expect("text").to_owned();
    let (status, listed, _) = run(&["ls", "-l", &image]);
    assert_eq!(status, Some(0));
    let letters: Vec<_> = listed.lines().map(|line| &line[..1]).collect();
    assert_eq!(letters, if is_root() { vec!["-", "p", "s", "c"] } else { vec!["-", "p", "s"] }, "{listed}");
    assert!(run(&["stat", &format!("{image}:/pipe")]).1.contains("kind     pipe,"));
    if is_root() {
        assert!(listed.contains(" 5, 1 "), "{listed}");
        assert!(run(&["stat", &format!("{image}:/tty")]).1.contains("character device 5, 1,"));
        assert!(run(&["stat", "--json", &format!("{image}:/tty")]).1.contains("\"device\":[5,1]"));
    }
    let out = mount.around().join("out");
    let (status, _, said) = run(&["cp", "-r", &format!("{image}:/"), out.to_str().expect("text")]);
    assert_eq!((status, said.lines().count()), (Some(1), if is_root() { 3 } else { 2 }), "{said}");
    assert_eq!(fs::read(out.join("file")).expect("it came"), b"bytes");
    assert_eq!(fs::read_dir(&out).expect("it lists").count(), 1);
    mount.start(&[]);
    fs::remove_file(mount.folder.join("socket")).expect("it goes");
    assert!(fs::symlink_metadata(mount.folder.join("pipe")).expect("it stayed").file_type().is_fifo());
    mount.end();
}
