//! Where the programs are.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::peer::Peer;
use crate::error::{Error, Result};

const BUILD: &str = "build/examples/memcached";

/// The programs of all peers; they need not be there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Programs {
    /// memcached as it is.
    pub plain: PathBuf,
    /// memcached on the heap.
    pub aquifer: PathBuf,
    /// The `aquifer` command, which runs unchanged programs.
    pub runner: PathBuf,
    /// memcached with extstore.
    pub extstore: PathBuf,
}

impl Programs {
    /// Those that `examples/memcached/build.sh` made in `build`, by default in the tree one is in;
    /// the command of the same build as this program, and memcached of the distribution.
    pub fn find(build: Option<&Path>) -> Self {
        let build = build.unwrap_or(Path::new(BUILD));
        let build = build.canonicalize().unwrap_or_else(|_| build.to_owned());
        let beside = env::current_exe().ok().and_then(|own| Some(own.parent()?.join("aquifer")));
        let runners = [beside, Some(PathBuf::from("build/bin/aquifer"))].into_iter().flatten();
        let found = runners.filter(|runner| runner.is_file()).find_map(|runner| runner.canonicalize().ok());
        Self {
            plain: build.join("memcached-plain"),
            aquifer: build.join("memcached-aquifer"),
            runner: found.unwrap_or_else(|| PathBuf::from("aquifer")),
            extstore: on_path("memcached").unwrap_or_else(|| PathBuf::from("memcached")),
        }
    }

    /// The memcached whose own memory counts for `peer`.
    pub fn memcached(&self, peer: Peer) -> &Path {
        if peer == Peer::Extstore { &self.extstore } else { &self.plain }
    }

    /// Whether the programs of `peer` are there.
    ///
    /// # Errors
    /// [`Error::Unavailable`] with what is missing and how to get it.
    pub fn check(&self, peer: Peer) -> Result<()> {
        let build = crate::programs::build(&self.runner);
        let built = "run examples/memcached/build.sh, or say with --build where it was built";
        let needed: &[(&Path, &str)] = match peer {
            Peer::Swap => &[(&self.plain, built)],
            Peer::Aquifer => &[(&self.plain, built), (&self.aquifer, built)],
            Peer::Pages => &[(&self.plain, built), (&self.runner, &build)],
            Peer::Extstore => &[(&self.extstore, "install the package memcached")],
        };
        for (program, remedy) in needed {
            if !program.is_file() {
                return Err(Error::Unavailable(format!("{} is not there; {remedy}", program.display())));
            }
        }
        if peer == Peer::Extstore && !has_extstore(&self.extstore) {
            let what = format!("{} was built without extstore", self.extstore.display());
            return Err(Error::Unavailable(what));
        }
        Ok(())
    }
}

/// A program of the system. Administrators' directories are often missing from the PATH of ordinary users.
pub fn on_path(name: &str) -> Option<PathBuf> {
    let search = env::var("PATH").unwrap_or_default() + ":/usr/bin:/usr/sbin:/usr/local/bin";
    env::split_paths(&search).map(|dir| dir.join(name)).find(|program| program.is_file())
}

/// Its help names the options of extstore only if it has them.
fn has_extstore(program: &Path) -> bool {
    let help = Command::new(program).arg("-h").output();
    help.is_ok_and(|help| String::from_utf8_lossy(&help.stdout).contains("ext_path"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named() {
        let nowhere = PathBuf::from("/nonexistent");
        let programs = Programs::find(Some(&nowhere));
        for peer in [Peer::Swap, Peer::Aquifer, Peer::Pages] {
            let missing = programs.check(peer).map_err(|error| error.to_string());
            assert!(missing.is_err_and(|error| error.contains("build.sh")), "{peer}");
        }
        let programs = Programs { extstore: PathBuf::from("/bin/true"), ..programs };
        let missing = programs.check(Peer::Extstore).map_err(|error| error.to_string());
        assert!(missing.is_err_and(|error| error.contains("without extstore")));
    }
}
