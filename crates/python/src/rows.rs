//! Rows of equal length in a heap, moved in batches.
//!
//! NumPy arrays given here are contiguous; what calls this has made them so. The GIL is released while bytes move, and taken between
//! batches to look for signals. Two threads that use the same rows see what two threads that use the same `ndarray` see.

use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use aquifer::{Item, Transfer};
use numpy::{PyReadonlyArray1, PyUntypedArray};
use pyo3::prelude::*;

use crate::errors::exception;
use crate::extents::{Extents, Piece};
use crate::heap::{Heap, Shared};
use crate::memory::{Memory, outside, row_within};

/// Rows of a call that are moved before signals are looked for, and bytes of one piece.
const BATCH_ROWS: usize = 16 << 10;
const BATCH_BYTES: usize = 32 << 20;

/// Rows of `row_bytes` bytes each in a heap.
#[pyclass(frozen, module = "aquifer._core")]
pub(crate) struct Rows {
    shared: Shared,
    extents: RwLock<Extents>,
    row_bytes: usize,
}

/// Adds a piece, to the last one if it follows that in the heap and in memory: indices often name rows in their order.
fn push(pieces: &mut Vec<Piece>, piece: Piece) {
    match pieces.last_mut() {
        Some(last)
            if last.address + last.bytes == piece.address && last.offset + last.bytes == piece.offset =>
        {
            last.bytes += piece.bytes;
        }
        _ => pieces.push(piece),
    }
}

impl Rows {
    fn extents(&self) -> RwLockReadGuard<'_, Extents> {
        self.extents.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Moves the pieces between the heap and `memory`, which has room for all of them.
    fn transfer(
        &self,
        heap: &aquifer::Heap,
        memory: Memory,
        pieces: &[Piece],
        how: Transfer,
    ) -> Result<(), aquifer::Error> {
        let mut items = pieces.iter().map(|&piece| Item {
            address: piece.address,
            memory: memory.at(piece.offset),
            bytes: piece.bytes,
        });
        // SAFETY: each piece lies in `memory`, which the caller keeps.
        unsafe { heap.transfer(&mut items, how) }
    }

    /// Moves `count` rows from `first`.
    fn move_run(&self, py: Python<'_>, first: usize, memory: Memory, how: Transfer) -> PyResult<()> {
        let heap = self.shared.open()?;
        let count = memory.bytes.checked_div(self.row_bytes).unwrap_or(0);
        let step = (BATCH_BYTES / self.row_bytes.max(1)).clamp(1, BATCH_ROWS * 8);
        let mut done = 0;
        while done < count {
            let batch = step.min(count - done);
            let moved = py.detach(|| {
                let extents = self.extents();
                if first + done + batch > extents.rows() {
                    return Err(outside((first + count) as i64 - 1, extents.rows()));
                }
                let mut pieces = Vec::new();
                extents.pieces(first + done, batch, |piece| pieces.push(piece));
                let start = done * self.row_bytes;
                let memory = Memory { address: memory.address + start, bytes: batch * self.row_bytes };
                self.transfer(&heap, memory, &pieces, how).map_err(|error| exception(&error))
            });
            moved?;
            done += batch;
            py.check_signals()?;
        }
        Ok(())
    }

    /// Moves rows one by one; of the same row, in the order given.
    fn move_each(&self, py: Python<'_>, rows: &[i64], memory: Memory, how: Transfer) -> PyResult<()> {
        let heap = self.shared.open()?;
        memory.ensure_rows(rows.len(), self.row_bytes)?;
        let step = (BATCH_BYTES / self.row_bytes.max(1)).clamp(1, BATCH_ROWS);
        for (n, batch) in rows.chunks(step).enumerate() {
            let moved = py.detach(|| {
                let extents = self.extents();
                let mut pieces = Vec::with_capacity(batch.len());
                for (m, &row) in batch.iter().enumerate() {
                    let count = extents.rows();
                    let index = row_within(row, count)?;
                    extents.pieces(index, 1, |piece| {
                        push(&mut pieces, Piece { offset: m * self.row_bytes, ..piece });
                    });
                }
                let start = n * step * self.row_bytes;
                let memory = Memory { address: memory.address + start, bytes: batch.len() * self.row_bytes };
                self.transfer(&heap, memory, &pieces, how).map_err(|error| exception(&error))
            });
            moved?;
            py.check_signals()?;
        }
        Ok(())
    }

