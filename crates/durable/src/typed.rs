//! Objects with a type: what [`Load`] and [`Access`] do with bytes, done with values.

use aquifer_base::HomeAddress;
use aquifer_base::limits::LOG_GRAIN_BYTES;

use crate::access::{Access, Load};
use crate::error::{Error, Result};
use crate::reference::{Field, Ref};
use crate::value::{Value, whole_grains, with_buffer};

const GRAIN: u64 = LOG_GRAIN_BYTES as u64;

/// Values in objects. Every transaction has it; what changes something needs one that can.
///
/// Values of up to 512 bytes take no memory of the process's heap.
pub trait Typed: Load {
    /// A new object with `value`.
    ///
    /// # Errors
    /// As [`Access::alloc`].
    #[inline]
    fn create<T: Value>(&mut self, value: T) -> Result<Ref<T>>
    where
        Self: Access,
    {
        let at = Ref::from_home(self.alloc(whole_grains(T::BYTES.max(1)) as u64)?);
        self.set(at, value)?;
        Ok(at)
    }

    /// What is in the object.
    ///
    /// # Errors
    /// As [`Load::load`].
    #[inline]
    fn get<T: Value>(&mut self, at: Ref<T>) -> Result<T> {
        load_value(self, place(at)?)
    }

    /// Puts another value into the object.
    ///
    /// # Errors
    /// As [`Access::store`].
    #[inline]
    fn set<T: Value>(&mut self, at: Ref<T>, value: T) -> Result<()>
    where
        Self: Access,
    {
        let home = place(at)?;
        // With the zeros behind it, which are part of the object.
        with_buffer(whole_grains(T::BYTES), |bytes| {
            value.encode(&mut bytes[..T::BYTES]);
            self.store(home, bytes)
        })
    }

    /// Frees the object. What it refers to stays.
    ///
    /// # Errors
    /// As [`Access::free`].
    #[inline]
    fn delete<T: Value>(&mut self, at: Ref<T>) -> Result<()>
    where
        Self: Access,
    {
        self.free(at.home())
    }

    /// One field of what is in the object.
    ///
    /// # Errors
    /// As [`Load::load`].
    #[inline]
    fn get_field<S: Value, F: Value>(&mut self, at: Ref<S>, field: Field<S, F>) -> Result<F> {
        load_value(self, place(at)?.plus_bytes(field.offset_bytes() as u64))
    }

    /// Puts another value into one field of the object.
    ///
    /// # Errors
    /// As [`Access::store`].
    #[inline]
    fn set_field<S: Value, F: Value>(&mut self, at: Ref<S>, field: Field<S, F>, value: F) -> Result<()>
    where
        Self: Access,
    {
        let home = place(at)?.plus_bytes(field.offset_bytes() as u64);
        let start = HomeAddress(home.0 / GRAIN * GRAIN);
        let skip = (home.0 - start.0) as usize;
        with_buffer(whole_grains(skip + F::BYTES), |bytes| {
            if skip + F::BYTES < bytes.len() || skip > 0 {
                // Its neighbours stay.
                self.load(start, bytes)?;
            }
            value.encode(&mut bytes[skip..skip + F::BYTES]);
            self.store(start, bytes)
        })
    }

    /// The program's first object, which it knows to have a `T`.
    ///
    /// # Errors
    /// As [`Load::load`].
    #[inline]
    fn root_ref<T: Value>(&mut self) -> Result<Option<Ref<T>>> {
        Ok(self.root()?.map(Ref::from_home))
    }

    /// Makes an object the first one.
    ///
    /// # Errors
    /// As [`Access::store`].
    #[inline]
    fn set_root_ref<T: Value>(&mut self, root: Ref<T>) -> Result<()>
    where
        Self: Access,
    {
        self.set_root(root.home())
    }
}

impl<A: Load + ?Sized> Typed for A {}

/// Where the object is. At 0, where an empty reference leads, no object can be.
#[inline]
fn place<T>(at: Ref<T>) -> Result<HomeAddress> {
    if at.home().0 == 0 { Err(Error::NotAllocated(at.home())) } else { Ok(at.home()) }
}

#[inline]
fn load_value<A: Load + ?Sized, T: Value>(tx: &mut A, home: HomeAddress) -> Result<T> {
    with_buffer(T::BYTES, |bytes| {
        tx.load(home, bytes)?;
        Ok(T::decode(bytes))
    })
}
