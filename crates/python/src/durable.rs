//! An ordered mapping of bytes in the file of a durable heap, which stays when the process ends.
//!
//! The file is a durable heap with a root `store` of type `aq_tree`, so that a C program opens the same tree by
//! `aq_tx_root_named`. Each method is a transaction, or some that only read, without the interpreter's lock.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use aquifer::units::format_size;
use aquifer_durable::structures::BytesTree;
use aquifer_durable::{Durability, DurableHeap, Error, Options, ReadTransaction, Result, Roots, Transaction};
use aquifer_status::Server;
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};

use crate::volume::no_socket;

/// The root, and the name of its type.
const ROOT: (&[u8], &[u8]) = (b"store", b"aq_tree");
/// Entries that one transaction reads, and bytes after which it ends.
const BATCH_ENTRIES: usize = 256;
const BATCH_BYTES: usize = 4 << 20;
/// About how long after its return a commit is durable that does not wait for it.
const LATER: Duration = Duration::from_millis(100);
/// Bytes written between two checkpoints, which spare an opening the reading of all.
const CHECKPOINT_BYTES: u64 = 64 << 20;

/// A heap that is open, of the process that opened it.
struct Open {
    // Dropped first: it answers for the heap.
    server: Option<Server>,
    heap: DurableHeap,
    tree: BytesTree,
    process: u32,
}

/// A key, and its value where that is wanted.
type Found<'py> = (Bound<'py, PyBytes>, Option<Bound<'py, PyBytes>>);

/// A mapping from bytes to bytes in a file, in the order of its keys.
#[pyclass(frozen, module = "aquifer._core")]
pub(crate) struct DurableTree {
    open: RwLock<Option<Arc<Open>>>,
    path: PathBuf,
}

/// The heap of a store; `None` if its file has something else.
fn open(path: &Path, options: &Options, is_read_only: bool, makes: bool) -> Result<Option<Open>> {
    let heap =
        if is_read_only { DurableHeap::open_read_only(path)? } else { DurableHeap::open(path, options)? };
    let found = heap.read(|tx| match tx.named(ROOT.0, ROOT.1)? {
        Some(home) => BytesTree::open(tx, home).map(Some),
        None => Ok(None),
    })?;
    let tree = match found {
        Some(tree) => tree,
        None if makes && heap.read(is_new)? => heap.transaction(|tx| {
            let tree = BytesTree::create(tx)?;
            tx.set_named(ROOT.0, ROOT.1, Some(tree.home()))?;
            Ok(tree)
        })?,
        None => return Ok(None),
    };
    Ok(Some(Open { server: None, heap, tree, process: std::process::id() }))
}

/// Whether no program has put anything into the heap.
fn is_new(tx: &mut ReadTransaction<'_>) -> Result<bool> {
    Ok(tx.root()?.is_none() && tx.next_named(b"")?.is_none())
}

/// Closes the heap, after what it holds was made durable. In a child of the process that opened it, whose threads are not there, nothing
/// is done.
fn close(open: Arc<Open>) -> Result<()> {
    if open.process != std::process::id() {
        std::mem::forget(open);
        return Ok(());
    }
    // A call that still uses the heap closes it.
    open.heap.sync()
}

/// What one transaction found of the keys, in their order: fewer where there are many bytes.
fn values(tx: &mut ReadTransaction<'_>, tree: BytesTree, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>> {
    let (mut found, mut bytes) = (Vec::with_capacity(keys.len()), 0);
    for key in keys {
        let value = tree.get(tx, key)?;
        bytes += value.as_ref().map_or(0, Vec::len);
        found.push(value);
        if bytes >= BATCH_BYTES {
            break;
        }
    }
    Ok(found)
}

/// Which entries a call lists.
#[derive(Clone, Copy)]
struct Span<'a> {
    from: &'a [u8],
    /// Whether `from` itself was listed before.
    is_behind: bool,
    stop: Option<&'a [u8]>,
    has_values: bool,
}

type Entry = (Vec<u8>, Option<Vec<u8>>);

/// What one transaction found of a span, from its beginning.
fn entries(tx: &mut ReadTransaction<'_>, tree: BytesTree, span: Span<'_>) -> Result<Vec<Entry>> {
    let (mut found, mut bytes) = (Vec::new(), 0);
    let mut next = if span.is_behind { tree.next(tx, span.from)? } else { tree.seek(tx, span.from)? };
    while let Some((key, stored)) = next {
        if span.stop.is_some_and(|stop| *key >= *stop) {
            break;
        }
        let value = span.has_values.then(|| stored.load(tx)).transpose()?;
        bytes += key.len() + value.as_ref().map_or(0, Vec::len);
        let is_full = found.len() + 1 == BATCH_ENTRIES || bytes >= BATCH_BYTES;
        next = if is_full { None } else { tree.next(tx, &key)? };
        found.push((key, value));
    }
    Ok(found)
}

