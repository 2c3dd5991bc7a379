//! Bytes of any length in 12 bytes: themselves, or where they are.
//!
//! ```text
//! up to 11:  length u8 | bytes, zeros behind
//! more:      255 | length u24 | home address of an object with them
//! ```

use aquifer_base::HomeAddress;

use crate::access::{Access, Load};
use crate::error::Result;
use crate::value::{Value, whole_grains};

/// Most bytes that have no object.
const INLINE_BYTES_MAX: usize = 11;
const ELSEWHERE: u8 = 255;
/// More bytes than there can be.
const LENGTHS: usize = 1 << 24;

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
        if bytes.len() > INLINE_BYTES_MAX {
            return Ok(Self::elsewhere(new_object(tx, bytes)?, bytes.len()));
        }
        let mut stored = [0; 12];
        stored[0] = bytes.len() as u8;
        stored[1..1 + bytes.len()].copy_from_slice(bytes);
        Ok(Self(stored))
    }

    fn elsewhere(object: HomeAddress, len: usize) -> Self {
        assert!(len < LENGTHS);
        let mut stored = [0; 12];
        (u32::from(ELSEWHERE) | (len as u32) << 8).encode(&mut stored[..4]);
        object.0.encode(&mut stored[4..]);
        Self(stored)
    }

    /// Stores `bytes` in place of these, in the same object if it has as much room.
    pub(super) fn replace<A: Access + ?Sized>(self, tx: &mut A, bytes: &[u8]) -> Result<Self> {
        if let Some(object) = self.object()
            && bytes.len() > INLINE_BYTES_MAX
            && whole_grains(self.len()) == whole_grains(bytes.len())
        {
            store_whole(tx, object, bytes)?;
            return Ok(Self::elsewhere(object, bytes.len()));
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
    pub fn len(self) -> usize {
        match self.0[0] {
            ELSEWHERE => (u32::decode(&self.0[..4]) >> 8) as usize,
            _ => self.inline().len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Copies as many of them from byte `offset` on as `out` has room for.
    ///
    /// # Errors
    /// As [`Load::load`].
    pub fn copy<A: Load + ?Sized>(self, tx: &mut A, offset: usize, out: &mut [u8]) -> Result<()> {
        let count = self.len().saturating_sub(offset).min(out.len());
        let out = &mut out[..count];
        match self.object() {
            Some(object) => tx.load(object.plus_bytes(offset as u64), out),
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
        let mut bytes = vec![0; self.len()];
        self.copy(tx, 0, &mut bytes)?;
        Ok(bytes)
    }

    /// Whether they are `bytes`.
    pub(super) fn are<A: Load + ?Sized>(self, tx: &mut A, bytes: &[u8]) -> Result<bool> {
        match self.object() {
            _ if self.len() != bytes.len() => Ok(false),
            None => Ok(self.inline() == bytes),
            Some(object) => Ok(compare(tx, object, self.len(), bytes)?.is_eq()),
        }
    }
}

/// How much of two byte strings is compared at a time.
const STEP_BYTES: usize = 256;

/// How the `len` bytes of an object stand to `bytes`.
pub(super) fn compare<A: Load + ?Sized>(
    tx: &mut A,
    object: HomeAddress,
    len: usize,
    bytes: &[u8],
) -> Result<std::cmp::Ordering> {
    let (mut at, mut piece) = (0, [0; STEP_BYTES]);
    while at < len.min(bytes.len()) {
        let count = STEP_BYTES.min(len.min(bytes.len()) - at);
        tx.load(object.plus_bytes(at as u64), &mut piece[..count])?;
        match piece[..count].cmp(&bytes[at..at + count]) {
            std::cmp::Ordering::Equal => at += count,
            order => return Ok(order),
        }
    }
    Ok(len.cmp(&bytes.len()))
}

/// A new object with `bytes`.
pub(super) fn new_object<A: Access + ?Sized>(tx: &mut A, bytes: &[u8]) -> Result<HomeAddress> {
    let object = tx.alloc(bytes.len() as u64)?;
    store_whole(tx, object, bytes)?;
    Ok(object)
}

/// Writes an object, in whole grains, for which nothing needs to be read.
fn store_whole<A: Access + ?Sized>(tx: &mut A, object: HomeAddress, bytes: &[u8]) -> Result<()> {
    let rest = bytes.len() % whole_grains(1);
    let (whole, last) = bytes.split_at(bytes.len() - rest);
    tx.store(object, whole)?;
    let mut grain = [0; whole_grains(1)];
    grain[..rest].copy_from_slice(last);
    if rest == 0 { Ok(()) } else { tx.store(object.plus_bytes(whole.len() as u64), &grain) }
}
