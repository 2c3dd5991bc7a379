//! A heap as Python sees it, which may be closed while arrays still name it.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use aquifer::units::{format_size, parse_size};
use aquifer::{Compression, Faults, Options};
use pyo3::exceptions::{PyBufferError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::exception;

/// The size that RAM is divided for: rows are of this size and more.
const OBJECT_BYTES: usize = 256;

/// The heap of some arrays, until it is closed.
#[derive(Clone)]
pub(crate) struct Shared {
    heap: Arc<RwLock<Option<Arc<aquifer::Heap>>>>,
    /// Memory of NumPy arrays in the heap.
    blocks: Arc<AtomicUsize>,
}

impl Shared {
    fn new(heap: aquifer::Heap) -> Self {
        Self { heap: Arc::new(RwLock::new(Some(Arc::new(heap)))), blocks: Arc::default() }
    }

    /// How many NumPy arrays there are in the heap.
    pub(crate) fn blocks(&self) -> Arc<AtomicUsize> {
        self.blocks.clone()
    }

    /// The heap, for a call that may outlast its closing: it is given back when the last such call has ended.
    ///
    /// # Errors
    /// `ValueError` if it is closed, `RuntimeError` in a child of the process that opened it.
    pub(crate) fn open(&self) -> PyResult<Arc<aquifer::Heap>> {
        let heap = self.heap.read().unwrap_or_else(PoisonError::into_inner).clone();
        let heap = heap.ok_or_else(|| PyValueError::new_err("the heap of this array is closed"))?;
        heap.ensure_usable().map_err(|error| exception(&error))?;
        Ok(heap)
    }
}

/// Memory that reaches below RAM: `ram` bytes of it, and `flash_size` bytes of a file or device at `flash`.
#[pyclass(frozen, module = "aquifer._core")]
pub(crate) struct Heap {
    pub(crate) shared: Shared,
    faults: Faults,
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
        if std::env::var_os("AQUIFER_FAULTS").is_none() {
            options = options.faults(Faults::of_calls_too());
        }
        if std::env::var_os("AQUIFER_OBJECT_BYTES").is_none() {
            options = options.object_bytes(OBJECT_BYTES);
        }
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
        let (flash, faults) = (options.flash_path_here(), options.faults_here());
        let heap = py.detach(|| aquifer::Heap::open(options)).map_err(|error| exception(&error))?;
        let ram = heap.stats().ram_budget_bytes;
        Ok(Self { shared: Shared::new(heap), faults, ram, flash })
    }

    /// Closes the heap; arrays in it raise `ValueError` from now on. Closing twice is allowed. `BufferError` while NumPy arrays
    /// lie in it, whose memory would be gone.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let blocks = self.shared.blocks.load(Ordering::Relaxed);
        if blocks > 0 {
            let text = format!("{blocks} NumPy arrays lie in this heap; it can be closed when they are gone");
            return Err(PyBufferError::new_err(text));
        }
        let heap = self.shared.heap.write().unwrap_or_else(PoisonError::into_inner).take();
        py.detach(|| drop(heap));
        Ok(())
    }

    /// Whether the heap is closed.
    #[getter]
    fn closed(&self) -> bool {
        self.shared.heap.read().unwrap_or_else(PoisonError::into_inner).is_none()
    }

    /// RAM that it may use, in bytes.
    #[getter]
    fn ram_bytes(&self) -> u64 {
        self.ram
    }

    /// How many arrays there are in the heap, of Aquifer and of NumPy.
    #[getter]
    fn users(&self) -> usize {
        Arc::strong_count(&self.shared.heap) - 1 + self.shared.blocks.load(Ordering::Relaxed)
    }

    /// Whether system calls may be given memory of the heap that is not in RAM.
    #[getter]
    fn serves_calls(&self) -> bool {
        self.faults == Faults::Thread
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
    fn __exit__(&self, py: Python<'_>, _details: &Bound<'_, pyo3::types::PyTuple>) -> PyResult<()> {
        self.close(py)
    }
}
