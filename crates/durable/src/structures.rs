//! Data structures on a durable heap.
//!
//! Each is a handle of 8 bytes, which is a [`Value`]: the program keeps it where it likes, in its root or in another
//! structure. Handles of the same structure are equal. All that is done to one is part of a transaction, so what is done to several
//! happens together or not at all. They work on everything that has [`Access`](crate::Access).
//!
//! | structure | changes meet other changes at |
//! |---|---|
//! | [`HashMap`] | 4 KiB of buckets, one of 32 counters, and when the table grows or shrinks by a bucket |
//! | [`BTree`] | 4 KiB with eight leaves, and where a node is split or merged |
//! | [`Queue`] | pushes meet pushes and pops meet pops; the two meet when it is nearly empty |
//!
//! [`BytesMap`], [`BytesTree`] and [`BytesQueue`] are made of them, for keys and values of any length; see [`bytes`].
//!
//! A transaction that meets another one is run again by [`Transactional::transaction`](crate::Transactional::transaction).
//!
//! ```
//! use aquifer_durable::structures::{BTree, HashMap, Queue};
//! use aquifer_durable::{DurableHeap, Options, Typed, durable_struct};
//!
//! durable_struct! {
//!     struct Shop {
//!         /// Pieces of each article.
//!         stock: HashMap<u32, u64>,
//!         /// Articles by price.
//!         prices: BTree<(u64, u32), ()>,
//!         /// Customers and what they want.
//!         orders: Queue<(u64, u32)>,
//!     }
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir()?;
//! # let path = dir.path().join("heap");
//! # let options = Options { capacity_bytes: 32 << 20, ..Options::default() };
//! let heap = DurableHeap::open(&path, &options)?;
//! let shop = heap.transaction(|tx| {
//!     let shop =
//!         Shop { stock: HashMap::create(tx)?, prices: BTree::create(tx)?, orders: Queue::create(tx)? };
//!     let root = tx.create(shop)?;
//!     tx.set_root_ref(root)?;
//!     Ok(shop)
//! })?;
//! heap.transaction(|tx| {
//!     shop.stock.insert(tx, 7, 100)?;
//!     shop.prices.insert(tx, (995, 7), ())?;
//!     shop.orders.push(tx, (1, 7))
//! })?;
//! // Taken from the stock if and only if it was taken from the queue.
//! heap.transaction(|tx| {
//!     while let Some((_customer, article)) = shop.orders.pop(tx)? {
//!         let left = shop.stock.get(tx, article)?.unwrap_or(0) - 1;
//!         shop.stock.insert(tx, article, left)?;
//!     }
//!     Ok(())
//! })?;
//! drop(heap);
//!
//! let heap = DurableHeap::open(&path, &options)?;
//! heap.transaction(|tx| {
//!     let root = tx.root_ref::<Shop>()?.expect("it was set");
//!     let shop = tx.get(root)?;
//!     assert_eq!(shop.stock.get(tx, 7)?, Some(99));
//!     let cheap: Result<Vec<_>, _> = shop.prices.range(tx, ..(1000, 0))?.collect();
//!     assert_eq!(cheap?, [((995, 7), ())]);
//!     Ok(())
//! })?;
//! # Ok(())
//! # }
//! ```

mod btree;
pub mod bytes;
mod hash_map;
mod queue;

use aquifer_base::HomeAddress;

use crate::access::{Access, Load};
use crate::error::Result;
use crate::reference::Ref;
use crate::typed::Typed;
use crate::value::Value;

pub use btree::{BTree, Range};
pub use bytes::{BytesMap, BytesQueue, BytesTree};
pub use hash_map::{HashMap, Iter};
pub use queue::{Queue, Values};

/// Home space that conflicts are found for, and that parts which must not conflict have for themselves.
const PAGE_BYTES: usize = aquifer_base::limits::PARTITION_BYTES;

/// Where the structure of a handle begins.
fn handle_bits(handle: impl Value) -> HomeAddress {
    let mut bytes = [0; 8];
    handle.encode(&mut bytes);
    HomeAddress(u64::from_le_bytes(bytes))
}

/// The handle of the structure that begins there.
fn handle_of_bits<H: Value>(home: HomeAddress) -> H {
    H::decode(&home.0.to_le_bytes())
}

/// How many counters a structure has.
const COUNTERS: u64 = 32;

/// A count that is several, so that transactions that change different entries seldom meet at it. Each counter is 4 KiB from the next one.
#[derive(Clone, Copy)]
struct Counters(Ref<u64>);

impl Counters {
    /// Home space that they take.
    const BYTES: u64 = COUNTERS * PAGE_BYTES as u64;

    /// Those behind the first 4 KiB of an object.
    #[inline]
    fn behind<T>(object: Ref<T>) -> Self {
        Self(object.plus_bytes(PAGE_BYTES))
    }

    fn counter(self, number: u64) -> Ref<u64> {
        self.0.plus_bytes(number as usize * PAGE_BYTES)
    }

    /// Counts an entry in or out; returns how many the counter has now.
    #[inline]
    fn count<A: Access + ?Sized>(self, tx: &mut A, hash: u64, change: i64) -> Result<u64> {
        let counter = self.counter(hash >> 48 & (COUNTERS - 1));
        let count = tx.get(counter)?.wrapping_add_signed(change);
        tx.set(counter, count)?;
        Ok(count)
    }

    /// What they add up to. A transaction that asks meets all that count.
    fn sum<A: Load + ?Sized>(self, tx: &mut A) -> Result<u64> {
        (0..COUNTERS).map(|n| tx.get(self.counter(n))).sum()
    }
}

/// What every handle can do: its only field is a reference, beside a `kind`.
macro_rules! handle {
    ($name:ident<$($generic:ident),+> at $field:ident) => {
        impl<$($generic),+> Clone for $name<$($generic),+> {
            #[inline]
            fn clone(&self) -> Self {
                *self
            }
        }

        impl<$($generic),+> Copy for $name<$($generic),+> {}

        impl<$($generic),+> PartialEq for $name<$($generic),+> {
            fn eq(&self, other: &Self) -> bool {
                self.$field == other.$field
            }
        }

        impl<$($generic),+> Eq for $name<$($generic),+> {}

        impl<$($generic),+> std::fmt::Debug for $name<$($generic),+> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, concat!(stringify!($name), "({:#x})"), self.$field.home().0)
            }
        }

        impl<$($generic: 'static),+> $crate::Value for $name<$($generic),+> {
            const BYTES: usize = 8;
            const TYPE_NAME: &'static str = stringify!($name);

            #[inline]
            fn encode(&self, out: &mut [u8]) {
                $crate::Value::encode(&self.$field, out);
            }

            #[inline]
            fn decode(bytes: &[u8]) -> Self {
                Self { $field: $crate::Value::decode(bytes), kind: std::marker::PhantomData }
            }
        }
    };
}
use handle;
