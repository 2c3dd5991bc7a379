//! The durable heap on a mapped file, as fast as the file is, and slowed down.

use aquifer_durable::persist::{Emulated, Latency, MemoryFile};
use aquifer_durable::{DurableHeap, Options};

use super::heap::{Heap, path};
use super::{Persisted, Setup, failed};
use crate::durable::load::Workload;
use crate::error::{Error, Result};

/// The heap as programs open it.
///
/// # Errors
/// The heap's.
pub fn open(
    setup: &Setup,
    workload: Workload,
    utilisation_percent: Option<u32>,
) -> Result<Heap<DurableHeap>> {
    let path = path(setup);
    let heap = DurableHeap::open(&path, &options(setup, utilisation_percent))
        .map_err(|error| failed("opening", &path, error))?;
    Heap::fill(heap, path, workload, persisted)
}

/// The heap on slow memory.
///
/// # Errors
/// The heap's; [`Error::Unavailable`] if the file would not be in memory.
pub fn open_emulated(
    setup: &Setup,
    workload: Workload,
    utilisation_percent: Option<u32>,
) -> Result<Heap<DurableHeap>> {
    if !setup.is_memory {
        let dir = setup.dir.display();
        return Err(Error::Unavailable(format!("{dir} is not in memory, whose latency could be emulated")));
    }
    let path = path(setup);
    let latency = Latency { latency_ns: setup.latency_ns, bytes_per_s: setup.bandwidth_bytes_per_s };
    let file = MemoryFile::open(&path, setup.capacity_bytes);
    let heap = file.and_then(|file| {
        let emulated = Box::new(Emulated::new(file, latency));
        DurableHeap::on(emulated, &options(setup, utilisation_percent), &path.display().to_string())
    });
    let heap = heap.map_err(|error| failed("opening", &path, error))?;
    Heap::fill(heap, path, workload, persisted)
}

fn options(setup: &Setup, utilisation_percent: Option<u32>) -> Options {
    let default = Options::default();
    Options {
        capacity_bytes: setup.capacity_bytes,
        utilisation_percent: utilisation_percent.unwrap_or(default.utilisation_percent),
        ..default
    }
}

fn persisted(heap: &DurableHeap) -> Option<Persisted> {
    Some(Persisted::to(&[heap.persist()]))
}
