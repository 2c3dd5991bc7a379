//! Where the programs of others and of ours are.

use std::env;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

const PRELOAD: &str = "libaquifer_preload.so";
/// Where `make lib` puts the command, seen from the source folder.
const BUILT: &str = "build/bin/aquifer";

/// Programs that were found; none need be there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Programs {
    aquifer: PathBuf,
    memcached: Option<PathBuf>,
}

impl Programs {
    /// Those of the distribution, and the command of the same build as this program.
    ///
    /// # Errors
    /// [`Error::Io`] if this program cannot be found.
    pub fn find() -> Result<Self> {
        let own = env::current_exe().map_err(Error::io("finding", "this program"))?;
        let beside = own.with_file_name("aquifer");
        let built = Path::new(BUILT).canonicalize().ok().filter(|_| !beside.is_file());
        Ok(Self { aquifer: built.unwrap_or(beside), memcached: on_path("memcached") })
    }

    /// The `aquifer` command.
    ///
    /// # Errors
    /// [`Error::Unavailable`] with how to build it.
    pub fn aquifer(&self) -> Result<&Path> {
        let libraries =
            [PRELOAD, "../lib/libaquifer_preload.so"].map(|file| self.aquifer.with_file_name(file));
        let missing = match libraries.iter().any(|library| library.is_file()) {
            true if self.aquifer.is_file() => return Ok(&self.aquifer),
            false if self.aquifer.is_file() => &libraries[0],
            _ => &self.aquifer,
        };
        Err(Error::Unavailable(format!("{} is not there; {}", missing.display(), build(missing))))
    }

    /// The distribution's memcached.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    pub fn memcached(&self) -> Result<&Path> {
        self.memcached.as_deref().ok_or_else(|| missing("memcached"))
    }
}

/// How the command and its library come to be where `file` is missing, which in a workspace is `target/PROFILE`.
pub fn build(file: &Path) -> String {
    let folder = file.parent().and_then(Path::file_name).and_then(|name| name.to_str());
    let profile = match folder {
        Some("debug") => "",
        Some("soak") => " --profile soak",
        _ => " --release",
    };
    format!("run `cargo build{profile} -p aquifer-cli -p aquifer-preload` in the source folder")
}

/// A program of the system. Administrators' directories are often missing from the PATH of ordinary users.
pub fn on_path(name: &str) -> Option<PathBuf> {
    let search = env::var("PATH").unwrap_or_default() + ":/usr/bin:/usr/sbin:/usr/local/bin";
    env::split_paths(&search).map(|dir| dir.join(name)).find(|program| program.is_file())
}

/// The program `name` of the distribution.
///
/// # Errors
/// [`Error::Unavailable`] with its `package`.
pub fn installed(name: &str, package: &str) -> Result<PathBuf> {
    let missing = || Error::Unavailable(format!("{name} is not there; install the package {package}"));
    on_path(name).ok_or_else(missing)
}

fn missing(package: &str) -> Error {
    Error::Unavailable(format!("{package} is not there; install the package {package}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named_with_the_remedy() {
        let programs = Programs { aquifer: PathBuf::from("/nonexistent/aquifer"), memcached: None };
        let said = |found: Result<&Path>| found.expect_err("it is not there").to_string();
        assert!(said(programs.aquifer()).contains("cargo build --release -p aquifer-cli"));
        let beside = |profile: &str| build(Path::new(&format!("/source/target/{profile}/aquifer")));
        assert!(beside("release").contains("build --release -p aquifer-cli -p aquifer-preload`"));
        assert!(beside("debug").contains("build -p aquifer-cli"));
        assert!(beside("soak").contains("build --profile soak -p aquifer-cli"));
        assert!(said(programs.memcached()).contains("install the package memcached"));
    }
}
