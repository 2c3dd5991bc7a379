//! A heap as Python sees it, which may be closed while arrays still name it.

use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};

use aquifer::units::{format_size, parse_size};
use aquifer::{Compression, Options};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::exception;

/// The heap of some arrays, until it is closed.
#[derive(Clone)]
pub(crate) struct Shared(Arc<RwLock<Option<Arc<aquifer::Heap>>>>);

impl Shared {
    /// The heap, for a call that may outlast its closing: it is given back when the last such call has ended.
    ///
    /// # Errors
    /// `ValueError` if it is closed, `RuntimeError` in a child of the process that opened it.
    pub(crate) fn open(&self) -> PyResult<Arc<aquifer::Heap>> {
        let heap = self.0.read().unwrap_or_else(PoisonError::into_inner).clone();
        let heap = heap.ok_or_else(|| PyValueError::new_err("the heap of this array is closed"))?;
        heap.ensure_usable().map_err(|error| exception(&error))?;
        Ok(heap)
    }
}

/// Memory that reaches below RAM: `ram` bytes of it, and `flash_size` bytes of a file or device at `flash`.
#[pyclass(frozen, module = "aquifer._core")]
pub(crate) struct Heap {
    pub(crate) shared: Shared,
    ram: u64,
    flash: Option<PathBuf>,
}

/// A size as users write it: a number of bytes, or text as "1G".
fn size(name: &str, value: Option<&Bound<'_, PyAny>>) -> PyResult<Option<u64>> {
    let Some(value) = value else { return Ok(None) };
    if let Ok(text) = value.extract::<String>() {
        return parse_size(&text)
            .map(Some)
            .map_err(|error| PyValueError::new_err(format!("{name}: {error}")));
    }
    let wrong = || PyTypeError::new_err(format!("{name} is a number of bytes, or text as \"1G\""));
    value.extract::<u64>().map(Some).map_err(|_| wrong())
}

#[pymethods]
impl Heap {
    #[new]
    #[pyo3(signature = (ram=None, flash=None, flash_size=None, *, object_bytes=None, compress=None, donors=None, socket=None))]
    #[expect(clippy::too_many_arguments, reason = "keywords of one Python function")]
    fn new(
        py: Python<'_>,
        ram: Option<&Bound<'_, PyAny>>,
        flash: Option<PathBuf>,
        flash_size: Option<&Bound<'_, PyAny>>,
        object_bytes: Option<usize>,
        compress: Option<&str>,
        donors: Option<Vec<String>>,
        socket: Option<PathBuf>,
    ) -> PyResult<Self> {
        let mut options = Options::from_env().map_err(|error| exception(&error))?;
        if let Some(bytes) = size("ram", ram)? {
            options = options.ram_bytes(bytes);
        }
        if let Some(bytes) = size("flash_size", flash_size)? {
            options = options.flash_bytes(bytes);
        }
        if let Some(path) = flash {
            options = options.flash_path(path);
        }
        if let Some(bytes) = object_bytes {
            options = options.object_bytes(bytes);
        }
        options = match compress {
            None => options,
            Some("never") => options.compression(Compression::Never),
            Some("auto") => options.compression(Compression::Auto),
            Some("always") => options.compression(Compression::Always),
            Some(other) => {
                let text = format!("compress is '{other}'; it may be never, auto or always");
                return Err(PyValueError::new_err(text));
            }
        };
        for donor in donors.unwrap_or_default() {
            options = options.donor(donor);
        }
        if let Some(path) = socket {
            options = options.socket(path);
        }
        let flash = options.flash_path_here();
        let heap = py.detach(|| aquifer::Heap::open(options)).map_err(|error| exception(&error))?;
        let ram = heap.stats().ram_budget_bytes;
        Ok(Self { shared: Shared(Arc::new(RwLock::new(Some(Arc::new(heap))))), ram, flash })
    }

    /// Closes the heap; arrays in it raise `ValueError` from now on. Closing twice is allowed.
    fn close(&self, py: Python<'_>) {
        let heap = self.shared.0.write().unwrap_or_else(PoisonError::into_inner).take();
        py.detach(|| drop(heap));
    }

    /// Whether the heap is closed.
    #[getter]
    fn closed(&self) -> bool {
        self.shared.0.read().unwrap_or_else(PoisonError::into_inner).is_none()
    }

    /// How many arrays there are in the heap.
    #[getter]
    fn users(&self) -> usize {
        Arc::strong_count(&self.shared.0) - 1
    }

    /// What the heap uses and has done: a dict of numbers, as `aquifer stats` shows them.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let heap = self.shared.open()?;
        let stats = py.detach(|| heap.stats());
        let dict = PyDict::new(py);
        for (name, value) in stats.fields() {
            dict.set_item(name, value)?;
        }
        Ok(dict)
    }

    fn __repr__(&self) -> String {
        let flash = self.flash.as_deref().map_or("a device".into(), |path| path.display().to_string());
        let state = if self.closed() { ", closed" } else { "" };
        format!("aquifer.Heap({} of RAM, flash at {flash}{state})", format_size(self.ram))
    }

    fn __enter__(this: Py<Self>) -> Py<Self> {
        this
    }

    #[pyo3(signature = (*_details))]
    fn __exit__(&self, py: Python<'_>, _details: &Bound<'_, pyo3::types::PyTuple>) {
        self.close(py);
    }
}
