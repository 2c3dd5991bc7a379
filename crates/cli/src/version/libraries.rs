//! Libraries of Aquifer beside the command, and programs of others that they stand in front of.

use std::env;
use std::path::{Path, PathBuf};

use super::part::Part;
use crate::error::Error;
use crate::library::{self, PRELOAD, SQLITE};

/// What makes libraries where this command finds them.
const BUILD: &str = "`make lib` in the source folder makes build/bin/aquifer with build/lib beside it, `make install` and the Debian package aquifer install both, `cargo install` the command alone";

/// The parts.
pub fn parts() -> Vec<Part> {
    vec![
        of_ours("preload library", "aquifer run", library::find(PRELOAD)),
        of_ours("SQLite VFS", "databases of SQLite on volumes", library::find(SQLITE)),
        sqlite(program("sqlite3").as_deref()),
    ]
}

fn of_ours(name: &'static str, serves: &'static str, found: Result<PathBuf, Error>) -> Part {
    match found {
        Ok(path) => Part::ready(name, serves, path.display().to_string()),
        Err(Error::NoLibrary { name: file, beside }) => {
            let state = format!("{file} is neither in {} nor in ../lib beside it", beside.display());
            Part::missing(name, serves, state, BUILD)
        }
        Err(Error::NamedLibrary { path }) => {
            let state = format!("AQUIFER_PRELOAD names {}, which is no file", path.display());
            Part::missing(name, serves, state, format!("unset AQUIFER_PRELOAD; {BUILD}"))
        }
        Err(error) => Part::missing(name, serves, error.to_string(), BUILD),
    }
}

/// The command that databases on volumes are tried with.
fn sqlite(program: Option<&Path>) -> Part {
    let (name, serves) = ("sqlite3", "databases on volumes from the command line");
    match program {
        Some(program) => Part::ready(name, serves, program.display().to_string()),
        None => Part::missing(name, serves, "sqlite3 is not installed", "`apt-get install sqlite3`"),
    }
}

/// A program of the system. Administrators' folders are often missing from the PATH of ordinary users.
pub fn program(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).chain(["/usr/sbin", "/sbin"].map(PathBuf::from));
    folders.map(|folder| folder.join(name)).find(|program| program.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_is_missing_is_to_be_built() {
        let ready = of_ours("a", "b", Ok("/usr/local/lib/liba.so".into()));
        assert!(ready.is_ready && ready.state.contains("/usr/local/lib/liba.so"));
        let missing = of_ours("a", "b", Err(Error::NoLibrary { name: "liba.so", beside: "/bin".into() }));
        assert!(missing.state.contains("liba.so is neither in /bin"));
        assert!(missing.remedy.is_some_and(|remedy| remedy.contains("`make lib`")));
        let named = of_ours("a", "b", Err(Error::NamedLibrary { path: "/elsewhere".into() }));
        assert!(
            named.state.contains("/elsewhere") && named.remedy.is_some_and(|remedy| remedy.contains("unset"))
        );
    }

    #[test]
    fn programs_are_found_as_a_shell_finds_them() {
        assert!(program("sh").is_some_and(|program| program.is_absolute()));
        assert_eq!(program("no-such-program-here"), None);
        assert!(sqlite(Some(Path::new("/usr/bin/sqlite3"))).is_ready);
        assert_eq!(sqlite(None).remedy.as_deref(), Some("`apt-get install sqlite3`"));
    }
}
