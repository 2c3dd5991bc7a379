//! Memory of NumPy arrays, and numbers of rows, as calls are given them.

use numpy::{PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::{PyBufferError, PyIndexError, PyValueError};
use pyo3::prelude::*;

/// Memory of a NumPy array, that the caller keeps alive and at its place.
#[derive(Clone, Copy)]
pub(crate) struct Memory {
    pub(crate) address: usize,
    pub(crate) bytes: usize,
}

impl Memory {
    /// Of `array`, which is written to if `writes`.
    pub(crate) fn of(array: &Bound<'_, PyUntypedArray>, writes: bool) -> PyResult<Self> {
        if !array.is_c_contiguous() {
            return Err(PyValueError::new_err("the array is not contiguous"));
        }
        // SAFETY: the array is alive, and its fields are read only.
        let raw = unsafe { &*array.as_array_ptr() };
        if writes && raw.fields.flags & numpy::npyffi::NPY_ARRAY_WRITEABLE == 0 {
            return Err(PyBufferError::new_err("the array to fill is read-only"));
        }
        let item = array.dtype().itemsize();
        Ok(Self { address: raw.fields.data.expose_provenance(), bytes: array.len() * item })
    }

    /// The byte `offset` bytes behind the first.
    pub(crate) fn at(self, offset: usize) -> *mut u8 {
        std::ptr::with_exposed_provenance_mut(self.address + offset)
    }

    /// # Errors
    /// `ValueError` if `rows` rows of `row_bytes` are not what it holds.
    pub(crate) fn ensure_rows(self, rows: usize, row_bytes: usize) -> PyResult<()> {
        if rows.checked_mul(row_bytes) == Some(self.bytes) {
            return Ok(());
        }
        let text = format!("{rows} rows of {row_bytes} bytes do not fit {} bytes of memory", self.bytes);
        Err(PyValueError::new_err(text))
    }
}

/// The exception for a row that there is none of.
pub(crate) fn outside(row: i64, rows: usize) -> PyErr {
    PyIndexError::new_err(format!("index {row} is out of bounds for axis 0 with size {rows}"))
}

/// A row of `rows`.
///
/// # Errors
/// `IndexError` if there is none.
pub(crate) fn row_within(row: i64, rows: usize) -> PyResult<usize> {
    usize::try_from(row).ok().filter(|&row| row < rows).ok_or_else(|| outside(row, rows))
}
