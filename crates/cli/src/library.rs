//! The libraries that come with the command: where they are.

use std::env;
use std::path::{Path, PathBuf};

use crate::error::Error;

/// Stands in front of the C library under `aquifer run`.
pub const PRELOAD: &str = "libaquifer_preload.so";
/// Gives SQLite databases on volumes.
pub const SQLITE: &str = "libaquifer_sqlite.so";
/// Serves block devices by nbdkit.
pub const NBDKIT: &str = "libaquifer_nbdkit.so";

/// Where libraries are, seen from the folder of the command: in a build, and installed.
const BESIDE: [&str; 3] = [".", "../lib", "../lib/aquifer"];
/// Names another library to stand in front.
const VARIABLE: &str = "AQUIFER_PRELOAD";

/// The library `name` of the same installation as this command; of [`PRELOAD`] the one that the environment names.
///
/// # Errors
/// [`Error::NoLibrary`], [`Error::NamedLibrary`].
pub fn find(name: &'static str) -> Result<PathBuf, Error> {
    if let Some(path) = env::var_os(VARIABLE).filter(|path| name == PRELOAD && !path.is_empty()) {
        return named(path.into());
    }
    let own = own_path();
    let beside = own.parent().unwrap_or(&own);
    find_beside(beside, name).ok_or_else(|| Error::NoLibrary { name, beside: beside.to_owned() })
}

/// Where this command is. Without /proc the kernel does not tell; then it is what it was started as.
fn own_path() -> PathBuf {
    let started_as = || {
        let name = PathBuf::from(env::args_os().next().unwrap_or_default());
        if name.components().count() > 1 {
            Some(name)
        } else {
            crate::version::libraries::program(name.to_str()?)
        }
    };
    env::current_exe().ok().or_else(started_as).unwrap_or_default()
}

/// A library that the loader would not find is left out by it, and the program run without.
fn named(path: PathBuf) -> Result<PathBuf, Error> {
    if path.is_file() { Ok(path) } else { Err(Error::NamedLibrary { path }) }
}

fn find_beside(folder: &Path, name: &str) -> Option<PathBuf> {
    let places = BESIDE.map(|beside| folder.join(beside).join(name));
    places.iter().find(|place| place.is_file())?.canonicalize().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_library_that_is_named_must_be_there() {
        let here = env::current_exe().expect("a test is a program");
        assert_eq!(named(here.clone()).ok(), Some(here));
        let said = named("/elsewhere/lib.so".into()).expect_err("it is not there").to_string();
        assert!(said.contains("/elsewhere/lib.so") && said.contains(VARIABLE), "{said}");
    }

    #[test]
    fn libraries_are_found_in_a_build_and_installed() {
        let folder = tempfile::tempdir().expect("a folder");
        let bin = folder.path().join("bin");
        fs::create_dir(&bin).expect("made");
        assert_eq!(find_beside(&bin, SQLITE), None);
        for place in ["lib/aquifer", "lib", "bin"] {
            let place = folder.path().join(place);
            fs::create_dir_all(&place).expect("made");
            fs::write(place.join(SQLITE), "").expect("written");
            let expected = place.join(SQLITE).canonicalize().expect("there");
            assert_eq!(find_beside(&bin, SQLITE), Some(expected));
        }
        assert_eq!(find_beside(&bin, PRELOAD), None);
    }
}
