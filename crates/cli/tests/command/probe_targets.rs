//! `aquifer probe` on targets that it must refuse, and what it says of them.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;

use tempfile::TempDir;

use super::ground::{LoopDevice, Mount, NOBODY, file, listed, open_to_all, skipped};
use super::{command, complaint, name, text};

#[test]
fn what_does_not_exist() {
    let said = complaint(&["probe", "/nowhere/at/all"]);
    assert!(said.contains("/nowhere/at/all does not exist; name a block device, a directory"), "{said}");
    let said = complaint(&["probe", "/dev/null"]);
    assert!(said.contains("neither a regular file nor a block device"), "{said}");
}

#[test]
fn parameters_that_make_no_sense() {
    for (parameters, part) in [
        ("nand:colour=blue", "there is no parameter 'colour'"),
        ("nand:op=7x", "op cannot be '7x'"),
        ("nand:size", "'size' is not key=value"),
        ("nand:size=1K", "too few for one block on each die"),
        ("nand:page=5000", "5000 bytes are no size of a page"),
        ("nand:op=0.001", "raise the over-provisioning"),
        ("nand:gc=0-choices", "gc cannot be '0-choices'"),
        ("nand:size=18446744073709551615", "size cannot be"),
        ("nand:size=8M,channels=1,dies=1,pages=16", "at least 16 MiB are needed"),
    ] {
        let said = complaint(&["probe", parameters]);
        assert!(said.contains("nand:") && said.contains(part), "{parameters}: {said}");
    }
    let said = complaint(&["probe", "nand:", "--beside", "/tmp"]);
    assert!(said.contains("/tmp cannot stand beside emulated flash"), "{said}");
}

#[test]
fn a_file_with_data_is_refused_and_stays() {
    let data = vec![7; 32 << 20];
    let (folder, path) = file(&data);
    let said = complaint(&["probe", name(&path), "--quick"]);
    assert!(said.contains("is a file of 32 MiB that would be overwritten"), "{said}");
    assert!(said.contains(&format!("--erase {}", path.display())), "{said}");
    let other = folder.path().join("other");
    let said = complaint(&["probe", name(&path), "--quick", "--erase", name(&other)]);
    let expected = format!("--erase {} was said, but the target is {}", other.display(), path.display());
    assert!(said.contains(&expected), "{said}");
    // What is named last counts as little as what is named first.
    complaint(&["probe", name(&path), "--quick", "--erase", name(&path), "--erase", name(&other)]);
    assert!(fs::read(&path).expect("there") == data, "a refused file was changed");
    assert_eq!(listed(folder.path()), ["file"]);
}

#[test]
fn a_small_file_is_too_small() {
    let (_folder, path) = file(&[7; 5000]);
    let said = complaint(&["probe", name(&path), "--erase", name(&path)]);
    assert!(said.contains("at least 16 MiB are needed"), "{said}");
    let (_folder, path) = file(&[]);
    complaint(&["probe", name(&path)]);
    assert_eq!(fs::metadata(&path).expect("there").len(), 0, "a refused file was changed");
}

/// Runs the command as a user that owns nothing; `None` where that is impossible. A test that does not run as
/// root keeps its own user.
fn complaint_as_nobody(test: &str, arguments: &[&str]) -> Option<String> {
    let mut probe = command(arguments);
    let is_root = fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0);
    if is_root {
        probe.uid(NOBODY).gid(NOBODY);
    }
    let output = match probe.output() {
        Ok(output) => output,
        Err(error) => {
            skipped(test, &format!("another user cannot run the command: {error}"));
            return None;
        }
    };
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.starts_with("aquifer: ") && said.lines().count() == 1, "{said}");
    Some(said)
}