    /// Writes zeros to rows that may hold bytes of earlier ones.
    fn clear(&self, py: Python<'_>, rows: std::ops::Range<usize>) -> PyResult<()> {
        let step = (BATCH_BYTES / self.row_bytes.max(1)).max(1);
        let zeros = vec![0u8; step.min(rows.len()) * self.row_bytes];
        for first in rows.clone().step_by(step) {
            let bytes = step.min(rows.end - first) * self.row_bytes;
            let memory = Memory { address: zeros.as_ptr().expose_provenance(), bytes };
            self.move_run(py, first, memory, Transfer::Write)?;
        }
        Ok(())
    }
}

#[pymethods]
impl Rows {
    /// `rows` rows of `row_bytes` zeros. Each is an object of its own if they are `apart`, for which a row is a page at most.
    #[new]
    fn new(py: Python<'_>, heap: &Heap, rows: usize, row_bytes: usize, apart: bool) -> PyResult<Self> {
        let shared = heap.shared.clone();
        let this = Self { shared, extents: RwLock::new(Extents::new(row_bytes, apart)), row_bytes };
        this.resize(py, rows)?;
        Ok(this)
    }

    /// Fills `out` with rows from `first` on. What is read `once` is not kept in RAM.
    fn read(
        &self,
        py: Python<'_>,
        first: usize,
        out: &Bound<'_, PyUntypedArray>,
        once: bool,
    ) -> PyResult<()> {
        let how = if once { Transfer::ReadOnce } else { Transfer::Read };
        self.move_run(py, first, Memory::of(out, true)?, how)
    }

    /// Writes `values` to rows from `first` on.
    fn write(&self, py: Python<'_>, first: usize, values: &Bound<'_, PyUntypedArray>) -> PyResult<()> {
        self.move_run(py, first, Memory::of(values, false)?, Transfer::Write)
    }

    /// Fills `out` with the rows that `rows` names.
    fn gather(
        &self,
        py: Python<'_>,
        rows: PyReadonlyArray1<'_, i64>,
        out: &Bound<'_, PyUntypedArray>,
    ) -> PyResult<()> {
        self.move_each(py, rows.as_slice()?, Memory::of(out, true)?, Transfer::Read)
    }

    /// Writes `values` to the rows that `rows` names; of a row that is named twice, the last is left.
    fn scatter(
        &self,
        py: Python<'_>,
        rows: PyReadonlyArray1<'_, i64>,
        values: &Bound<'_, PyUntypedArray>,
    ) -> PyResult<()> {
        self.move_each(py, rows.as_slice()?, Memory::of(values, false)?, Transfer::Write)
    }

    /// Brings rows into RAM, with many reads under way at once: a hint, as what finds no room is skipped.
    fn prefetch(&self, py: Python<'_>, rows: PyReadonlyArray1<'_, i64>) -> PyResult<()> {
        let heap = self.shared.open()?;
        for batch in rows.as_slice()?.chunks(BATCH_ROWS) {
            py.detach(|| {
                let extents = self.extents();
                let known = batch
                    .iter()
                    .filter_map(|&row| usize::try_from(row).ok())
                    .filter(|&row| row < extents.rows());
                let addresses: Vec<_> =
                    known.map(|row| std::ptr::with_exposed_provenance(extents.address(row))).collect();
                heap.prefetch(&addresses).map_err(|error| exception(&error))
            })?;
            py.check_signals()?;
        }
        Ok(())
    }

    /// Makes the rows more, of zeros, or fewer.
    fn resize(&self, py: Python<'_>, rows: usize) -> PyResult<()> {
        let heap = self.shared.open()?;
        let resized = py.detach(|| {
            let mut extents = self.extents.write().unwrap_or_else(PoisonError::into_inner);
            let before = extents.rows();
            if rows < before {
                extents.shrink(&heap, rows)?;
                return Ok(rows..rows);
            }
            extents.grow(&heap, rows)?;
            Ok(extents.recycled(before))
        });
        let recycled = resized.map_err(|error| exception(&error))?;
        self.clear(py, recycled)
    }

    fn __len__(&self) -> usize {
        self.extents().rows()
    }

    /// Whether each row is an object of its own.
    #[getter]
    fn apart(&self) -> bool {
        self.extents().is_apart()
    }
}

impl Drop for Rows {
    fn drop(&mut self) {
        // A heap that is closed, or its parent's, takes its rows with it.
        if let Ok(heap) = self.shared.open() {
            let extents = self.extents.get_mut().unwrap_or_else(PoisonError::into_inner);
            let _freed = extents.shrink(&heap, 0);
        }
    }
}
