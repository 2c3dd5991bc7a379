//! Objects by reference: used where they are in RAM, without a fault.

use crate::error::Error;
use crate::heap::Heap;

/// An object of a heap, by number. It stays the same for as long as the object lives.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Ref(u64);

impl Ref {
    pub(crate) fn new(offset: usize) -> Self {
        Self(offset as u64 + 1)
    }

    /// The number; never 0.
    pub fn to_bits(self) -> u64 {
        self.0
    }

    /// The reference with this number; `None` for 0.
    pub fn from_bits(bits: u64) -> Option<Self> {
        (bits != 0).then_some(Self(bits))
    }

    pub(crate) fn offset(self) -> usize {
        (self.0 - 1) as usize
    }
}

/// An object in use, until this is dropped. Its bytes stay where they are meanwhile.
///
/// # Coherence
/// All uses of an object, and its address, are the same bytes. As long as an object is in use, an access to its address waits
/// until the use ends, so a thread that uses an object must not touch its address. Uses by several threads at once are not
/// ordered: as with pointers, they take turns by locks of their own.
pub struct Use<'a> {
    heap: &'a Heap,
    address: usize,
    pointer: *mut u8,
    bytes: usize,
}

impl<'a> Use<'a> {
    pub(crate) fn new(heap: &'a Heap, address: usize, pointer: *mut u8, bytes: usize) -> Self {
        Self { heap, address, pointer, bytes }
    }

    /// Its first byte. Valid for as long as this lives.
    pub fn as_ptr(&self) -> *const u8 {
        self.pointer
    }

    /// Its bytes, rounded up to those that may be used.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.bytes
    }
}

impl Drop for Use<'_> {
    fn drop(&mut self) {
        // It is in use, so this cannot fail.
        let _ = self.heap.end_use_at(self.address);
    }
}

/// An object in use for writing, until this is dropped.
pub struct UseMut<'a>(pub(crate) Use<'a>);

impl UseMut<'_> {
    /// Its first byte. Valid for as long as this lives.
    pub fn as_mut_ptr(&mut self) -> *mut u8 {
        self.0.pointer
    }

    /// Its bytes, rounded up to those that may be used.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.0.bytes
    }
}

impl Heap {
    /// The reference of the object at `object`.
    ///
    /// # Errors
    /// [`Error::Heap`] if the address is not this heap's.
    pub fn reference(&self, object: *const u8) -> Result<Ref, Error> {
        self.offset_of(object).map(Ref::new)
    }

    /// Uses an object for reading, where it is in RAM; it is brought there if need be.
    ///
    /// # Errors
    /// [`Error::Heap`] if there is none, it cannot be read, or too much is in use.
    pub fn read(&self, object: Ref) -> Result<Use<'_>, Error> {
        let (address, used) = self.begin_use_at(object.offset(), false)?;
        Ok(Use::new(self, address, used.pointer, used.bytes))
    }

    /// Uses an object for writing, where it is in RAM.
    ///
    /// # Errors
    /// As [`Heap::read`].
    pub fn write(&self, object: Ref) -> Result<UseMut<'_>, Error> {
        let (address, used) = self.begin_use_at(object.offset(), true)?;
        Ok(UseMut(Use::new(self, address, used.pointer, used.bytes)))
    }
}
