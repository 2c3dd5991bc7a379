//! From mounting to unmounting.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Signal, kill_process};

use crate::ground::{Mount, VOLUME_BYTES, cannot_mount, fails, is_root, skipped};

/// A test that needs mounts: `None` if there can be none.
fn mount(test: &str) -> Option<Mount> {
    match cannot_mount() {
        None => Some(Mount::new(VOLUME_BYTES)),
        Some(reason) => {
            skipped(test, &reason);
            None
        }
    }
}

fn unmount(mount: &Mount) {
    let mut command = if is_root() { Command::new("umount") } else { Command::new("fusermount3") };
    if !is_root() {
        command.arg("-u");
    }
    assert!(command.arg(&mount.folder).status().expect("it runs").success());
}

#[test]
fn what_was_written_is_there_again() {
    let Some(mut mount) = mount("what_was_written_is_there_again") else { return };
    fs::create_dir_all(mount.folder.join("a/b")).expect("folders");
    fs::write(mount.folder.join("a/b/file"), vec![7; 100_000]).expect("a file");
    unmount(&mount);
    assert!(mount.wait().success());
    assert_eq!(fs::read_dir(&mount.folder).expect("it lists").count(), 0);
    mount.check();
    mount.start(&[]);
    assert_eq!(fs::read(mount.folder.join("a/b/file")).expect("it is there"), vec![7; 100_000]);
    mount.end();
}

/// The process in the background has another folder than who started it: paths are those of its caller.
#[test]
fn a_mount_in_the_background_tells_its_numbers() {
    let Some(mut mount) = mount("a_mount_in_the_background_tells_its_numbers") else { return };
    mount.stop();
    let around = mount.around().to_owned();
    let aquifer = |arguments: &[&str]| {
        let output =
            Command::new(env!("CARGO_BIN_EXE_aquifer")).args(arguments).current_dir(&around).output();
        let output = output.expect("it runs");
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let (image, folder) = (mount.image.to_str().expect("text"), mount.folder.to_str().expect("text"));
    aquifer(&["volume", "mount", image, folder, "--socket", "./status.sock"]);
    fs::write(mount.folder.join("file"), vec![7; 100_000]).expect("a file");
    File::open(mount.folder.join("file")).and_then(|file| file.sync_all()).expect("it syncs");
    let told = aquifer(&["stats", "--socket", "./status.sock"]);
    assert!(told.starts_with("volume of process ") && told.contains("written whole"), "{told}");
    unmount(&mount);
    let is_gone = (0..6000).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        !around.join("status.sock").exists()
    });
    assert!(is_gone, "the socket is left");
    mount.check();
}

#[test]
fn for_reading_alone() {
    let Some(mut mount) = mount("for_reading_alone") else { return };
    fs::write(mount.folder.join("file"), "bytes").expect("a file");
    mount.stop();
    let before = fs::read(&mount.image).expect("it reads");
    mount.start(&["--read-only"]);
    let file = mount.folder.join("file");
    assert_eq!(fs::read(&file).expect("it is there"), b"bytes");
    fails(fs::write(&file, "new"), Errno::ROFS);
    fails(fs::remove_file(&file), Errno::ROFS);
    fails(fs::create_dir(mount.folder.join("folder")), Errno::ROFS);
    mount.stop();
    assert!(fs::read(&mount.image).expect("it reads") == before, "the volume was written");
}

/// The first signal takes the folder away; the process goes on until what is open is closed.
#[test]
fn open_files_outlive_the_folder() {
    let Some(mut mount) = mount("open_files_outlive_the_folder") else { return };
    let mut file = File::create_new(mount.folder.join("file")).expect("it is made");
    file.write_all(b"before ").expect("it writes");
    kill_process(mount.server(), Signal::TERM).expect("it runs");
    while mount.folder.join("file").exists() {
        std::thread::yield_now();
    }
    file.write_all(b"after").expect("it writes still");
    file.sync_all().expect("it syncs still");
    drop(file);
    assert!(mount.wait().success());
    mount.start(&[]);
    assert_eq!(fs::read(mount.folder.join("file")).expect("it is there"), b"before after");
    mount.end();
}

