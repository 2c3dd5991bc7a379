//! The part of the Python package `aquifer` that is compiled: heaps, and rows of bytes in them.
//!
//! | file | noun |
//! |---|---|
//! | `heap` | a heap as Python sees it, which may be closed while arrays still name it |
//! | `rows` | rows of equal length in a heap, moved in batches |
//! | `volume` | rows in a file of a volume, which stay |
//! | `memory` | memory of NumPy arrays |
//! | `durable` | an ordered mapping of bytes in the file of a durable heap, which stays |
//! | `blobs` | byte strings of any length in a heap |
//! | `extents` | where in a heap rows lie, as they become more and fewer |
//! | `numpy_memory` | a heap as the allocator of NumPy's arrays |
//! | `errors` | exceptions of the kinds that Python users expect |
//!
//! What arrays, stores and NumPy's memory look like to users is in `crates/python/python/aquifer`.

mod blobs;
mod durable;
mod errors;
mod extents;
mod heap;
mod memory;
mod numpy_memory;
mod rows;
mod volume;

use pyo3::prelude::*;

#[pymodule]
mod _core {
    #[pymodule_export]
    use crate::blobs::{Blobs, Pin};
    #[pymodule_export]
    use crate::durable::DurableTree;
    #[pymodule_export]
    use crate::heap::Heap;
    #[pymodule_export]
    use crate::rows::Rows;
    #[pymodule_export]
    use crate::volume::{Volume, VolumeRows};

    #[pymodule_export]
    use crate::numpy_memory::{give_back, handler, set_handler};

    #[pymodule_export]
    const VERSION: &str = aquifer::VERSION;
    #[pymodule_export]
    const KEY_BYTES_MAX: usize = aquifer_durable::structures::bytes::KEY_BYTES_MAX;
    #[pymodule_export]
    const VALUE_BYTES_MAX: usize = aquifer_durable::structures::bytes::VALUE_BYTES_MAX;
}
