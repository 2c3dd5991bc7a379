//! Plain memory under kernel swap, tuned: small pages, no read-around.

use crate::error::Result;
use crate::objects::Objects;
use crate::peer::mapping::Mapping;
use crate::peer::{Peer, Setup};

/// Anonymous memory larger than the RAM of its cgroup.
#[derive(Debug)]
pub struct Swap {
    memory: Mapping,
    object_bytes: usize,
    count: u64,
}

impl Swap {
    /// Maps the array. The caller has activated a swap area and joined a cgroup.
    ///
    /// # Errors
    /// [`crate::Error::Io`].
    pub fn open(setup: &Setup) -> Result<Self> {
        let memory = Mapping::anonymous(setup.data_bytes as usize)?;
        memory.advise(libc::MADV_RANDOM)?;
        Ok(Self { memory, object_bytes: setup.object_bytes as usize, count: setup.objects() })
    }
}

impl Peer for Swap {
    fn objects(&self) -> Objects<'_> {
        // SAFETY: the mapping holds `count` objects and lives as long as the view; it is used in no
        // other way.
        unsafe { Objects::new(self.memory.base(), self.object_bytes, self.object_bytes, self.count) }
    }
}
