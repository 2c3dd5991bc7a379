//! An object in use.

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use bytemuck::Pod;

use crate::reference::{Use, UseMut};

/// An object that is read where it is in RAM, until this is dropped. A heap can keep about an eighth of its RAM in use at a time.
pub struct Reading<'a, T> {
    used: Use<'a>,
    value: PhantomData<&'a T>,
}

impl<'a, T: Pod> Reading<'a, T> {
    /// # Safety
    /// The object is a `T`, and nobody writes to it as long as this lives.
    pub(super) unsafe fn new(used: Use<'a>) -> Self {
        Self { used, value: PhantomData }
    }
}

impl<T: Pod> Deref for Reading<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the object is in place, aligned to 8 bytes, and by the promise at `new` a `T` that nobody writes to; all
        // bytes are values of it.
        unsafe { &*self.used.as_ptr().cast() }
    }
}

/// An object that is written where it is in RAM, until this is dropped.
pub struct Writing<'a, T> {
    used: UseMut<'a>,
    value: PhantomData<&'a mut T>,
}

impl<'a, T: Pod> Writing<'a, T> {
    /// # Safety
    /// The object is a `T`, and nobody else uses it as long as this lives.
    pub(super) unsafe fn new(used: UseMut<'a>) -> Self {
        Self { used, value: PhantomData }
    }
}

impl<T: Pod> Deref for Writing<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: as of a `Reading`.
        unsafe { &*self.used.0.as_ptr().cast() }
    }
}

impl<T: Pod> DerefMut for Writing<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as of a `Reading`; the object is in use for writing, by this alone.
        unsafe { &mut *self.used.as_mut_ptr().cast() }
    }
}
