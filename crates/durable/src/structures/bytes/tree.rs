//! A tree of bytes. A key in a node is its first 10 bytes, and where the whole of it is if it has more: so most comparisons look
//! nowhere else.
//!
//! ```text
//! object:  root of a B+tree | ... word of the kind at 4088 | 4 KiB for each of 32 counters
//! key:     length u16 | first bytes, 10, zeros behind | home address of an object with all of them, 0 if there are no more
//! ```

use std::cmp::Ordering;

use aquifer_base::HomeAddress;

use super::stored::{compare, new_object};
use super::{Entry, Stored, bytes_handle, check_key, check_kind, check_value};
use crate::access::{Access, Load};
use crate::error::Result;
use crate::structures::btree::{BTree, Order, TreeKey};
use crate::structures::hash_map::hash_of;
use crate::structures::{Counters, PAGE_BYTES, handle_bits, handle_of_bits};
use crate::value::Value;

/// Bytes of a key that stand in the node.
const HEAD_BYTES: usize = 10;

/// How a key begins. Keys stand to each other as their heads, unless both have more.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Head {
    bytes: [u8; HEAD_BYTES],
    /// The length of the key, or one more than a head has.
    len: u8,
}

const LONGER: u8 = HEAD_BYTES as u8 + 1;

impl Head {
    fn of(key: &[u8]) -> Self {
        let (count, mut bytes) = (key.len().min(HEAD_BYTES), [0; HEAD_BYTES]);
        bytes[..count].copy_from_slice(&key[..count]);
        Self { bytes, len: key.len().min(usize::from(LONGER)) as u8 }
    }
}

/// A key in a node.
#[derive(Clone, Copy)]
struct Key {
    head: Head,
    len: u16,
    /// Where the whole of a long one is.
    object: HomeAddress,
}

impl Key {
    fn new<A: Access + ?Sized>(tx: &mut A, key: &[u8]) -> Result<Self> {
        let is_long = key.len() > HEAD_BYTES;
        let object = if is_long { new_object(tx, key)? } else { HomeAddress(0) };
        Ok(Self { head: Head::of(key), len: key.len() as u16, object })
    }

    fn load<A: Load + ?Sized>(self, tx: &mut A) -> Result<Vec<u8>> {
        let mut bytes = vec![0; usize::from(self.len)];
        match self.head.len {
            LONGER => tx.load(self.object, &mut bytes)?,
            len => bytes.copy_from_slice(&self.head.bytes[..usize::from(len)]),
        }
        Ok(bytes)
    }
}

impl Value for Key {
    const BYTES: usize = 2 + HEAD_BYTES + 8;

    #[inline]
    fn encode(&self, out: &mut [u8]) {
        self.len.encode(&mut out[..2]);
        out[2..12].copy_from_slice(&self.head.bytes);
        self.object.0.encode(&mut out[12..]);
    }

    #[inline]
    fn decode(bytes: &[u8]) -> Self {
        let len = u16::decode(&bytes[..2]);
        let mut head = Head { bytes: [0; HEAD_BYTES], len: len.min(LONGER.into()) as u8 };
        head.bytes.copy_from_slice(&bytes[2..12]);
        Self { head, len, object: HomeAddress(u64::decode(&bytes[12..])) }
    }
}

impl TreeKey for Key {
    fn copy<A: Access + ?Sized>(self, tx: &mut A) -> Result<Self> {
        let key = self.load(tx)?;
        Self::new(tx, &key)
    }

    fn discard<A: Access + ?Sized>(self, tx: &mut A) -> Result<()> {
        if self.head.len == LONGER { tx.free(self.object) } else { Ok(()) }
    }
}

/// A key that is searched for.
struct Wanted<'k> {
    head: Head,
    key: &'k [u8],
}

impl<'k> Wanted<'k> {
    fn new(key: &'k [u8]) -> Self {
        Self { head: Head::of(key), key }
    }
}

impl Order<Key> for Wanted<'_> {
    #[inline]
    fn compare<A: Load + ?Sized>(&self, tx: &mut A, key: &Key) -> Result<Ordering> {
        match self.head.cmp(&key.head) {
            Ordering::Equal if self.head.len == LONGER => {
                compare(tx, key.object, key.len.into(), self.key).map(Ordering::reverse)
            }
            order => Ok(order),
        }
    }
}

/// An ordered map from keys of up to [`KEY_BYTES_MAX`](super::KEY_BYTES_MAX) to values of up to
/// [`VALUE_BYTES_MAX`](super::VALUE_BYTES_MAX) bytes. Keys are in the order of their bytes, of which those of a shorter key that are
/// missing stand before all.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct BytesTree(BTree<Key, Stored>);

bytes_handle!(BytesTree, "tree");

impl BytesTree {
    /// Where the word of the kind is: where all transactions look that use the tree, and only a higher tree is written.
    const KIND: (usize, &'static [u8; 8]) = {
        assert!(BTree::<Key, Stored>::ROOT_BYTES <= PAGE_BYTES - 8);
        (PAGE_BYTES - 8, b"aqtree 1")
    };

    fn at(home: HomeAddress) -> Self {
        Self(handle_of_bits(home))
    }

    fn begin(self) -> HomeAddress {
        handle_bits(self.0)
    }

    /// A new tree.
    ///
    /// # Errors
    /// As [`Access::alloc`].
    pub fn create<A: Access + ?Sized>(tx: &mut A) -> Result<Self> {
        let tree = Self(BTree::create_with(tx, Counters::BYTES)?);
        tx.store(tree.home().plus_bytes(Self::KIND.0 as u64), Self::KIND.1)?;
        Ok(tree)
    }

