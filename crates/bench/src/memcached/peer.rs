//! The servers that are compared, and where their programs are.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::ValueEnum;

use crate::error::{Error, Result};
use crate::programs::Programs as Installed;

const BUILD: &str = "build/examples/memcached";

/// A way to give memcached more data than RAM.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, ValueEnum)]
pub enum Peer {
    /// memcached as it is, under kernel swap
    Swap,
    /// The same, with the kernel's compressed RAM in front of the swap file
    Zswap,
    /// memcached with each item as an object of the heap
    Aquifer,
    /// memcached as it is, under `aquifer run`
    Pages,
    /// memcached as the distribution ships it, with extstore
    Extstore,
}

impl Peer {
    /// Names of all, in the order of tables.
    pub const NAMES: &[&str] = &["swap", "zswap", "aquifer", "pages", "extstore"];

    /// Whether its pages go to the swap file.
    pub fn swaps(self) -> bool {
        matches!(self, Self::Swap | Self::Zswap)
    }

    /// Whether it stays within its RAM only because a control group makes it: extstore reads and
    /// writes its file through the kernel's page cache.
    pub fn needs_cgroup(self) -> bool {
        self.swaps() || self == Self::Extstore
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::NAMES[*self as usize])
    }
}

/// The programs of all peers; they need not be there.
#[derive(Clone, Debug)]
pub struct Programs {
    build: PathBuf,
    /// Those of the machine, and the command of this build.
    pub installed: Installed,
}

impl Programs {
    /// The programs that `examples/memcached/build.sh` made in `build`, by default in the tree one is in, and those of the machine.
    pub fn find(build: Option<&Path>) -> Result<Self> {
        let build = build.unwrap_or(Path::new(BUILD));
        let build = build.canonicalize().unwrap_or_else(|_| build.to_owned());
        Ok(Self { build, installed: Installed::find()? })
    }

    /// The memcached of `peer`, and the one that shows what its program takes before it holds anything.
    pub fn memcached(&self, peer: Peer) -> Result<[PathBuf; 2]> {
        if peer == Peer::Extstore {
            let program = self.installed.memcached()?;
            return match has_extstore(program) {
                true => Ok([program.to_owned(), program.to_owned()]),
                false => Err(Error::Unavailable(format!("{} was built without extstore", program.display()))),
            };
        }
        let name = if peer == Peer::Aquifer { "memcached-aquifer" } else { "memcached-plain" };
        let programs = [name, "memcached-plain"].map(|name| self.build.join(name));
        match programs.iter().find(|program| !program.is_file()) {
            None => Ok(programs),
            Some(missing) => Err(Error::Unavailable(format!(
                "{} is not there; run examples/memcached/build.sh, or say with --build where it was built",
                missing.display()
            ))),
        }
    }
}

/// Its help names the options of extstore only if it has them.
fn has_extstore(program: &Path) -> bool {
    let help = Command::new(program).arg("-h").output();
    help.is_ok_and(|help| String::from_utf8_lossy(&help.stdout).contains("ext_path"))
}