#[test]
fn a_second_signal_waits_for_nobody() {
    let Some(mut mount) = mount("a_second_signal_waits_for_nobody") else { return };
    let mut file = File::create_new(mount.folder.join("file")).expect("it is made");
    file.write_all(b"bytes").expect("it writes");
    kill_process(mount.server(), Signal::TERM).expect("it runs");
    while mount.folder.join("file").exists() {
        std::thread::yield_now();
    }
    // A signal that comes at once belongs to the first.
    while mount.is_running() {
        kill_process(mount.server(), Signal::TERM).expect("it runs");
        std::thread::sleep(Duration::from_millis(1500));
    }
    assert!(mount.wait().success());
    assert!(file.write_all(b"more").is_err());
    drop(file);
    mount.check();
    mount.start(&[]);
    assert_eq!(fs::read(mount.folder.join("file")).expect("it is there"), b"bytes");
    mount.end();
}

#[test]
fn files_of_the_folder_are_hidden_by_wish_alone() {
    if let Some(reason) = cannot_mount() {
        return skipped("files_of_the_folder_are_hidden_by_wish_alone", &reason);
    }
    let mut mount = Mount::unmounted(VOLUME_BYTES);
    let file = mount.folder.join("file");
    fs::write(&file, "of the folder").expect("a file");
    for way in [&[][..], &["--foreground"]] {
        let refused = mount.command(way).output().expect("it runs");
        let said = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{said}");
        assert!(said.contains("is not empty") && said.contains("--nonempty"), "{said}");
        assert_eq!(fs::read(&file).expect("it is there"), b"of the folder");
    }
    mount.start(&["--nonempty"]);
    assert!(!file.exists());
    mount.stop();
    let output = mount.command(&["--nonempty"]).output().expect("it runs");
    assert!(output.status.success() && !file.exists(), "{output:?}");
    unmount(&mount);
    assert_eq!(fs::read(&file).expect("it is there"), b"of the folder");
}

/// `timeout` sends its signal to the process and to its group.
#[test]
fn signals_in_quick_succession_are_one() {
    let Some(mut mount) = mount("signals_in_quick_succession_are_one") else { return };
    let mut file = File::create_new(mount.folder.join("file")).expect("it is made");
    // Both wait for the process.
    kill_process(mount.server(), Signal::STOP).expect("it runs");
    for signal in [Signal::TERM, Signal::INT, Signal::CONT] {
        kill_process(mount.server(), signal).expect("it runs");
    }
    while mount.folder.join("file").exists() {
        std::thread::yield_now();
    }
    file.write_all(b"bytes").and_then(|()| file.sync_all()).expect("it is served");
    drop(file);
    assert!(mount.wait().success());
}

/// After the volume's device refused a write, what is there can be read and nothing can be changed.
#[test]
fn a_failed_write_ends_all_changes() {
    if let Some(reason) = cannot_mount() {
        return skipped("a_failed_write_ends_all_changes", &reason);
    }
    let mut mount = Mount::unmounted(VOLUME_BYTES);
    // Of the volume's file only the first 64 MiB can be written.
    mount.start_limited(64 << 20);
    let (first, file) = (mount.folder.join("first"), mount.folder.join("file"));
    fs::write(&first, vec![1; 100_000]).and_then(|()| File::open(&first)?.sync_all()).expect("there is room");
    let mut writing = File::create_new(&file).expect("it is made");
    let error = loop {
        if let Err(error) = writing.write_all(&[2; 1 << 20]).and_then(|()| writing.sync_all()) {
            break error;
        }
    };
    assert!(
        [Errno::IO, Errno::ROFS].iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error())),
        "{error}"
    );
    fails(writing.write_all(b"more"), Errno::ROFS);
    fails(fs::write(mount.folder.join("other"), ""), Errno::ROFS);
    fails(fs::remove_file(&first), Errno::ROFS);
    fails(writing.sync_all(), Errno::ROFS);
    assert_eq!(fs::read(&first).expect("it is there"), vec![1; 100_000]);
    drop(writing);
    kill_process(mount.server(), Signal::TERM).expect("it runs");
    assert_eq!(mount.wait().code(), Some(2));
    mount.start(&[]);
    assert_eq!(fs::read(&first).expect("it is there"), vec![1; 100_000]);
    mount.end();
}

