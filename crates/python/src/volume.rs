//! Rows of equal length in a file of a volume, which stay when the process ends.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use aquifer_status::Server;
use aquifer_volume::{Ino, Kind, OpenOptions, PAGE_BYTES, RAM_BYTES_MIN, VolumeError, image};
use numpy::{PyReadonlyArray1, PyUntypedArray};
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::memory::{Memory, outside, row_within};

/// Reads that are under way at once: each keeps a thread waiting.
const READERS_MAX: usize = 32;
/// Rows that are worth one of these threads.
const ROWS_PER_READER: usize = 8;
/// Rows of a call that are moved before signals are looked for, and bytes.
const BATCH_ROWS: usize = 16 << 10;
const BATCH_BYTES: usize = 8 << 20;

fn exception(error: &VolumeError) -> PyErr {
    let text = error.to_string();
    match error {
        VolumeError::Invalid(_) | VolumeError::BadName | VolumeError::NotAVolume(_) => {
            PyValueError::new_err(text)
        }
        VolumeError::ReadOnly => PyValueError::new_err("assignment destination is read-only"),
        // Python makes the kind of error of it that belongs to the number.
        _ => PyOSError::new_err((error.errno(), text)),
    }
}

/// What is said of a socket at which nobody can ask.
pub(crate) fn no_socket(path: &Path, error: &std::io::Error) -> PyErr {
    let text = format!("the socket {} could not be made: {error}", path.display());
    PyOSError::new_err((error.raw_os_error().unwrap_or(libc::EINVAL), text))
}

/// A volume that is open, of the process that opened it.
struct Open {
    // Dropped first: it answers for the volume.
    server: Option<Server>,
    volume: aquifer_volume::Volume,
    process: u32,
}

/// Volumes may be closed while rows still name them.
type Shared = Arc<RwLock<Option<Arc<Open>>>>;

fn opened(shared: &Shared) -> PyResult<Arc<Open>> {
    let open = shared.read().unwrap_or_else(PoisonError::into_inner).clone();
    let open = open.ok_or_else(|| PyValueError::new_err("the volume of this array is closed"))?;
    if open.process != std::process::id() {
        return Err(PyRuntimeError::new_err(
            "this process was forked from the one that has the volume open, and cannot use it; use spawn, and open it in one process",
        ));
    }
    Ok(open)
}

/// A volume in a file or on a block device.
#[pyclass(frozen, module = "aquifer._core")]
pub(crate) struct Volume {
    shared: Shared,
    path: PathBuf,
}

fn open(path: &Path, ram: u64, size: Option<u64>, read_only: bool) -> Result<Open, VolumeError> {
    if let Some(bytes) = size {
        // SAFETY: these calls have no arguments and cannot fail.
        let owner = unsafe { (libc::geteuid(), libc::getegid()) };
        aquifer_volume::Volume::create(image::new_medium(path, bytes, 0)?, owner)?;
    }
    let options = OpenOptions { ram_bytes: ram.max(RAM_BYTES_MIN), is_read_only: read_only };
    let volume = aquifer_volume::Volume::open(image::open_medium(path)?, options)?;
    Ok(Open { server: None, volume, process: std::process::id() })
}

