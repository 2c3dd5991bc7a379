//! Many objects of a type.

use std::fmt;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use bytemuck::Pod;

use super::Fits;
use super::guard::{Reading, Writing};
use super::later::Later;
use crate::batch::run_in_background;
use crate::batch::{Item, Transfer};
use crate::error::Error;
use crate::heap;
use crate::shared::SharedHeap;

/// `len` objects in a heap, zeroed at first, each of which is in RAM or on flash by itself. They are freed with it.
///
/// Of several threads, some may read at the same time, or one may write, as with a `Vec`: share it as `&Array`, or in a `RwLock`.
pub struct Array<T> {
    objects: Arc<Objects>,
    value: PhantomData<T>,
}

/// The objects, which outlive the array while a batch in the background reads them.
struct Objects {
    heap: SharedHeap,
    array: heap::Array,
    /// Batches in the background that read: who writes waits for them.
    reading: AtomicUsize,
    ending: Mutex<()>,
    ended: Condvar,
}

impl Objects {
    fn lock(&self) -> MutexGuard<'_, ()> {
        self.ending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn address(&self, n: usize) -> Result<*mut u8, Error> {
        if n >= self.array.len() {
            return Err(Error::Invalid(format!("object {n} of an array of {}", self.array.len())));
        }
        Ok(self.array.element(n))
    }

    /// Waits for batches that read: one may go on although what stood for it was forgotten.
    fn wait_for_readers(&self) {
        if self.reading.load(Ordering::Acquire) > 0 {
            let still_reads = |(): &mut ()| self.reading.load(Ordering::Acquire) > 0;
            let _ended =
                self.ended.wait_while(self.lock(), still_reads).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// # Safety
    /// `memory` has room for, or holds, one `T` for each index. A writer is alone, and a reader beside readers.
    unsafe fn transfer<T>(&self, indices: &[usize], memory: *mut T, how: Transfer) -> Result<(), Error> {
        if let Some(&n) = indices.iter().find(|&&n| n >= self.array.len()) {
            self.address(n)?;
        }
        let item = |(m, &n): (usize, &usize)| Item {
            address: self.array.element(n).expose_provenance(),
            memory: memory.wrapping_add(m).cast(),
            bytes: size_of::<T>(),
        };
        // SAFETY: the caller says so of the memory.
        unsafe { self.heap.heap().transfer(&mut indices.iter().enumerate().map(item), how) }
    }

    fn read_many<T: Pod>(&self, indices: &[usize]) -> Result<Vec<T>, Error> {
        let mut values = vec![T::zeroed(); indices.len()];
        // SAFETY: there is a value for each index; who writes to objects waits for readers, or has the array mutably.
        unsafe { self.transfer(indices, values.as_mut_ptr(), Transfer::Read)? };
        Ok(values)
    }
}

impl Drop for Objects {
    fn drop(&mut self) {
        // Uses that were forgotten keep it for as long as the heap lives.
        let _kept = self.heap.heap().free(self.array.base());
    }
}

/// A batch in the background reads.
struct Reader(Arc<Objects>);

impl Drop for Reader {
    fn drop(&mut self) {
        let _ending = self.0.lock();
        self.0.reading.fetch_sub(1, Ordering::Release);
        self.0.ended.notify_all();
    }
}

impl<T: Pod> Array<T> {
    /// `len` zeroed objects, at least one. They cost nothing in RAM or on flash until they are written.
    ///
    /// # Errors
    /// [`Error::Heap`] when the flash or the address range is used up.
    pub fn new(heap: &SharedHeap, len: usize) -> Result<Self, Error> {
        const { Fits::<T>::PROOF };
        let objects = Objects {
            heap: heap.clone(),
            array: heap.heap().array(len, size_of::<T>())?,
            reading: AtomicUsize::new(0),
            ending: Mutex::new(()),
            ended: Condvar::new(),
        };
        Ok(Self { objects: Arc::new(objects), value: PhantomData })
    }

    /// Reads object `n` in place; it is brought into RAM if need be.
    ///
    /// # Errors
    /// [`Error::Invalid`] if there is none; [`Error::Heap`] if it cannot be read from flash, or too much is in use.
    #[inline]
    pub fn read(&self, n: usize) -> Result<Reading<'_, T>, Error> {
        let object = self.objects.heap.heap().reference(self.objects.address(n)?)?;
        let used = self.objects.heap.heap().read(object)?;
        // SAFETY: it was allocated for a `T`; who writes has the array mutably.
        Ok(unsafe { Reading::new(used) })
    }

    /// Writes to object `n` in place.
    ///
    /// # Errors
    /// As [`Array::read`].
    #[inline]
    pub fn write(&mut self, n: usize) -> Result<Writing<'_, T>, Error> {
        self.objects.wait_for_readers();
        let object = self.objects.heap.heap().reference(self.objects.address(n)?)?;
        let used = self.objects.heap.heap().write(object)?;
        // SAFETY: it was allocated for a `T`; the array is lent mutably, and nobody reads in the background.
        Ok(unsafe { Writing::new(used) })
    }

    /// Copies of the objects that `indices` names, in their order: what is not in RAM is read with many reads under way at once.
    ///
    /// # Errors
    /// As [`Array::read`].
    pub fn read_many(&self, indices: &[usize]) -> Result<Vec<T>, Error> {
        self.objects.read_many(indices)
    }

    /// Writes `values[n]` to object `indices[n]`; of one that is named twice, the last is left.
    ///
    /// # Errors
    /// [`Error::Invalid`] if there are not as many values as indices; else as [`Array::read`], and some were written.
    pub fn write_many(&mut self, indices: &[usize], values: &[T]) -> Result<(), Error> {
        if indices.len() != values.len() {
            return Err(Error::Invalid(format!("{} values for {} objects", values.len(), indices.len())));
        }
        self.objects.wait_for_readers();
        // SAFETY: there is a value for each index, and none is written to; the array is lent mutably.
        unsafe { self.objects.transfer(indices, values.as_ptr().cast_mut(), Transfer::Write) }
    }

    /// As [`Array::read_many`], in the background: begun at once, one batch after another. What is returned is a future, which need
    /// not be polled for the batch to go on. Writers wait until it has read.
    ///
    /// # Errors
    /// [`Error::System`] if there can be no thread for it; others come with the values.
    pub fn read_later(&self, indices: Vec<usize>) -> Result<Later<T>, Error>
    where
        T: Send,
    {
        self.objects.reading.fetch_add(1, Ordering::Relaxed);
        let reader = Reader(Arc::clone(&self.objects));
        let (later, promise) = Later::new();
        run_in_background(Box::new(move || {
            let values = reader.0.read_many(&indices);
            drop(reader);
            promise.keep(values);
        }))?;
        Ok(later)
    }

    /// Brings objects into RAM that will be used soon. A hint: what finds no room is skipped.
    ///
    /// # Errors
    /// As [`Array::read`].
    pub fn prefetch(&self, indices: &[usize]) -> Result<(), Error> {
        let addresses = indices.iter().map(|&n| Ok(self.objects.address(n)?.cast_const()));
        self.objects.heap.heap().prefetch(&addresses.collect::<Result<Vec<_>, Error>>()?)
    }
}

impl<T> Array<T> {
    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.objects.array.len()
    }

    /// Whether there are none; never true.
    pub fn is_empty(&self) -> bool {
        self.objects.array.is_empty()
    }

    /// The heap that they are in.
    pub fn heap(&self) -> &SharedHeap {
        &self.objects.heap
    }
}

impl<T> fmt::Debug for Array<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Array").field("len", &self.len()).field("bytes", &size_of::<T>()).finish()
    }
}