impl DurableTree {
    fn opened(&self) -> PyResult<Arc<Open>> {
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner).clone();
        let open = open.ok_or_else(|| PyValueError::new_err("the store is closed"))?;
        if open.process != std::process::id() {
            return Err(PyRuntimeError::new_err(
                "this process was forked from the one that has the store open, and cannot use it; use spawn, and open it in one process",
            ));
        }
        Ok(open)
    }

    /// Calls `act` with the open heap, without the interpreter's lock.
    fn call<T: Send>(&self, py: Python<'_>, act: impl FnOnce(&Open) -> Result<T> + Send) -> PyResult<T> {
        let open = self.opened()?;
        let outcome = py.detach(move || act(&open));
        outcome.map_err(|error| exception(&self.path, &error))
    }

    fn change<T: Send>(
        &self,
        py: Python<'_>,
        mut body: impl FnMut(&mut Transaction<'_>, BytesTree) -> Result<T> + Send,
    ) -> PyResult<T> {
        self.call(py, |open| open.heap.transaction(|tx| body(tx, open.tree)))
    }

    fn read<T: Send>(
        &self,
        py: Python<'_>,
        mut body: impl FnMut(&mut ReadTransaction<'_>, BytesTree) -> Result<T> + Send,
    ) -> PyResult<T> {
        self.call(py, |open| open.heap.read(|tx| body(tx, open.tree)))
    }
}

#[pymethods]
impl DurableTree {
    /// Opens the file at `path`, which may grow to `size` bytes. A file that is new, or has no bytes, becomes a store if it `makes`.
    /// Commits wait until they are durable, but for those of `later`. `socket` is where `aquifer top` asks.
    #[new]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        size: u64,
        later: bool,
        read_only: bool,
        makes: bool,
        socket: Option<PathBuf>,
    ) -> PyResult<Self> {
        let durability = if later { Durability::Group(LATER) } else { Durability::Sync };
        let options = Options {
            capacity_bytes: size,
            durability,
            checkpoint_bytes: CHECKPOINT_BYTES,
            ..Options::default()
        };
        let opened = py.detach(|| open(&path, &options, read_only, makes));
        let mut opened = opened.map_err(|error| exception(&path, &error))?.ok_or_else(|| {
            PyValueError::new_err(format!(
                "{} is a durable heap of another program: it has no store",
                path.display()
            ))
        })?;
        opened.server = socket
            .map(|socket| opened.heap.answer_at(&socket).map_err(|error| no_socket(&socket, &error)))
            .transpose()?;
        Ok(Self { open: RwLock::new(Some(Arc::new(opened))), path })
    }

    /// `ValueError` if it is closed, `RuntimeError` in a child of the process that opened it.
    fn ensure_open(&self) -> PyResult<()> {
        self.opened().map(drop)
    }

    /// The value of a key, or None.
    fn get<'py>(&self, py: Python<'py>, key: &[u8]) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let value = self.read(py, |tx, tree| tree.get(tx, key))?;
        Ok(value.map(|value| PyBytes::new(py, &value)))
    }

    /// The values of keys as a list, None for those that are not there.
    fn get_many<'py>(&self, py: Python<'py>, keys: Vec<Bound<'py, PyBytes>>) -> PyResult<Bound<'py, PyList>> {
        let keys: Vec<&[u8]> = keys.iter().map(|key| key.as_bytes()).collect();
        let found = PyList::empty(py);
        while found.len() < keys.len() {
            let rest = &keys[found.len()..];
            let some = self.read(py, |tx, tree| values(tx, tree, &rest[..rest.len().min(BATCH_ENTRIES)]))?;
            for value in some {
                found.append(value.map(|value| PyBytes::new(py, &value)))?;
            }
            py.check_signals()?;
        }
        Ok(found)
    }

    /// Whether there is a key.
    fn has(&self, py: Python<'_>, key: &[u8]) -> PyResult<bool> {
        self.read(py, |tx, tree| Ok(tree.find(tx, key)?.is_some()))
    }

    /// Puts values, and takes the keys away that have None, in one transaction.
    fn apply(
        &self,
        py: Python<'_>,
        changes: Vec<(Bound<'_, PyBytes>, Option<Bound<'_, PyBytes>>)>,
    ) -> PyResult<()> {
        let changes: Vec<(&[u8], Option<&[u8]>)> = changes
            .iter()
            .map(|(key, value)| (key.as_bytes(), value.as_ref().map(|value| value.as_bytes())))
            .collect();
        self.change(py, |tx, tree| {
            changes.iter().try_for_each(|&(key, value)| match value {
                Some(value) => tree.put(tx, key, value).map(drop),
                None => tree.remove(tx, key).map(drop),
            })
        })
    }

    /// Takes a key away; returns its value, or None if it was not there.
    fn pop<'py>(&self, py: Python<'py>, key: &[u8]) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let value = self.change(py, |tx, tree| {
            let value = tree.get(tx, key)?;
            tree.remove(tx, key)?;
            Ok(value)
        })?;
        Ok(value.map(|value| PyBytes::new(py, &value)))
    }

    /// Takes a key away; returns whether it was there.
    fn remove(&self, py: Python<'_>, key: &[u8]) -> PyResult<bool> {
        self.change(py, |tx, tree| tree.remove(tx, key))
    }

    /// Puts a value unless the key has one, which is returned.
    fn put_new<'py>(
        &self,
        py: Python<'py>,
        key: &[u8],
        value: &[u8],
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let old = self.change(py, |tx, tree| {
            let old = tree.get(tx, key)?;
            if old.is_none() {
                tree.put(tx, key, value)?;
            }
            Ok(old)
        })?;
        Ok(old.map(|old| PyBytes::new(py, &old)))
    }

    /// Some entries from the key `start` on, or behind it, and before `stop`, in order; none at the end. Values are None unless they
    /// are wanted.
    fn entries<'py>(
        &self,
        py: Python<'py>,
        start: &[u8],
        behind: bool,
        stop: Option<&[u8]>,
        values: bool,
    ) -> PyResult<Vec<Found<'py>>> {
        let span = Span { from: start, is_behind: behind, stop, has_values: values };
        let found = self.read(py, |tx, tree| entries(tx, tree, span))?;
        let bytes = |bytes: Vec<u8>| PyBytes::new(py, &bytes);
        Ok(found.into_iter().map(|(key, value)| (bytes(key), value.map(bytes))).collect())
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.read(py, |tx, tree| tree.len(tx))? as usize)
    }

    /// Makes all durable that was put before this call.
    fn sync(&self, py: Python<'_>) -> PyResult<()> {
        self.call(py, |open| open.heap.sync())
    }

    /// Makes all durable and closes the file, once calls that use it have ended. Closing twice is allowed.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let Some(open) = self.open.write().unwrap_or_else(PoisonError::into_inner).take() else {
            return Ok(());
        };
        py.detach(|| close(open)).map_err(|error| exception(&self.path, &error))
    }

    /// Whether it is closed.
    #[getter]
    fn closed(&self) -> bool {
        self.open.read().unwrap_or_else(PoisonError::into_inner).is_none()
    }

    /// Room in the file, and RAM: a dict of numbers.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (usage, size, written) = self.call(py, |open| {
            let (heap, counts) = (&open.heap, open.heap.persist().counts());
            Ok((heap.usage(), heap.capacity_bytes(), [counts.bytes(), counts.fences()]))
        })?;
        let dict = PyDict::new(py);
        dict.set_item("keys", self.__len__(py)?)?;
        dict.set_item("used_bytes", usage.live_bytes)?;
        dict.set_item("file_bytes", usage.file_bytes)?;
        dict.set_item("size", size)?;
        dict.set_item("ram_used_bytes", usage.map_bytes)?;
        dict.set_item("written_bytes", written[0])?;
        dict.set_item("syncs", written[1])?;
        Ok(dict)
    }
}

