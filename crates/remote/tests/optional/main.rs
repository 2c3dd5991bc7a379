//! libfabric, which the build finds if it is there, and finds again when it comes or goes.

#[path = "../../build/places.rs"]
mod places;
mod scratch;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use places::{Places, VARIABLES};
use scratch::{Installed, Scratch};
use tempfile::TempDir;

/// Folders of a machine: `pc` and `include/rdma` are there and empty.
fn machine() -> TempDir {
    let machine = TempDir::new().expect("a folder");
    fs::create_dir(machine.path().join("pc")).expect("made");
    fs::create_dir_all(machine.path().join("include/rdma")).expect("made");
    machine
}

/// Places by these variables, on a machine whose pkg-config looks into `/own`.
fn places(variables: &[(&str, &Path)]) -> Places {
    let is_told = |(name, _): &(&str, &Path)| VARIABLES.contains(name);
    assert!(variables.iter().all(is_told), "cargo is told of each variable that counts");
    let value =
        |name: &str| variables.iter().find(|(variable, _)| *variable == name).map(|(_, value)| *value);
    Places::new(|name| value(name).map(OsString::from), Some("/own"))
}

#[test]
fn folders_are_watched_while_the_library_is_missing_and_only_those_that_are_there() {
    let machine = machine();
    let at = |name: &str| machine.path().join(name);
    let both =
        at("nowhere").into_os_string().into_string().expect("text") + ":" + at("pc").to_str().expect("text");
    let places = places(&[("PKG_CONFIG_PATH", Path::new(&both)), ("CPATH", &at("include"))]);
    let watched = places.folders("rdma/made-up.h");
    assert!(watched.contains(&at("pc")) && watched.contains(&at("include/rdma")), "{watched:?}");
    assert!(
        watched.iter().all(|folder| folder.is_dir()),
        "cargo takes what is missing for changed: {watched:?}"
    );
    // The folder that its headers will be in is made with them, but not in the one of all headers.
    let watched = places.folders("made-up/made-up.h");
    assert!(
        watched.contains(&at("include")) && !watched.contains(&PathBuf::from("/usr/include")),
        "{watched:?}"
    );
}

#[test]
fn files_are_watched_once_the_library_is_there() {
    let machine = machine();
    let at = |name: &str| machine.path().join(name);
    let places = places(&[("PKG_CONFIG_LIBDIR", &at("pc")), ("C_INCLUDE_PATH", &at("include"))]);
    let files = || places.files("made-up", "rdma/made-up.h", &[at("found")]);
    assert!(files().is_empty());
    fs::write(at("pc/made-up.pc"), "").expect("written");
    fs::write(at("include/rdma/made-up.h"), "").expect("written");
    assert_eq!(files(), [at("pc/made-up.pc"), at("include/rdma/made-up.h")]);
    // What pkg-config named comes first.
    fs::create_dir_all(at("found/rdma")).expect("made");
    fs::write(at("found/rdma/made-up.h"), "").expect("written");
    assert_eq!(files(), [at("pc/made-up.pc"), at("found/rdma/made-up.h")]);
}

#[test]
fn without_pkg_config_the_usual_folders_count() {
    let asked = Places::new(|_| None, Some("/own:/other"));
    let told = Places::new(|_| None, None);
    let empty = Places::new(|_| None, Some(""));
    let folders = |places: &Places| format!("{places:?}");
    assert!(
        folders(&asked).contains("\"/own\", \"/other\"") && !folders(&asked).contains("/usr/share/pkgconfig")
    );
    assert!(folders(&told).contains("/usr/share/pkgconfig"));
    assert_eq!(folders(&told), folders(&empty));
}

/// The build script itself, in a crate that has nothing else, before and after headers come and go. They are as old as those of packages.
#[test]
fn headers_that_come_and_go_are_noticed_and_nothing_is_built_again_meanwhile() {
    let machine = machine();
    let scratch = match Scratch::new(machine.path()) {
        Ok(scratch) => scratch,
        Err(reason) => {
            println!("SKIP headers_that_come_and_go: {reason}");
            return;
        }
    };
    let has_transport = |build: scratch::Built| (build.has_fabric, build.is_fresh);
    assert_eq!(has_transport(scratch.build()), (false, false));
    assert_eq!(has_transport(scratch.build()), (false, true), "nothing has changed");
    for way in [Installed::ByPkgConfig, Installed::WhereCompilersLook] {
        scratch.install(way);
        assert_eq!(has_transport(scratch.build()), (true, false), "{way:?}");
        assert_eq!(has_transport(scratch.build()), (true, true), "{way:?}, nothing has changed");
        scratch.remove(way);
        let without = scratch.build();
        assert!(without.said.contains("apt-get install libfabric-dev"), "{}", without.said);
        assert_eq!(has_transport(without), (false, false), "{way:?}");
        assert_eq!(has_transport(scratch.build()), (false, true), "{way:?}, nothing has changed");
    }
}

/// A description of headers that cannot be used is no reason to say that they are missing.
#[test]
fn headers_that_cannot_be_used_are_told_from_missing_ones() {
    let machine = machine();
    let Ok(scratch) = Scratch::new(machine.path()) else {
        println!("SKIP headers_that_cannot_be_used: see headers_that_come_and_go");
        return;
    };
    scratch.describe();
    let build = scratch.build();
    assert!(build.said.contains("libfabric 9.9 is here"), "{}", build.said);
    assert!(!build.has_fabric);
}