#[pymethods]
impl Volume {
    /// Opens the volume at `path` with `ram` bytes of RAM for its pages; with a `size`, after an empty one of that size was made there.
    /// `socket` is where `aquifer top` asks.
    #[new]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        ram: u64,
        size: Option<u64>,
        read_only: bool,
        socket: Option<PathBuf>,
    ) -> PyResult<Self> {
        let opened = py.detach(|| open(&path, ram, size, read_only));
        let mut open = opened.map_err(|error| match &error {
            VolumeError::NotAVolume(_) => PyValueError::new_err(format!(
                "{}: {error}; open_array with another path makes one",
                path.display()
            )),
            _ => exception(&error),
        })?;
        open.server = socket
            .map(|socket| open.volume.answer_at(&socket).map_err(|error| no_socket(&socket, &error)))
            .transpose()?;
        Ok(Self { shared: Arc::new(RwLock::new(Some(Arc::new(open)))), path })
    }

    /// The number of a file in the first folder, and its length in bytes. It is made if it `makes` and is not there.
    fn file(&self, py: Python<'_>, name: &[u8], makes: bool) -> PyResult<(u32, u64)> {
        let open = opened(&self.shared)?;
        let found = py.detach(|| {
            let root = Ino::ROOT_FOLDER;
            let ino = match open.volume.lookup(root, name) {
                Err(VolumeError::NotFound) if makes => {
                    let owner = open.volume.inode(root)?;
                    open.volume.make(root, name, Kind::File, 0o644, owner.uid, owner.gid)?
                }
                found => found?,
            };
            Ok((ino.0, open.volume.inode(ino)?.size_bytes))
        });
        found.map_err(|error: VolumeError| match error {
            VolumeError::NotFound => {
                let text = format!("{} has no file {}", self.path.display(), String::from_utf8_lossy(name));
                PyOSError::new_err((error.errno(), text))
            }
            other => exception(&other),
        })
    }

    /// Bytes of a file, fewer at its end.
    fn read<'py>(
        &self,
        py: Python<'py>,
        file: u32,
        offset: u64,
        bytes: usize,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let open = opened(&self.shared)?;
        let mut read = vec![0; bytes];
        let count = py.detach(|| open.volume.read(Ino(file), offset, &mut read));
        read.truncate(count.map_err(|error| exception(&error))?);
        Ok(PyBytes::new(py, &read))
    }

    /// Writes bytes to a file, atomically if they lie in one page.
    fn write(&self, py: Python<'_>, file: u32, offset: u64, bytes: &[u8]) -> PyResult<()> {
        let open = opened(&self.shared)?;
        py.detach(|| write(&open, Ino(file), offset, bytes)).map_err(|error| exception(&error))
    }

    /// Changes the length of a file; what is added is zeros.
    fn truncate(&self, py: Python<'_>, file: u32, bytes: u64) -> PyResult<()> {
        let open = opened(&self.shared)?;
        py.detach(|| open.volume.truncate(Ino(file), bytes)).map_err(|error| exception(&error))
    }

    /// Makes all that was written durable, as the whole volume is now.
    fn sync(&self, py: Python<'_>) -> PyResult<()> {
        let open = opened(&self.shared)?;
        py.detach(|| open.volume.sync()).map_err(|error| exception(&error))
    }

    /// Makes it durable and closes the volume, once calls that use it have ended. Closing twice is allowed.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let Some(open) = self.shared.write().unwrap_or_else(PoisonError::into_inner).take() else {
            return Ok(());
        };
        py.detach(|| close(open)).map_err(|error| exception(&error))
    }

    /// Whether it is closed.
    #[getter]
    fn closed(&self) -> bool {
        self.shared.read().unwrap_or_else(PoisonError::into_inner).is_none()
    }

    /// Room of files, what they take, and pages in RAM: a dict of numbers.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let open = opened(&self.shared)?;
        let space = py.detach(|| open.volume.space()).map_err(|error| exception(&error))?;
        let stats = open.volume.stats();
        let dict = PyDict::new(py);
        dict.set_item("capacity_bytes", space.capacity_bytes)?;
        dict.set_item("used_bytes", space.used_bytes)?;
        dict.set_item("ram_used_bytes", stats.ram_used_bytes)?;
        dict.set_item("pages_read", stats.pages_read)?;
        Ok(dict)
    }
}

/// Ends a volume: in a child of the process that opened it, whose threads are not there, nothing is done.
fn close(open: Arc<Open>) -> Result<(), VolumeError> {
    if open.process != std::process::id() {
        std::mem::forget(open);
        return Ok(());
    }
    // A call that still uses it drops it.
    match Arc::try_unwrap(open) {
        Ok(open) => open.volume.close(),
        Err(open) => open.volume.sync(),
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        if let Some(open) = self.shared.write().unwrap_or_else(PoisonError::into_inner).take() {
            // Nobody is left to be told.
            let _failed = close(open);
        }
    }
}

/// Writes all bytes.
fn write(open: &Open, file: Ino, offset: u64, bytes: &[u8]) -> Result<(), VolumeError> {
    let written = open.volume.write(file, offset, bytes)?;
    if written < bytes.len() { Err(VolumeError::NoSpace) } else { Ok(()) }
}

/// Rows of `row_bytes` bytes in a file, behind `before` bytes of something else.
#[pyclass(frozen, module = "aquifer._core")]
pub(crate) struct VolumeRows {
    shared: Shared,
    file: Ino,
    before: u64,
    row_bytes: usize,
    rows: AtomicUsize,
}

