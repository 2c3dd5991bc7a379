//! Job files that the real fio reads.

mod fixture;

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use aquifer_probe::fio;

/// What fio says to some job files; none if there is no fio.
fn parsed(files: &[PathBuf]) -> Option<Output> {
    match Command::new("fio").arg("--parse-only").args(files).output() {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            println!("SKIP fio is not installed (Debian package fio)");
            None
        }
        output => Some(output.expect("fio can be started")),
    }
}

fn written() -> (tempfile::TempDir, Vec<PathBuf>) {
    let folder = tempfile::tempdir().expect("there is room");
    let target = folder.path().join("target:1");
    let files = fio::write_all(&fixture::report(), &target, folder.path()).expect("the folder is writable");
    (folder, files)
}

#[test]
fn every_load_has_a_file() {
    let (folder, files) = written();
    let report = fixture::report();
    let writers = report.interference.iter().filter(|test| test.writer.is_some()).count();
    assert_eq!(files.len(), report.measurements().count() - writers);
    let names: std::collections::HashSet<_> = files.iter().collect();
    assert_eq!(names.len(), files.len());
    assert!(files.iter().all(|file| file.parent() == Some(folder.path())));
    let beside = files.iter().map(|file| fs::read_to_string(file).expect("it was written"));
    assert_eq!(beside.filter(|text| text.contains("[writer]")).count(), writers);
}

#[test]
fn fio_reads_every_file() {
    let (folder, files) = written();
    let Some(output) = parsed(&files) else { return };
    assert!(output.status.success(), "{output:?}");
    assert!(!folder.path().join("target:1").exists(), "nothing was to be run");
}

#[test]
fn fio_finds_what_is_wrong() {
    // Otherwise the test above could not fail.
    let folder = tempfile::tempdir().expect("there is room");
    let file = folder.path().join("wrong.fio");
    fs::write(&file, "[load]\nrw=randsideways\nsize=4k\n").expect("there is room");
    let Some(output) = parsed(&[file]) else { return };
    assert!(!output.status.success(), "{output:?}");
}

#[test]
fn fio_uses_the_named_file() {
    let folder = tempfile::tempdir().expect("there is room");
    let target = folder.path().join("a:b c");
    let job = aquifer_probe::report::Job { span_bytes: 1 << 16, ..fixture::report().matrix[0].job.clone() };
    let text = fio::job_file(&job, &target, 1.0).expect("the name is plain");
    // As written but without the clock, the kernel's queue and direct access, which not every machine has.
    let text = text
        .replace("time_based=1\nruntime=1\n", "")
        .replace("ioengine=io_uring\ndirect=1", "ioengine=psync")
        .replace("iodepth=", "iodepth_batch=");
    let file = folder.path().join("load.fio");
    fs::write(&file, text).expect("there is room");
    if parsed(&[]).is_none() {
        return;
    }
    let output =
        Command::new("fio").arg(&file).current_dir(folder.path()).output().expect("fio can be started");
    assert!(output.status.success(), "{output:?}");
    assert_eq!(fs::metadata(&target).expect("fio has made it").len(), 1 << 16);
}

#[test]
fn a_name_that_fio_would_misread_is_refused() {
    let folder = tempfile::tempdir().expect("there is room");
    let error = fio::write_all(&fixture::report(), Path::new("/dev/sda#1"), folder.path()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert_eq!(fs::read_dir(folder.path()).expect("it is there").count(), 0);
}
