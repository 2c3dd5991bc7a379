//! What holds the objects.

use super::books::Object;
use crate::error::Result;
use crate::rumble::sample::Durable;

/// Memory of a store at one moment, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Footprint {
    /// Everything that it holds for the objects.
    pub resident_bytes: u64,
    /// Part of that which is free and can take any object; 0 if that is not known.
    pub reserve_bytes: u64,
    /// What the store has beside it to find objects; 0 if there is no such thing.
    pub map_bytes: u64,
}

/// A system under test.
pub trait Store {
    /// Allocates objects of `sizes` bytes and writes every byte of them; adds them to `made`.
    ///
    /// # Errors
    /// The store's.
    fn allocate(&mut self, sizes: &[u32], made: &mut Vec<Object>) -> Result<()>;

    /// Frees objects.
    ///
    /// # Errors
    /// The store's.
    fn free(&mut self, objects: &[Object]) -> Result<()>;

    /// Its memory now.
    ///
    /// # Errors
    /// [`crate::Error::Io`].
    fn footprint(&mut self) -> Result<Footprint>;

    /// Called when its memory is the largest so far, and again at the end if it is so then, while `object_bytes` of objects are live:
    /// what the memory consists of can be looked into.
    ///
    /// # Errors
    /// The store's.
    fn look_into(&mut self, object_bytes: u64) -> Result<()> {
        let _ = object_bytes;
        Ok(())
    }

    /// What a durable heap has to add at the end.
    fn durable(&self) -> Option<Durable> {
        None
    }
}
