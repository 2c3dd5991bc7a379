//! `aquifer probe` on emulated flash, and what can be done with its reports.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::Value;
use tempfile::TempDir;

use super::ground::{file, listed};
use super::{complaint, name, run, text};

/// Small enough to be simulated within seconds.
const FLASH: &str = "nand:size=32M,channels=1,dies=1,pages=32";

/// Measures the flash with a seed; the report is in the folder.
fn measured(seed: &str) -> (TempDir, PathBuf, Output) {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("report.json");
    let output = run(&["probe", FLASH, "--quick", "--seed", seed, "--report-json", name(&path)]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    (folder, path, output)
}

/// A report without what the clock on the wall and the machine say.
fn figures(path: &Path) -> Value {
    let mut report: Value = serde_json::from_slice(&fs::read(path).expect("written")).expect("JSON");
    for member in ["started_unix_s", "duration_s", "machine"] {
        assert!(!report[member].is_null(), "{member}");
        report[member] = Value::Null;
    }
    report["preconditioning"]["duration_s"] = Value::Null;
    report
}

/// All that is done with one run, which takes a while.
#[test]
fn the_same_seed_gives_the_same_figures_and_all_forms_of_them() {
    let (folder, first, output) = measured("7");
    let said = text(&output.stdout);
    assert!(
        said.contains("Flash probe of nand:") && said.contains("Random transfers of 4\u{a0}KiB"),
        "{said}"
    );
    let (_other_folder, second, _) = measured("7");
    assert_eq!(figures(&first), figures(&second));

    let comparison = run(&["probe", "compare", name(&first), name(&first)]);
    let said = text(&comparison.stdout);
    assert!(comparison.status.success(), "{}", text(&comparison.stderr));
    assert!(said.contains("0 loads faster, 0 slower") && said.contains("0 loads are in one report only"));

    let form = |name: &str| folder.path().join(name);
    let (html, markdown, csv, jobs) = (form("page.html"), form("page.md"), form("rounds.csv"), form("jobs"));
    let rendered = run(&[
        "probe",
        "render",
        name(&first),
        "--html",
        name(&html),
        "--markdown",
        name(&markdown),
        "--csv",
        name(&csv),
        "--fio",
        name(&jobs),
    ]);
    assert!(rendered.status.success(), "{}", text(&rendered.stderr));
    assert_eq!(rendered.stdout, output.stdout, "the summary is the same as after the run");
    let read = |path: &Path| fs::read_to_string(path).expect("written");
    assert!(read(&html).starts_with("<!DOCTYPE html>") && read(&html).contains("<svg "));
    assert!(read(&markdown).starts_with("# ") && read(&csv).lines().count() > 100);
    assert!(listed(&jobs).len() > 20);
    assert_eq!(listed(folder.path()).len(), 5, "nothing else is left: {:?}", listed(folder.path()));
}

#[test]
fn another_seed_gives_other_figures() {
    let (_first_folder, first, _) = measured("1");
    let (_second_folder, second, _) = measured("2");
    let (first, second) = (figures(&first), figures(&second));
    assert_ne!(first["steady"], second["steady"]);
    assert_eq!(first["target"]["name"], second["target"]["name"]);
}

/// Neither question takes what is no report; both say so in one line.
fn refused(path: &Path, part: &str) {
    let path = name(path);
    for arguments in [&["probe", "render", path][..], &["probe", "compare", path, path]] {
        let said = complaint(arguments);
        assert!(said.contains(part) && said.contains(path), "{arguments:?}: {said}");
    }
}

#[test]
fn what_is_no_report_is_refused() {
    const HEAD: &str = "{\"format\":\"aquifer-probe\",\"version\":1";
    let deep = "[".repeat(200_000);
    let deep_member = format!("{HEAD},\"notes\":{deep}");
    for (bytes, part) in [
        ("", "not a report"),
        ("{}", "not a report"),
        ("\u{0}\u{1b}[2J", "not a report"),
        (&deep, "not a report"),
        (&deep_member, "not a report"),
        ("{\"format\":\"aquifer-probe\",\"version\":1e999}", "not a report"),
        ("{\"format\":\"aquifer-probe\",\"version\":\"1\"}", "not a report"),
        (
            "{\"format\":\"aquifer-probe\",\"version\":2,\"new\":[]}",
            "version 2, and this program reads version 1",
        ),
        (&format!("{HEAD}}}"), "damaged: missing field"),
        (&format!("{HEAD},\"started_unix_s\":\"now\"}}"), "damaged: invalid type"),
        (&format!("{HEAD},\"seed\":1,\"seed\":1}}"), "damaged: duplicate field"),
        (&format!("{HEAD},\"surprise\":1}}"), "damaged: unknown field"),
        (&format!("{HEAD},\"duration_s\":1e999}}"), "damaged: number out of range"),
    ] {
        let (_folder, path) = file(bytes.as_bytes());
        refused(&path, part);
    }
    refused("/nowhere/report.json".as_ref(), "No such file");
}

#[test]
fn a_file_longer_than_any_report_is_refused() {
    let (_folder, path) = file(&[]);
    File::options().write(true).open(&path).and_then(|file| file.set_len(65 << 20)).expect("sparse");
    refused(&path, "longer than any report");
}
