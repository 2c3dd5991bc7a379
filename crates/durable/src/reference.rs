//! References that stay right when the heap is opened again: home addresses that know what is there.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;

use aquifer_base::HomeAddress;

use crate::value::Value;

/// A persistent reference to an object with a `T`: 8 bytes, the object's home address, which never changes.
///
/// It is made by [`Typed::create`](crate::Typed::create); none can be made of a pointer. Nothing ties it to the heap that it is of,
/// nor the object to it: with one of another heap, or to an object that was deleted, one gets an error or the bytes of another object.
pub struct Ref<T> {
    home: HomeAddress,
    kind: PhantomData<fn() -> T>,
}

impl<T> Ref<T> {
    /// A reference to what is at `home`, where the caller knows a `T` to be.
    #[inline]
    pub const fn from_home(home: HomeAddress) -> Self {
        Self { home, kind: PhantomData }
    }

    /// Where the object is.
    #[inline]
    pub const fn home(self) -> HomeAddress {
        self.home
    }

    /// The reference `bytes` further on.
    #[inline]
    pub(crate) const fn plus_bytes<U>(self, bytes: usize) -> Ref<U> {
        Ref::from_home(self.home.plus_bytes(bytes as u64))
    }
}

impl<T: 'static> Value for Ref<T> {
    const BYTES: usize = 8;

    #[inline]
    fn encode(&self, out: &mut [u8]) {
        self.home.0.encode(out);
    }

    #[inline]
    fn decode(bytes: &[u8]) -> Self {
        Self::from_home(HomeAddress(u64::decode(bytes)))
    }
}

/// `None` is 0, where no object is.
impl<T: 'static> Value for Option<Ref<T>> {
    const BYTES: usize = 8;

    #[inline]
    fn encode(&self, out: &mut [u8]) {
        self.map_or(0, |at| at.home.0).encode(out);
    }

    #[inline]
    fn decode(bytes: &[u8]) -> Self {
        let home = u64::decode(bytes);
        (home != 0).then_some(Ref::from_home(HomeAddress(home)))
    }
}

// By hand, because what derives them asks the same of `T`.
impl<T> Clone for Ref<T> {
    #[inline]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Ref<T> {}

impl<T> PartialEq for Ref<T> {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.home == other.home
    }
}

impl<T> Eq for Ref<T> {}

impl<T> Hash for Ref<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.home.hash(state);
    }
}

impl<T> fmt::Debug for Ref<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ref({:#x})", self.home.0)
    }
}

/// Where in an `S` a field of type `F` is. [`durable_struct!`](crate::durable_struct) makes them.
pub struct Field<S, F> {
    offset_bytes: usize,
    kind: PhantomData<fn(S) -> F>,
}

impl<S, F> Field<S, F> {
    /// The field that begins `offset_bytes` bytes from the start of an `S`.
    #[doc(hidden)]
    pub const fn at(offset_bytes: usize) -> Self {
        Self { offset_bytes, kind: PhantomData }
    }

    /// Bytes before it.
    #[inline]
    pub const fn offset_bytes(self) -> usize {
        self.offset_bytes
    }
}

impl<S, F> Clone for Field<S, F> {
    #[inline]
    fn clone(&self) -> Self {
        *self
    }
}

impl<S, F> Copy for Field<S, F> {}