/// What is done for a part of a batch: row, and where in memory it is.
type Each = (usize, usize);

impl VolumeRows {
    fn place(&self, row: usize) -> u64 {
        self.before + row as u64 * self.row_bytes as u64
    }

    /// Reads into memory; what another array of the file has cut off are zeros.
    ///
    /// # Safety
    /// The caller keeps the memory, and nobody else uses it.
    unsafe fn read_at(&self, open: &Open, offset: u64, memory: Memory) -> Result<(), VolumeError> {
        // SAFETY: the caller says so.
        let bytes = unsafe { std::slice::from_raw_parts_mut(memory.at(0), memory.bytes) };
        let read = open.volume.read(self.file, offset, bytes)?;
        bytes[read..].fill(0);
        Ok(())
    }

    /// Reads rows in parallel.
    fn read_each(&self, open: &Open, rows: &[Each], memory: Memory) -> Result<(), VolumeError> {
        let threads = (rows.len() / ROWS_PER_READER).clamp(1, READERS_MAX);
        let part = rows.len().div_ceil(threads).max(1);
        let read = |part: &[Each]| {
            part.iter().try_for_each(|&(row, at)| {
                let address = memory.address + at * self.row_bytes;
                // SAFETY: each row has its own bytes of the memory, which the caller keeps.
                unsafe { self.read_at(open, self.place(row), Memory { address, bytes: self.row_bytes }) }
            })
        };
        std::thread::scope(|scope| {
            let mut parts = rows.chunks(part);
            let own = parts.next().unwrap_or_default();
            let others: Vec<_> = parts.map(|part| scope.spawn(move || read(part))).collect();
            let outcome = read(own);
            others.into_iter().fold(outcome, |outcome, other| {
                outcome.and(
                    other.join().unwrap_or(Err(VolumeError::Invalid("a thread that reads has panicked"))),
                )
            })
        })
    }

    fn write_each(&self, open: &Open, rows: &[Each], memory: Memory) -> Result<(), VolumeError> {
        rows.iter().try_for_each(|&(row, at)| {
            // SAFETY: the memory holds the rows, and the caller keeps it.
            let bytes = unsafe { std::slice::from_raw_parts(memory.at(at * self.row_bytes), self.row_bytes) };
            write(open, self.file, self.place(row), bytes)
        })
    }

    /// Calls `act` for batches of the rows that are named, each with its place in memory.
    fn for_each_batch(
        &self,
        py: Python<'_>,
        rows: &[i64],
        mut act: impl FnMut(&[Each]) -> Result<(), VolumeError> + Send,
    ) -> PyResult<()> {
        let count = self.rows.load(Ordering::Acquire);
        let batch = (BATCH_BYTES / self.row_bytes.max(1)).clamp(1, BATCH_ROWS);
        for (n, part) in rows.chunks(batch).enumerate() {
            let mut each = Vec::with_capacity(part.len());
            for (at, &row) in part.iter().enumerate() {
                each.push((row_within(row, count)?, n * batch + at));
            }
            py.detach(|| {
                // Rows of the same page are read together; of the same row the order stays.
                each.sort_by_key(|&(row, _)| row);
                act(&each)
            })
            .map_err(|error| exception(&error))?;
            py.check_signals()?;
        }
        Ok(())
    }

    /// Calls `act` for runs of rows from `first`, with the byte of the memory at which each begins.
    fn for_each_run(
        &self,
        py: Python<'_>,
        first: usize,
        memory: Memory,
        mut act: impl FnMut(u64, Memory) -> Result<(), VolumeError> + Send,
    ) -> PyResult<()> {
        let count = memory.bytes.checked_div(self.row_bytes).unwrap_or(0);
        let rows = self.rows.load(Ordering::Acquire);
        if first.checked_add(count).is_none_or(|end| end > rows) {
            return Err(outside((first + count) as i64 - 1, rows));
        }
        let step = (BATCH_BYTES / self.row_bytes.max(1)).max(1) * self.row_bytes;
        let mut done = 0;
        while done < memory.bytes {
            let part = Memory { address: memory.address + done, bytes: step.min(memory.bytes - done) };
            py.detach(|| act(self.place(first) + done as u64, part)).map_err(|error| exception(&error))?;
            py.check_signals()?;
            done += part.bytes;
        }
        Ok(())
    }
}

