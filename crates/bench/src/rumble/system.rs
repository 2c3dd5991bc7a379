//! The systems that are compared.

use std::fmt;
use std::path::Path;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::durable::Heap;
use super::malloc::Malloc;
use super::pmemobj::Pmemobj;
use super::sample::Settings;
use super::store::Store;
use crate::error::Result;

/// A system under test.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum System {
    /// The durable heap on a file in RAM.
    Aquifer,
    /// The C library's own malloc.
    Glibc,
    /// jemalloc in front of it.
    Jemalloc,
    /// mimalloc in front of it.
    Mimalloc,
    /// gperftools' tcmalloc in front of it.
    Tcmalloc,
    /// PMDK's libpmemobj on a file in RAM.
    Pmemobj,
}

impl System {
    /// The library that its process is started with, and the package that has it.
    pub fn preloaded(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Aquifer | Self::Glibc | Self::Pmemobj => None,
            Self::Jemalloc => Some(("libjemalloc.so.2", "libjemalloc2")),
            Self::Mimalloc => Some(("libmimalloc.so.2", "libmimalloc2.0")),
            Self::Tcmalloc => Some(("libtcmalloc_minimal.so.4", "libtcmalloc-minimal4")),
        }
    }

    /// Environment of its process.
    pub fn environment(self) -> Vec<(&'static str, &'static str)> {
        match (self, self.preloaded()) {
            (_, Some((library, _))) => vec![("LD_PRELOAD", library)],
            // Else it would call msync, which a file in RAM does not need.
            (Self::Pmemobj, None) => vec![("PMEM_IS_PMEM_FORCE", "1")],
            _ => Vec::new(),
        }
    }

    /// Opens it in this process, which was started for it.
    ///
    /// # Errors
    /// [`crate::Error::Unavailable`] if it is not installed.
    pub fn open(
        self,
        path: &Path,
        cap_bytes: u64,
        settings: Settings,
        wants_breakdown: bool,
    ) -> Result<Box<dyn Store>> {
        Ok(match self {
            Self::Aquifer => Box::new(Heap::create(path, cap_bytes, settings, wants_breakdown)?),
            Self::Pmemobj => Box::new(Pmemobj::create(path, cap_bytes)?),
            Self::Glibc | Self::Jemalloc | Self::Mimalloc | Self::Tcmalloc => {
                Box::new(Malloc::new(self.preloaded())?)
            }
        })
    }
}

impl fmt::Display for System {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.to_possible_value().expect("none is hidden").get_name())
    }
}
