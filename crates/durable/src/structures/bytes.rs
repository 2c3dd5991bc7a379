//! Structures of bytes: keys and values of any length, as C and other languages need them.
//!
//! | structure | made of |
//! |---|---|
//! | [`BytesMap`] | a [`HashMap`](super::HashMap) from hashes to entries |
//! | [`BytesTree`] | a [`BTree`](super::BTree) whose keys begin in its nodes |
//! | [`BytesQueue`] | a [`Queue`](super::Queue) |
//!
//! Up to 11 bytes of a value, or 10 of a key of a tree, stand in the structure itself; more are in an object of their own, which is
//! overwritten where it is if the next ones need as much. A handle is the home address of an object that begins each structure, and
//! has a word that tells its kind: so one that leads to something else is refused.

mod map;
mod queue;
mod stored;
mod tree;

pub use map::BytesMap;
pub use queue::BytesQueue;
pub use stored::Stored;
pub use tree::BytesTree;

use aquifer_base::HomeAddress;

use crate::access::Load;
use crate::error::{Error, Result};

/// The longest key.
pub const KEY_BYTES_MAX: usize = (64 << 10) - 1;
/// The longest value.
pub const VALUE_BYTES_MAX: usize = 15 << 20;

/// A key, and the value that the structure has for it.
pub type Entry = (Vec<u8>, Stored);

fn check_key(key: &[u8]) -> Result<()> {
    check_len("a key", key.len(), KEY_BYTES_MAX)
}

fn check_value(value: &[u8]) -> Result<()> {
    check_len("a value", value.len(), VALUE_BYTES_MAX)
}

fn check_len(what: &'static str, len: usize, limit: usize) -> Result<()> {
    let (bytes, limit) = (len as u64, limit as u64);
    if bytes <= limit { Ok(()) } else { Err(Error::TooLarge { what, bytes, limit }) }
}

/// Refuses a handle without the word of its kind.
fn check_kind<A: Load + ?Sized>(
    tx: &mut A,
    handle: HomeAddress,
    (offset, kind): (usize, &'static [u8; 8]),
    name: &'static str,
) -> Result<()> {
    let mut found = [0; 8];
    let outcome = tx.load(HomeAddress(handle.0.saturating_add(offset as u64)), &mut found);
    match outcome {
        Ok(()) if found == *kind => Ok(()),
        Ok(()) | Err(Error::NotAllocated(_) | Error::Beyond { .. }) => {
            Err(Error::WrongKind { home: handle, name })
        }
        Err(error) => Err(error),
    }
}

/// What every handle can do: its only field is the handle of what it is made of.
macro_rules! bytes_handle {
    ($name:ident, $what:literal) => {
        impl $name {
            #[doc = concat!("The ", $what, " at `home`.")]
            ///
            /// # Errors
            /// [`Error::WrongKind`](crate::Error::WrongKind) if something else is there; as [`Load::load`].
            pub fn open<A: Load + ?Sized>(tx: &mut A, home: HomeAddress) -> Result<Self> {
                if home.0 % 4 != 0 || home.0 == 0 {
                    return Err(crate::Error::WrongKind { home, name: $what });
                }
                check_kind(tx, home, Self::KIND, $what)?;
                Ok(Self::at(home))
            }

            /// Where it is.
            pub fn home(self) -> HomeAddress {
                self.begin()
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, concat!(stringify!($name), "({:#x})"), self.home().0)
            }
        }

        impl Value for $name {
            const BYTES: usize = 8;
            const TYPE_NAME: &'static str = stringify!($name);

            #[inline]
            fn encode(&self, out: &mut [u8]) {
                self.home().0.encode(out);
            }

            #[inline]
            fn decode(bytes: &[u8]) -> Self {
                Self::at(HomeAddress(u64::decode(bytes)))
            }
        }
    };
}
use bytes_handle;
