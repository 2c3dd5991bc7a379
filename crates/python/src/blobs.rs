//! Byte strings of any length in a heap, put and got in batches. Which of them there are is known to the caller, who has their addresses.

use std::ptr::with_exposed_provenance_mut;
use std::sync::Arc;

use aquifer::{Error, Item, Transfer};
use pyo3::exceptions::PyMemoryError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};

use crate::errors::exception;
use crate::heap::{Heap, Shared};

/// Strings up to this long are objects of their own; longer ones lie in pages that others share.
const OBJECT_BYTES_MAX: usize = 2048;
/// Bytes that are moved before signals are looked for.
const BATCH_BYTES: usize = 32 << 20;

/// Byte strings in a heap, each known by its address.
#[pyclass(frozen, module = "aquifer._core")]
pub(crate) struct Blobs {
    shared: Shared,
}

/// One string: where it is in the heap, and where in the program's memory.
#[derive(Clone, Copy)]
struct Place {
    address: usize,
    memory: usize,
    bytes: usize,
}

fn transfer(heap: &aquifer::Heap, places: &[Place], how: Transfer) -> Result<(), Error> {
    let mut items = places.iter().map(|place| Item {
        address: place.address,
        memory: with_exposed_provenance_mut(place.memory),
        bytes: place.bytes,
    });
    // SAFETY: the memory is that of `bytes` objects that the caller keeps, read or newly made.
    unsafe { heap.transfer(&mut items, how) }
}

/// Moves strings in batches of a few MiB.
fn transfer_all(py: Python<'_>, heap: &aquifer::Heap, items: &[Place], how: Transfer) -> PyResult<()> {
    let mut rest = items;
    while !rest.is_empty() {
        let mut bytes = 0;
        let fits = |item: &&Place| {
            bytes += item.bytes;
            bytes <= BATCH_BYTES
        };
        let count = rest.iter().take_while(fits).count().max(1);
        let (batch, behind) = rest.split_at(count);
        py.detach(|| transfer(heap, batch, how)).map_err(|error| exception(&error))?;
        py.check_signals()?;
        rest = behind;
    }
    Ok(())
}

fn allocate(heap: &aquifer::Heap, bytes: usize) -> Result<usize, Error> {
    let place =
        if bytes <= OBJECT_BYTES_MAX { heap.allocate(bytes)? } else { heap.allocate_block(bytes, 64)? };
    Ok(place.expose_provenance())
}

#[pymethods]
impl Blobs {
    #[new]
    fn new(heap: &Heap) -> Self {
        Self { shared: heap.shared.clone() }
    }

    /// Puts strings into the heap and returns their addresses. On `MemoryError` none of them is there.
    fn put(&self, py: Python<'_>, values: Vec<Bound<'_, PyBytes>>) -> PyResult<Vec<usize>> {
        let heap = self.shared.open()?;
        let mut items: Vec<Place> = Vec::with_capacity(values.len());
        let placed = values.iter().try_for_each(|value| {
            let value = value.as_bytes();
            let address = allocate(&heap, value.len())?;
            items.push(Place { address, memory: value.as_ptr().expose_provenance(), bytes: value.len() });
            Ok(())
        });
        let moved = placed
            .map_err(|error: Error| exception(&error))
            .and_then(|()| transfer_all(py, &heap, &items, Transfer::Write));
        let addresses: Vec<usize> = items.iter().map(|item| item.address).collect();
        match moved {
            Ok(()) => Ok(addresses),
            Err(error) => {
                self.free(addresses)?;
                Err(error)
            }
        }
    }

    /// The strings of those addresses and lengths, as a list of `bytes`.
    fn get<'py>(&self, py: Python<'py>, places: Vec<(usize, usize)>) -> PyResult<Bound<'py, PyList>> {
        let heap = self.shared.open()?;
        let (mut items, mut values) = (Vec::with_capacity(places.len()), Vec::with_capacity(places.len()));
        for (address, bytes) in places {
            // SAFETY: new bytes, that nobody sees before they are filled.
            let value = unsafe {
                let length =
                    ffi::Py_ssize_t::try_from(bytes).map_err(|_| PyMemoryError::new_err("too long"))?;
                Bound::from_owned_ptr_or_err(py, ffi::PyBytes_FromStringAndSize(std::ptr::null(), length))?
                    .cast_into_unchecked::<PyBytes>()
            };
            items.push(Place { address, memory: value.as_bytes().as_ptr().expose_provenance(), bytes });
            values.push(value);
        }
        transfer_all(py, &heap, &items, Transfer::Read)?;
        PyList::new(py, values)
    }

    /// Gives the strings at those addresses back. A string that cannot be given back does not keep the others.
    fn free(&self, addresses: Vec<usize>) -> PyResult<()> {
        let heap = self.shared.open()?;
        let mut outcome = Ok(());
        for address in addresses {
            let freed = heap.free(with_exposed_provenance_mut(address)).map_err(|error| exception(&error));
            outcome = outcome.and(freed);
        }
        outcome
    }

    /// Brings strings into RAM: a hint.
    fn prefetch(&self, py: Python<'_>, addresses: Vec<usize>) -> PyResult<()> {
        let heap = self.shared.open()?;
        py.detach(|| {
            let objects: Vec<*const u8> =
                addresses.iter().map(|&address| std::ptr::with_exposed_provenance(address)).collect();
            heap.prefetch(&objects).map_err(|error| exception(&error))
        })
    }

    /// Keeps a string where it is in RAM as long as what is returned, or an array of it, lives.
    fn pin(&self, py: Python<'_>, address: usize, bytes: usize) -> PyResult<Pin> {
        let heap = self.shared.open()?;
        let pinned = bytes.max(1);
        py.detach(|| heap.pin(with_exposed_provenance_mut(address), pinned))
            .map_err(|error| exception(&error))?;
        Ok(Pin { heap, address, bytes })
    }
}

/// A string in place, which NumPy makes a read-only array of.
#[pyclass(frozen, module = "aquifer._core")]
pub(crate) struct Pin {
    heap: Arc<aquifer::Heap>,
    address: usize,
    bytes: usize,
}

#[pymethods]
impl Pin {
    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        dict.set_item("version", 3)?;
        dict.set_item("typestr", "|u1")?;
        dict.set_item("shape", (self.bytes,))?;
        dict.set_item("data", (self.address, true))?;
        Ok(dict)
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        let _child = self.heap.unpin(with_exposed_provenance_mut(self.address), self.bytes.max(1));
    }
}
