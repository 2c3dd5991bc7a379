//! What holds the objects: the systems that are compared.

use std::fmt;
use std::path::Path;

use aquifer_bench::error::Result;
use aquifer_bench::study::Fields;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::RumbleTask;
use super::books::Object;
use super::churn::Peaks;
use super::durable::Heap;
use super::malloc::Malloc;
use super::pmemobj::Pmemobj;

/// Memory of a store now, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Footprint {
    /// Everything that it holds for the objects.
    pub resident_bytes: u64,
    /// Part of that which is free and can take any object; 0 if that is not known.
    pub reserve_bytes: u64,
    /// What the store has beside it to find objects; 0 if there is no such thing.
    pub map_bytes: u64,
}

/// A system in use.
pub trait Store {
    /// Allocates objects of `sizes` bytes and writes every byte of them; adds them to `made`.
    fn allocate(&mut self, sizes: &[u32], made: &mut Vec<Object>) -> Result<()>;

    /// Frees objects.
    fn free(&mut self, objects: &[Object]) -> Result<()>;

    /// Its memory now.
    fn footprint(&mut self) -> Result<Footprint>;

    /// Looks into the memory while `object_bytes` of objects are live: when it is the largest so far, and at the end if it is so then.
    fn look_into(&mut self, object_bytes: u64) -> Result<()> {
        let _ = object_bytes;
        Ok(())
    }

    /// What it has to add at the end, to `live_bytes` at most and to the peaks that were seen.
    fn figures(&self, live_bytes: u64, peaks: &Peaks) -> Fields {
        let _ = (live_bytes, peaks);
        Fields::default()
    }
}

/// A system under test.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum System {
    /// The durable heap on a file in RAM
    Aquifer,
    /// The C library's own malloc
    Glibc,
    /// jemalloc in front of it
    Jemalloc,
    /// mimalloc in front of it
    Mimalloc,
    /// gperftools' tcmalloc in front of it
    Tcmalloc,
    /// PMDK's libpmemobj on a file in RAM
    Pmemobj,
}

impl System {
    /// The library that its process is started with, and the package that has it.
    fn preloaded(self) -> Option<(&'static str, &'static str)> {
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
}

impl fmt::Display for System {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.to_possible_value().expect("none is hidden").get_name())
    }
}

/// A system with the setting that tables name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Contestant {
    /// Its process and library.
    pub system: System,
    /// For the durable heap: from which percentage of live bytes on its file grows rather than being cleaned.
    pub utilisation_percent: u32,
}

impl fmt::Display for Contestant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.system {
            System::Aquifer => write!(f, "aquifer {} %", self.utilisation_percent),
            system => write!(f, "{system}"),
        }
    }
}

impl RumbleTask {
    /// Opens the system in this process, which was started for it.
    ///
    /// # Errors
    /// [`aquifer_bench::Error::Unavailable`] if it is not installed.
    pub fn open(&self) -> Result<Box<dyn Store>> {
        let (path, live_bytes): (&Path, _) = (&self.path, self.live_bytes);
        Ok(match self.contestant.system {
            System::Aquifer => Box::new(Heap::create(self)?),
            System::Pmemobj => Box::new(Pmemobj::create(path, live_bytes)?),
            malloc => Box::new(Malloc::new(malloc.preloaded())?),
        })
    }
}
