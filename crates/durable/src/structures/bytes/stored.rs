//! Bytes of any length in 12 bytes: themselves, or where they are.
//!
//! ```text
//! up to 11:  length u8 | bytes, zeros behind
//! more:      255 | zeros, 3 bytes | home address of an object: length u32 | bytes
//! ```

use aquifer_base::HomeAddress;

use super::VALUE_BYTES_MAX;
use crate::access::{Access, Load};
use crate::error::{Error, Result};
use crate::reference::Ref;
use crate::typed::Typed;
use crate::value::{Value, whole_grains};

/// Most bytes that have no object.
pub(super) const INLINE_BYTES_MAX: usize = 11;
const ELSEWHERE: u8 = 255;
/// What an object begins with.
const LENGTH_BYTES: usize = 4;

/// Bytes that a structure has. They are there until the structure changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stored([u8; 12]);

impl Value for Stored {
    const BYTES: usize = 12;

    #[inline]
    fn encode(&self, out: &mut [u8]) {
        out.copy_from_slice(&self.0);
    }

    #[inline]
    fn decode(bytes: &[u8]) -> Self {
        let mut stored = [0; 12];
        stored.copy_from_slice(bytes);
        Self(stored)
    }
}

impl Stored {
    /// Stores `bytes`.
    pub(super) fn new<A: Access + ?Sized>(tx: &mut A, bytes: &[u8]) -> Result<Self> {
        let mut stored = [0; 12];
        if bytes.len() <= INLINE_BYTES_MAX {
            stored[0] = bytes.len() as u8;
            stored[1..1 + bytes.len()].copy_from_slice(bytes);
        } else {
            let object = tx.alloc((LENGTH_BYTES + bytes.len()) as u64)?;
            put(tx, object, bytes)?;
            stored[0] = ELSEWHERE;
            object.0.encode(&mut stored[4..]);
        }
        Ok(Self(stored))
    }

    /// Stores `bytes` in place of these, in the same object if it has as much room.
    pub(super) fn replace<A: Access + ?Sized>(self, tx: &mut A, bytes: &[u8]) -> Result<Self> {
        if let Some(object) = self.object()
            && bytes.len() > INLINE_BYTES_MAX
            && whole_grains(self.len(tx)?) == whole_grains(bytes.len())
        {
            put(tx, object, bytes)?;
            return Ok(self);
        }
        self.free(tx)?;
        Self::new(tx, bytes)
    }

    /// Frees their object, if there is one.
    pub(super) fn free<A: Access + ?Sized>(self, tx: &mut A) -> Result<()> {
        self.object().map_or(Ok(()), |object| tx.free(object))
    }

    fn object(self) -> Option<HomeAddress> {
        (self.0[0] == ELSEWHERE).then(|| HomeAddress(u64::decode(&self.0[4..])))
    }

    fn inline(&self) -> &[u8] {
        &self.0[1..1 + usize::from(self.0[0]).min(INLINE_BYTES_MAX)]
    }

    /// How many.
    ///
    /// # Errors
    /// As [`Load::load`].
    pub fn len<A: Load + ?Sized>(self, tx: &mut A) -> Result<usize> {
        let Some(object) = self.object() else { return Ok(self.inline().len()) };
        let len = tx.get(Ref::<u32>::from_home(object))? as usize;
        // What a handle of something else leads to.
        if len <= VALUE_BYTES_MAX { Ok(len) } else { Err(Error::NotAllocated(object)) }
    }

    /// Whether there are none.
    ///
    /// # Errors
    /// As [`Load::load`].
    pub fn is_empty<A: Load + ?Sized>(self, tx: &mut A) -> Result<bool> {
        Ok(self.len(tx)? == 0)
    }

    /// Copies as many of them from byte `offset` on as `out` has room for.
    ///
    /// # Errors
    /// As [`Load::load`].
    pub fn copy<A: Load + ?Sized>(self, tx: &mut A, offset: usize, out: &mut [u8]) -> Result<()> {
        let count = self.len(tx)?.saturating_sub(offset).min(out.len());
        let out = &mut out[..count];
        match self.object() {
            Some(object) => tx.load(object.plus_bytes((LENGTH_BYTES + offset) as u64), out),
            None => {
                let from = offset.min(self.inline().len());
                out.copy_from_slice(&self.inline()[from..from + count]);
                Ok(())
            }
        }
    }

    /// All of them.
    ///
    /// # Errors
    /// As [`Load::load`].
    pub fn load<A: Load + ?Sized>(self, tx: &mut A) -> Result<Vec<u8>> {
        let mut bytes = vec![0; self.len(tx)?];
        self.copy(tx, 0, &mut bytes)?;
        Ok(bytes)
    }

    /// Whether they are `bytes`.
    pub(super) fn are<A: Load + ?Sized>(self, tx: &mut A, bytes: &[u8]) -> Result<bool> {
        match self.object() {
            None => Ok(self.inline() == bytes),
            Some(_) if bytes.len() <= INLINE_BYTES_MAX || self.len(tx)? != bytes.len() => Ok(false),
            Some(_) => Ok(self.load(tx)? == bytes),
        }
    }
}

/// Writes an object, in whole grains, for which nothing needs to be read.
fn put<A: Access + ?Sized>(tx: &mut A, object: HomeAddress, bytes: &[u8]) -> Result<()> {
    let mut all = Vec::with_capacity(whole_grains(LENGTH_BYTES + bytes.len()));
    all.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    all.extend_from_slice(bytes);
    all.resize(whole_grains(all.len()), 0);
    tx.store(object, &all)
}