    fn counters(self) -> Counters {
        Counters::behind(crate::Ref::<()>::from_home(self.home()))
    }

    /// The value of a key.
    ///
    /// # Errors
    /// As [`Load::load`].
    pub fn find<A: Load + ?Sized>(self, tx: &mut A, key: &[u8]) -> Result<Option<Stored>> {
        let (leaf, found) = self.0.seek(tx, &Wanted::new(key))?;
        found.ok().map(|at| leaf.value(tx, at)).transpose()
    }

    /// The bytes of the value of a key.
    ///
    /// # Errors
    /// As [`Load::load`].
    pub fn get<A: Load + ?Sized>(self, tx: &mut A, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.find(tx, key)?.map(|value| value.load(tx)).transpose()
    }

    /// Gives a key a value; returns whether it had none.
    ///
    /// # Errors
    /// [`Error::TooLarge`](crate::Error::TooLarge); as [`Access::alloc`], [`Access::store`].
    pub fn put<A: Access + ?Sized>(self, tx: &mut A, key: &[u8], value: &[u8]) -> Result<bool> {
        check_key(key)?;
        check_value(value)?;
        let wanted = Wanted::new(key);
        let (leaf, found) = self.0.seek(tx, &wanted)?;
        match found {
            Ok(at) => {
                let old = leaf.value(tx, at)?;
                let new = old.replace(tx, value)?;
                if new != old {
                    leaf.set_value(tx, at, new)?;
                }
                Ok(false)
            }
            Err(at) => {
                let value = Stored::new(tx, value)?;
                let own = Key::new(tx, key)?;
                self.0.add(tx, &wanted, (leaf, at), own, value)?;
                self.counters().count(tx, hash_of(key), 1)?;
                Ok(true)
            }
        }
    }

    /// Takes a key out; returns whether it was there.
    ///
    /// # Errors
    /// As [`Access::store`], [`Access::free`].
    pub fn remove<A: Access + ?Sized>(self, tx: &mut A, key: &[u8]) -> Result<bool> {
        let wanted = Wanted::new(key);
        let (leaf, found) = self.0.seek(tx, &wanted)?;
        let Ok(at) = found else { return Ok(false) };
        let own = leaf.key(at);
        let value = self.0.take(tx, &wanted, leaf, at)?;
        value.free(tx)?;
        own.discard(tx)?;
        self.counters().count(tx, hash_of(key), -1)?;
        Ok(true)
    }

    /// How many keys there are: the sum of 32 counters. A transaction that asks meets all that add or remove a key.
    ///
    /// # Errors
    /// As [`Load::load`].
    pub fn len<A: Load + ?Sized>(self, tx: &mut A) -> Result<u64> {
        self.counters().sum(tx)
    }

    /// Whether there are none.
    ///
    /// # Errors
    /// As [`Load::load`].
    pub fn is_empty<A: Load + ?Sized>(self, tx: &mut A) -> Result<bool> {
        Ok(self.0.last_entry(tx)?.is_none())
    }

    /// The first entry.
    ///
    /// # Errors
    /// As [`Load::load`].
    pub fn first<A: Load + ?Sized>(self, tx: &mut A) -> Result<Option<Entry>> {
        let leaf = self.0.first_leaf(tx)?;
        let found = BTree::entry_from(tx, leaf, 0)?;
        Self::entry(tx, found)
    }

    /// The last entry.
    ///
    /// # Errors
    /// As [`Load::load`].
    pub fn last<A: Load + ?Sized>(self, tx: &mut A) -> Result<Option<Entry>> {
        let found = self.0.last_entry(tx)?;
        Self::entry(tx, found)
    }

    /// The first entry whose key is `key` or behind it.
    ///
    /// # Errors
    /// As [`Load::load`].
    pub fn seek<A: Load + ?Sized>(self, tx: &mut A, key: &[u8]) -> Result<Option<Entry>> {
        let (leaf, found) = self.0.seek(tx, &Wanted::new(key))?;
        let (Ok(at) | Err(at)) = found;
        let found = BTree::entry_from(tx, leaf, at)?;
        Self::entry(tx, found)
    }

    /// The first entry whose key is behind `key`, which need not be there.
    ///
    /// # Errors
    /// As [`Load::load`].
    pub fn next<A: Load + ?Sized>(self, tx: &mut A, key: &[u8]) -> Result<Option<Entry>> {
        let (leaf, found) = self.0.seek(tx, &Wanted::new(key))?;
        let at = found.map_or_else(|at| at, |at| at + 1);
        let found = BTree::entry_from(tx, leaf, at)?;
        Self::entry(tx, found)
    }

    /// The last entry whose key is before `key`, which need not be there.
    ///
    /// # Errors
    /// As [`Load::load`].
    pub fn previous<A: Load + ?Sized>(self, tx: &mut A, key: &[u8]) -> Result<Option<Entry>> {
        let found = self.0.entry_before(tx, &Wanted::new(key))?;
        Self::entry(tx, found)
    }

    fn entry<A: Load + ?Sized>(tx: &mut A, found: Option<(Key, Stored)>) -> Result<Option<Entry>> {
        found.map(|(key, value)| Ok((key.load(tx)?, value))).transpose()
    }

    /// Frees the tree and what is in it, in this one transaction. No handle of it may be used afterwards.
    ///
    /// # Errors
    /// As [`Access::free`].
    pub fn destroy<A: Access + ?Sized>(self, tx: &mut A) -> Result<()> {
        self.0.destroy_with(tx, |tx, key, value| {
            key.discard(tx)?;
            value.free(tx)
        })
    }
}
