//! One object.

use std::fmt;
use std::marker::PhantomData;

use bytemuck::Pod;

use super::Fits;
use super::guard::{Reading, Writing};
use crate::error::Error;
use crate::reference;
use crate::shared::SharedHeap;

/// An object of its own in a heap, which is freed with this: as a `Box`, but used through guards and without page faults. It takes 16
/// bytes of the program's own memory.
pub struct Ref<T> {
    heap: SharedHeap,
    object: reference::Ref,
    value: PhantomData<T>,
}

impl<T: Pod> Ref<T> {
    /// Puts a value into a heap.
    ///
    /// # Errors
    /// [`Error::Heap`] when the flash or the address range is used up.
    pub fn new(heap: &SharedHeap, value: T) -> Result<Self, Error> {
        const { Fits::<T>::PROOF };
        let object = heap.heap().reference(heap.heap().allocate(size_of::<T>())?)?;
        let mut this = Self { heap: heap.clone(), object, value: PhantomData };
        *this.write()? = value;
        Ok(this)
    }

    /// Reads it in place; it is brought into RAM if need be.
    ///
    /// # Errors
    /// [`Error::Heap`] if it cannot be read from flash, or too much is in use.
    #[inline]
    pub fn read(&self) -> Result<Reading<'_, T>, Error> {
        let used = self.heap.heap().read(self.object)?;
        // SAFETY: it was allocated as a `T`; who writes has this mutably.
        Ok(unsafe { Reading::new(used) })
    }

    /// Writes to it in place.
    ///
    /// # Errors
    /// As [`Ref::read`].
    #[inline]
    pub fn write(&mut self) -> Result<Writing<'_, T>, Error> {
        let used = self.heap.heap().write(self.object)?;
        // SAFETY: it was allocated as a `T`; this is lent mutably.
        Ok(unsafe { Writing::new(used) })
    }
}

impl<T> Drop for Ref<T> {
    fn drop(&mut self) {
        if let Ok(address) = self.heap.heap().address_of(self.object) {
            // A use of it that was forgotten keeps it for as long as the heap lives.
            let _kept = self.heap.heap().free(address);
        }
    }
}

impl<T> fmt::Debug for Ref<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Ref").field(&self.object).finish()
    }
}