/// What was written long ago is durable also without a sync of the program's.
#[test]
fn time_makes_durable() {
    if let Some(reason) = cannot_mount() {
        return skipped("time_makes_durable", &reason);
    }
    let mut mount = Mount::unmounted(VOLUME_BYTES);
    mount.start(&["--sync", "1"]);
    fs::write(mount.folder.join("file"), "bytes").expect("a file");
    // The image changes only by a sync that nobody asked for; how long that takes decides nothing.
    let before = fs::read(&mount.image).expect("it reads");
    while fs::read(&mount.image).expect("it reads") == before {
        std::thread::yield_now();
    }
    // A sync that began before the file was made may have changed the image; the next one certainly contains
    // the file.
    fs::write(mount.folder.join("other"), "").expect("a file");
    let before = fs::read(&mount.image).expect("it reads");
    while fs::read(&mount.image).expect("it reads") == before {
        std::thread::yield_now();
    }
    mount.crash();
    mount.start(&[]);
    assert_eq!(fs::read(mount.folder.join("file")).expect("it is there"), b"bytes");
    mount.end();
}

/// Without `--foreground` the command ends when the folder can be used, and its caller's pipes are let go.
#[test]
fn in_the_background() {
    if let Some(reason) = cannot_mount() {
        return skipped("in_the_background", &reason);
    }
    let mount = Mount::unmounted(VOLUME_BYTES);
    let output = mount.command(&[]).output().expect("it runs");
    assert!(output.status.success(), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("is mounted at"));
    fs::write(mount.folder.join("file"), "bytes").expect("a file");
    let second = mount.command(&[]).output().expect("it runs");
    assert_eq!(second.status.code(), Some(2), "{second:?}");
    unmount(&mount);
    // The server closes the volume after the folder is gone; who opens it then waits for the lock by trying.
    loop {
        match aquifer_volume::image::open_medium(&mount.image) {
            Ok(medium) => break drop(medium),
            Err(error) => assert_eq!(error.errno(), libc_busy(), "{error}"),
        }
    }
    mount.check();
}

fn libc_busy() -> i32 {
    Errno::BUSY.raw_os_error()
}

#[test]
fn what_cannot_be_mounted_is_said() {
    let Some(mut mount) = mount("what_cannot_be_mounted_is_said") else { return };
    mount.stop();
    let complaint = |image: &std::path::Path, at: &std::path::Path| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_aquifer"));
        let mut child = command
            .args(["volume", "mount"])
            .arg(image)
            .arg(at)
            .stderr(Stdio::piped())
            .spawn()
            .expect("it runs");
        let mut said = String::new();
        child.stderr.take().expect("it is piped").read_to_string(&mut said).expect("it says something");
        assert_eq!(child.wait().expect("it ends").code(), Some(2), "{said}");
        said
    };
    let none = mount.around().join("none");
    assert!(complaint(&mount.image, &none).contains("cannot be mounted on"));
    assert!(complaint(&mount.image, &mount.image).contains("Not a directory"));
    assert!(complaint(&none, &mount.folder).contains("none"));
    fs::write(mount.around().join("text"), vec![b'x'; 1 << 20]).expect("a file");
    assert!(complaint(&mount.around().join("text"), &mount.folder).contains("not a volume"));
}