impl Drop for DurableTree {
    fn drop(&mut self) {
        if let Some(open) = self.open.write().unwrap_or_else(PoisonError::into_inner).take() {
            // Nobody is left to be told.
            let _failed = close(open);
        }
    }
}

/// Whether the operating system refuses to make the file longer.
fn is_room_missing(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge)
}

/// The exception for an error of the heap in the file at `path`.
fn exception(path: &Path, error: &Error) -> PyErr {
    let path = path.display();
    match error {
        Error::Full { capacity_bytes } => PyOSError::new_err((
            libc::ENOSPC,
            format!(
                "{path} is full: its size is {}, and nothing of this call was put; remove keys, or close it and open it with a larger size",
                format_size(*capacity_bytes)
            ),
        )),
        Error::Foreign { .. } | Error::TooLarge { .. } => PyValueError::new_err(error.to_string()),
        Error::WrongType { .. } => {
            PyValueError::new_err(format!("{path} is a durable heap of another program: {error}"))
        }
        Error::ReadOnly => {
            PyValueError::new_err(format!("{path} is open for reading alone: open it with mode='r+'"))
        }
        Error::Io { source, .. } if source.kind() == ErrorKind::WouldBlock => PyOSError::new_err((
            libc::EBUSY,
            format!(
                "{path} is open already, in this process or another one: one may have it open to change it, or several to read it"
            ),
        )),
        Error::Io { source, .. } if is_room_missing(source.kind()) => PyOSError::new_err((
            source.raw_os_error().unwrap_or(libc::ENOSPC),
            format!(
                "{path} cannot grow: {source}; nothing of this call was put; make room on the disk, and go on"
            ),
        )),
        // Python makes the kind of error of it that belongs to the number.
        Error::Io { source, .. } => {
            PyOSError::new_err((source.raw_os_error().unwrap_or(libc::EIO), format!("{path}: {error}")))
        }
        Error::Conflict | Error::Spent | Error::Name => PyRuntimeError::new_err(format!("{path}: {error}")),
        // What the tree leads to is not there, which the file's checksums have not found.
        _ => PyOSError::new_err((
            libc::EIO,
            format!(
                "{path}: {error}; the store is damaged: `aquifer durable check {path}` looks at all of it, and \
                 `aquifer durable salvage {path} TARGET` copies what is left"
            ),
        )),
    }
}
