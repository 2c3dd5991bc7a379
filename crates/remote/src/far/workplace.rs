//! Memory in which rows are coded.

use std::ops::{Deref, DerefMut, Range};
use std::sync::{Condvar, Mutex, PoisonError};

use aquifer_device::AlignedBuffer;
use arrayvec::ArrayVec;

use super::Code;
use super::PAGE_BYTES;
use super::geometry::Geometry;

/// Rows that are coded or sealed at once; further ones wait. A thread that has a workplace waits for no row.
const COUNT: usize = 4;

/// All of them.
pub struct Workplaces {
    free: Mutex<Vec<AlignedBuffer>>,
    returned: Condvar,
    unit_bytes: usize,
    row_bytes: usize,
}

impl Workplaces {
    pub fn new(geometry: &Geometry) -> Workplaces {
        let unit_bytes = geometry.unit_pages() * PAGE_BYTES;
        let row_bytes = geometry.code().slabs() * unit_bytes;
        let free = (0..COUNT).map(|_| AlignedBuffer::new(row_bytes)).collect();
        Workplaces { free: Mutex::new(free), returned: Condvar::new(), unit_bytes, row_bytes }
    }

    /// RAM that they take.
    pub fn ram_bytes(&self) -> usize {
        COUNT * self.row_bytes
    }

    /// Memory for a row. Waits while others have all of it.
    pub fn take(&self) -> Workplace<'_> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(memory) = free.pop() {
                return Workplace { all: self, memory: Some(memory) };
            }
            free = self.returned.wait(free).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Memory for a row, until it is dropped: a unit for each column.
pub struct Workplace<'a> {
    all: &'a Workplaces,
    memory: Option<AlignedBuffer>,
}

impl Workplace<'_> {
    fn within(&self, column: usize, pages: &Range<usize>) -> Range<usize> {
        let first = column * self.all.unit_bytes + pages.start * PAGE_BYTES;
        first..first + pages.len() * PAGE_BYTES
    }

    /// Pages of a column.
    pub fn of(&self, column: usize, pages: Range<usize>) -> &[u8] {
        &self[self.within(column, &pages)]
    }

    /// Pages of a column, to be changed.
    pub fn of_mut(&mut self, column: usize, pages: Range<usize>) -> &mut [u8] {
        let within = self.within(column, &pages);
        &mut self[within]
    }

    /// Gives a column the pages of another one.
    pub fn copy(&mut self, from: usize, to: usize, pages: Range<usize>) {
        let (from, to) = (self.within(from, &pages), self.within(to, &pages).start);
        self.copy_within(from, to);
    }

    /// The same pages of all columns, to be changed.
    pub fn all_mut(&mut self, pages: Range<usize>) -> ArrayVec<&mut [u8], { Code::SLABS_MAX }> {
        let (unit_bytes, bytes) = (self.all.unit_bytes, pages.start * PAGE_BYTES..pages.end * PAGE_BYTES);
        self.chunks_exact_mut(unit_bytes).map(|unit| &mut unit[bytes.clone()]).collect()
    }
}

impl Deref for Workplace<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.memory.as_ref().expect("it is there until the drop")
    }
}

impl DerefMut for Workplace<'_> {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.memory.as_mut().expect("it is there until the drop")
    }
}

impl Drop for Workplace<'_> {
    fn drop(&mut self) {
        let mut free = self.all.free.lock().unwrap_or_else(PoisonError::into_inner);
        free.extend(self.memory.take());
        self.all.returned.notify_one();
    }
}