#[pymethods]
impl VolumeRows {
    #[new]
    fn new(volume: &Volume, file: u32, before: u64, row_bytes: usize, rows: usize) -> Self {
        Self {
            shared: volume.shared.clone(),
            file: Ino(file),
            before,
            row_bytes,
            rows: AtomicUsize::new(rows),
        }
    }

    /// Fills `out` with rows from `first` on. Reading `once` is no other reading: a volume notices passes by itself.
    fn read(
        &self,
        py: Python<'_>,
        first: usize,
        out: &Bound<'_, PyUntypedArray>,
        once: bool,
    ) -> PyResult<()> {
        let _ = once;
        let open = opened(&self.shared)?;
        self.for_each_run(py, first, Memory::of(out, true)?, |offset, memory| {
            // SAFETY: the caller keeps the memory, and nobody else uses it.
            unsafe { self.read_at(&open, offset, memory) }
        })
    }

    /// Writes `values` to rows from `first` on.
    fn write(&self, py: Python<'_>, first: usize, values: &Bound<'_, PyUntypedArray>) -> PyResult<()> {
        let open = opened(&self.shared)?;
        self.for_each_run(py, first, Memory::of(values, false)?, |offset, memory| {
            // SAFETY: the caller keeps the memory.
            let bytes = unsafe { std::slice::from_raw_parts(memory.at(0), memory.bytes) };
            write(&open, self.file, offset, bytes)
        })
    }

    /// Fills `out` with the rows that `rows` names.
    fn gather(
        &self,
        py: Python<'_>,
        rows: PyReadonlyArray1<'_, i64>,
        out: &Bound<'_, PyUntypedArray>,
    ) -> PyResult<()> {
        let (open, rows, memory) = (opened(&self.shared)?, rows.as_slice()?, Memory::of(out, true)?);
        memory.ensure_rows(rows.len(), self.row_bytes)?;
        self.for_each_batch(py, rows, |each| self.read_each(&open, each, memory))
    }

    /// Writes `values` to the rows that `rows` names; of a row that is named twice, the last is left.
    fn scatter(
        &self,
        py: Python<'_>,
        rows: PyReadonlyArray1<'_, i64>,
        values: &Bound<'_, PyUntypedArray>,
    ) -> PyResult<()> {
        let (open, rows, memory) = (opened(&self.shared)?, rows.as_slice()?, Memory::of(values, false)?);
        memory.ensure_rows(rows.len(), self.row_bytes)?;
        self.for_each_batch(py, rows, |each| {
            // Pages that are written in part are read before, all at once and not one by one.
            if !self.row_bytes.is_multiple_of(PAGE_BYTES) {
                self.bring_in(&open, each)?;
            }
            self.write_each(&open, each, memory)
        })
    }

    /// Brings rows into RAM: a hint.
    fn prefetch(&self, py: Python<'_>, rows: PyReadonlyArray1<'_, i64>) -> PyResult<()> {
        let open = opened(&self.shared)?;
        let count = self.rows.load(Ordering::Acquire) as i64;
        let known: Vec<i64> =
            rows.as_slice()?.iter().copied().filter(|row| (0..count).contains(row)).collect();
        self.for_each_batch(py, &known, |each| self.bring_in(&open, each))
    }

    /// Says how many rows there are: the file has them, or they are zeros.
    fn resize(&self, rows: usize) {
        self.rows.store(rows, Ordering::Release);
    }

    fn __len__(&self) -> usize {
        self.rows.load(Ordering::Acquire)
    }

    /// Whether each row is an object of its own: they share pages.
    #[getter]
    fn apart(&self) -> bool {
        false
    }
}

impl VolumeRows {
    fn bring_in(&self, open: &Open, each: &[Each]) -> Result<(), VolumeError> {
        let mut nowhere = vec![0u8; each.len() * self.row_bytes];
        let memory = Memory { address: nowhere.as_mut_ptr().expose_provenance(), bytes: nowhere.len() };
        let places: Vec<Each> = each.iter().enumerate().map(|(at, &(row, _))| (row, at)).collect();
        self.read_each(open, &places, memory)
    }
}
