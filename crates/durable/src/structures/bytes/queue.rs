//! A queue of bytes.

use aquifer_base::HomeAddress;

use super::{Stored, bytes_handle, check_kind, check_value};
use crate::access::{Access, Load};
use crate::error::Result;
use crate::structures::{PAGE_BYTES, Queue, Values, handle_bits, handle_of_bits};
use crate::value::Value;

/// A first-in, first-out queue of values of up to [`VALUE_BYTES_MAX`](super::VALUE_BYTES_MAX) bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct BytesQueue(Queue<Stored>);

bytes_handle!(BytesQueue, "queue");

impl BytesQueue {
    /// Where the word of the kind is: in 4 KiB of its own, so that the two ends do not meet at it.
    const KIND: (usize, &'static [u8; 8]) = (Queue::<Stored>::HEADER_BYTES as usize, b"aqqueue1");

    fn at(home: HomeAddress) -> Self {
        Self(handle_of_bits(home))
    }

    fn begin(self) -> HomeAddress {
        handle_bits(self.0)
    }

    /// A new queue.
    ///
    /// # Errors
    /// As [`Access::alloc`].
    pub fn create<A: Access + ?Sized>(tx: &mut A) -> Result<Self> {
        let queue = Self(Queue::create_with(tx, PAGE_BYTES as u64)?);
        tx.store(queue.home().plus_bytes(Self::KIND.0 as u64), Self::KIND.1)?;
        Ok(queue)
    }

    /// Adds a value at the back.
    ///
    /// # Errors
    /// [`Error::TooLarge`](crate::Error::TooLarge); as [`Access::alloc`], [`Access::store`].
    pub fn push<A: Access + ?Sized>(self, tx: &mut A, value: &[u8]) -> Result<()> {
        check_value(value)?;
        let value = Stored::new(tx, value)?;
        self.0.push(tx, value)
    }

    /// Takes the value at the front.
    ///
    /// # Errors
    /// As [`Load::load`], [`Access::store`].
    pub fn pop<A: Access + ?Sized>(self, tx: &mut A) -> Result<Option<Vec<u8>>> {
        let Some(value) = self.0.pop(tx)? else { return Ok(None) };
        let bytes = value.load(tx)?;
        value.free(tx)?;
        Ok(Some(bytes))
    }

    /// Takes the value at the front without a look at it; whether there was one.
    ///
    /// # Errors
    /// As [`Load::load`], [`Access::store`].
    pub fn discard_front<A: Access + ?Sized>(self, tx: &mut A) -> Result<bool> {
        let Some(value) = self.0.pop(tx)? else { return Ok(false) };
        value.free(tx)?;
        Ok(true)
    }

    /// The value at the front, which stays.
    ///
    /// # Errors
    /// As [`Load::load`].
    pub fn front<A: Load + ?Sized>(self, tx: &mut A) -> Result<Option<Stored>> {
        self.0.front(tx)
    }

    /// The value `n` places behind the front, which stays; see [`Queue::nth`].
    ///
    /// # Errors
    /// As [`Load::load`].
    pub fn nth<A: Load + ?Sized>(self, tx: &mut A, n: u64) -> Result<Option<Stored>> {
        self.0.nth(tx, n)
    }

    /// How many values there are. A transaction that asks meets all others.
    ///
    /// # Errors
    /// As [`Load::load`].
    pub fn len<A: Load + ?Sized>(self, tx: &mut A) -> Result<u64> {
        self.0.len(tx)
    }

    /// Whether there are none.
    ///
    /// # Errors
    /// As [`Load::load`].
    pub fn is_empty<A: Load + ?Sized>(self, tx: &mut A) -> Result<bool> {
        self.0.is_empty(tx)
    }

    /// All values, the oldest first.
    ///
    /// # Errors
    /// As [`Load::load`]; also those of the iterator, which ends with its first error.
    pub fn iter<A: Load + ?Sized>(self, tx: &mut A) -> Result<Values<'_, A, Stored>> {
        self.0.iter(tx)
    }

    /// Frees the queue and what is in it, in this one transaction. No handle of it may be used afterwards.
    ///
    /// # Errors
    /// As [`Access::free`].
    pub fn destroy<A: Access + ?Sized>(self, tx: &mut A) -> Result<()> {
        let values = self.0.iter(tx)?.collect::<Result<Vec<_>>>()?;
        values.into_iter().try_for_each(|value| value.free(tx))?;
        self.0.destroy(tx)
    }
}