#[test]
fn what_belongs_to_others() {
    const TEST: &str = "what_belongs_to_others";
    let (folder, path) = file(&[7; 32 << 20]);
    open_to_all(&folder);
    fs::set_permissions(&path, Permissions::from_mode(0o400)).expect("it is ours");
    let closed = folder.path().join("closed");
    fs::create_dir(&closed).expect("room");
    fs::set_permissions(&closed, Permissions::from_mode(0o555)).expect("it is ours");
    for arguments in
        [&["probe", name(&closed), "--quick"][..], &["probe", name(&path), "--erase", name(&path)]]
    {
        let Some(said) = complaint_as_nobody(TEST, arguments) else { return };
        assert!(said.contains("no permission to read and write"), "{said}");
    }
    let report = closed.join("report.json");
    let Some(said) =
        complaint_as_nobody(TEST, &["probe", "nand:", "--quick", "--report-json", name(&report)])
    else {
        return;
    };
    assert!(said.contains("report.json cannot be written: Permission denied"), "{said}");
    assert!(listed(&closed).is_empty());
}

#[test]
fn a_device_with_a_file_system_is_erased_only_when_it_is_named_and_a_mounted_one_never() {
    const TEST: &str = "a_device_with_a_file_system";
    let device = match LoopDevice::new(64 << 20).and_then(|device| device.format().map(|()| device)) {
        Ok(device) => device,
        Err(reason) => return skipped(TEST, &reason),
    };
    let path = name(&device.path);
    let said = complaint(&["probe", path, "--quick"]);
    assert!(said.contains("holds data (an ext file system)") && said.contains("--erase"), "{said}");
    let planned = ["probe", path, "--quick", "--erase", path, "--dry-run"];
    let output = super::run(&planned);
    let said = text(&output.stderr);
    assert!(output.status.success() && said.contains("destroy what is there"), "{said}");
    let mount = match device.mount() {
        Ok(mount) => mount,
        Err(reason) => return skipped(TEST, &reason),
    };
    for arguments in [&planned[..], &["probe", path, "--quick"], &["probe", path, "--erase", path]] {
        let said = complaint(arguments);
        assert!(said.contains(&format!("is in use (mounted at {})", mount.path().display())), "{said}");
    }
    // It is whole: nothing of all this has written to it.
    fs::write(mount.path().join("note"), "still there").expect("room");
    drop(mount);
    let mount = device.mount().expect("it was mounted before");
    assert_eq!(fs::read_to_string(mount.path().join("note")).expect("there"), "still there");
}

#[test]
fn a_full_file_system() {
    let mount = match Mount::tmpfs("size=24m") {
        Ok(mount) => mount,
        Err(reason) => return skipped("a_full_file_system", &reason),
    };
    let said = complaint(&["probe", name(mount.path()), "--quick"]);
    assert!(said.contains(", and at least 16 MiB are needed"), "{said}");
    fs::write(mount.path().join("ballast"), vec![1; 30 << 20]).expect_err("it has less room");
    let said = complaint(&["probe", name(mount.path()), "--quick"]);
    assert!(said.contains("0 are available; free some space"), "{said}");
    assert_eq!(listed(mount.path()), ["ballast"]);
}

#[test]
fn reports_that_cannot_be_written_are_told_before_the_run() {
    let folder = TempDir::new().expect("a folder");
    let taken = folder.path().join("taken");
    fs::write(&taken, "as it was").expect("room");
    let below = taken.join("report");
    for option in ["--report-json", "--html", "--markdown", "--csv", "--fio"] {
        // A folder that does not exist is made for job files, and below a file there is none.
        let said = complaint(&["probe", "nand:", "--quick", option, name(&below)]);
        assert!(said.contains("cannot be written: Not a directory"), "{option}: {said}");
    }
    for option in ["--report-json", "--html", "--markdown", "--csv"] {
        let said = complaint(&["probe", "nand:", "--quick", option, name(folder.path())]);
        assert!(said.contains("cannot be written: is a directory"), "{option}: {said}");
    }
    complaint(&["probe", "nand:", "--quick", "--report-json", "/nowhere/report.json"]);
    assert_eq!(fs::read_to_string(&taken).expect("there"), "as it was");
    assert_eq!(listed(folder.path()), ["taken"]);
}
