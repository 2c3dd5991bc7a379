//! A node, as a copy that what is done to it is written through; and what a tree needs of its keys: an order, which may need a
//! look into the heap, and copies for inner nodes.
//!
//! ```text
//! head:    entries u32 | level u32, 0 for leaves | next leaf
//! keys:    room for all, each with zeros up to a multiple of 4
//! values:  the same; in an inner node each is the child with the keys from this one on
//! ```
//!
//! Of a leaf the copy has only the head and the keys: what is searched stays in few places of the log, however its values
//! change. The key of an inner node's first entry is the one that its parent has for it, and it is not looked at. Leaves and
//! inner nodes are alike in all else.

mod change;

use std::cmp::Ordering;
use std::marker::PhantomData;

use crate::access::{Access, Load};
use crate::durable_struct;
use crate::error::Result;
use crate::reference::Ref;
use crate::typed::Typed;
use crate::value::{STACK_BYTES_MAX, Value, whole_grains};

/// Usual size of a node.
const NODE_BYTES: usize = STACK_BYTES_MAX;
/// Fewest entries that there is room for.
const CAPACITY_MIN: usize = 4;

/// A key as it is searched for.
pub trait Order<K> {
    /// How it stands to a key of the tree.
    fn compare<A: Load + ?Sized>(&self, tx: &mut A, key: &K) -> Result<Ordering>;
}

/// A key as it stands in nodes. An inner node has keys of its own, because the entries of leaves come and go.
pub trait TreeKey: Value {
    /// A copy that an inner node owns.
    fn copy<A: Access + ?Sized>(self, tx: &mut A) -> Result<Self>;

    /// Frees what the key has in the heap.
    fn discard<A: Access + ?Sized>(self, tx: &mut A) -> Result<()>;
}

impl<K: Value + Ord> Order<K> for K {
    #[inline]
    fn compare<A: Load + ?Sized>(&self, _tx: &mut A, key: &K) -> Result<Ordering> {
        Ok(self.cmp(key))
    }
}

impl<K: Value + Ord> TreeKey for K {
    #[inline]
    fn copy<A: Access + ?Sized>(self, _tx: &mut A) -> Result<Self> {
        Ok(self)
    }

    #[inline]
    fn discard<A: Access + ?Sized>(self, _tx: &mut A) -> Result<()> {
        Ok(())
    }
}

const fn max([a, b]: [usize; 2]) -> usize {
    if a > b { a } else { b }
}

durable_struct! {
    /// What a node begins with. Zeros are an empty leaf.
    pub(in crate::structures) struct Head {
        len: u32,
        level: u32,
        next: Option<Ref<Head>>,
    }
}

/// A buffer for the copy: of the stack, unless it is large.
struct Bytes {
    stack: [u8; NODE_BYTES],
    heap: Vec<u8>,
}

impl Bytes {
    #[inline]
    fn zeros(len: usize) -> Self {
        let heap = if len > NODE_BYTES { vec![0; len] } else { Vec::new() };
        Self { stack: [0; NODE_BYTES], heap }
    }

    #[inline]
    fn all(&self) -> &[u8] {
        if self.heap.is_empty() { &self.stack } else { &self.heap }
    }

    #[inline]
    fn all_mut(&mut self) -> &mut [u8] {
        if self.heap.is_empty() { &mut self.stack } else { &mut self.heap }
    }
}

/// A node, and where it is.
pub(in crate::structures) struct Node<K, V> {
    at: Ref<Head>,
    head: Head,
    bytes: Bytes,
    kind: PhantomData<fn() -> (K, V)>,
}

impl<K: TreeKey, V: Value> Node<K, V> {
    const KEY_BYTES: usize = whole_grains(if K::BYTES == 0 { 1 } else { K::BYTES });
    /// Of leaves and of inner nodes, as all that follow.
    const VALUE_BYTES: [usize; 2] = [whole_grains(V::BYTES), 8];
    const CAPACITY: [usize; 2] = [Self::capacity_for(0), Self::capacity_for(1)];
    const COPIED_BYTES: [usize; 2] = [Self::value_offset(0, 0), Self::value_offset(1, Self::CAPACITY[1])];
    const COPIED_BYTES_MAX: usize = max(Self::COPIED_BYTES);
    const BYTES: [usize; 2] =
        [Self::value_offset(0, Self::CAPACITY[0]), Self::value_offset(1, Self::CAPACITY[1])];
    /// What a root may need, which may be of both kinds.
    pub(super) const ROOT_BYTES: usize = max(Self::BYTES);

    const fn capacity_for(kind: usize) -> usize {
        let usual = (NODE_BYTES - Head::BYTES) / (Self::KEY_BYTES + Self::VALUE_BYTES[kind]);
        if usual < CAPACITY_MIN { CAPACITY_MIN } else { usual }
    }

    const fn key_offset(n: usize) -> usize {
        Head::BYTES + n * Self::KEY_BYTES
    }

    const fn value_offset(kind: usize, n: usize) -> usize {
        Self::key_offset(Self::capacity_for(kind)) + n * Self::VALUE_BYTES[kind]
    }

    #[inline]
    fn read<A: Load + ?Sized>(&mut self, tx: &mut A, at: Ref<Head>, len: usize) -> Result<()> {
        let bytes = &mut self.bytes.all_mut()[..len];
        tx.load(at.home(), bytes)?;
        self.at = at;
        self.head = Head::decode(&bytes[..Head::BYTES]);
        Ok(())
    }

    #[inline]
    pub(super) fn empty(at: Ref<Head>, level: u32) -> Self {
        let head = Head { len: 0, level, next: None };
        Self { at, head, bytes: Bytes::zeros(Self::COPIED_BYTES_MAX), kind: PhantomData }
    }

    /// A copy of the root.
    #[inline]
    pub(super) fn root<A: Load + ?Sized>(tx: &mut A, at: Ref<Head>) -> Result<Self> {
        let mut node = Self::empty(at, 0);
        node.read(tx, at, Self::COPIED_BYTES_MAX)?;
        Ok(node)
    }

    /// A copy of a node of this level.
    pub(super) fn load<A: Load + ?Sized>(tx: &mut A, at: Ref<Head>, level: u32) -> Result<Self> {
        let mut node = Self::empty(at, level);
        node.read(tx, at, Self::COPIED_BYTES[node.kind()])?;
        Ok(node)
    }

    /// A new node. Inner nodes are a little larger: so the heap does not put them among leaves, where writes would meet all who
    /// only pass.
    pub(super) fn create<A: Access + ?Sized>(tx: &mut A, level: u32) -> Result<Self> {
        let mut node = Self::empty(Ref::from_home(aquifer_base::HomeAddress(0)), level);
        let bytes = Self::BYTES[node.kind()] + if level > 0 { 4 } else { 0 };
        node.at = Ref::from_home(tx.alloc(bytes as u64)?);
        Ok(node)
    }

    /// Becomes the copy of a child. Nothing must have been done to this one.
    #[inline]
    pub(super) fn go_down<A: Load + ?Sized>(&mut self, tx: &mut A, child: usize) -> Result<()> {
        let at = Ref::decode(&self.bytes.all()[Self::value_offset(1, child)..][..8]);
        self.read(tx, at, Self::COPIED_BYTES[usize::from(self.level() > 1)])
    }

    /// A copy of a child.
    pub(super) fn load_child<A: Load + ?Sized>(&self, tx: &mut A, child: usize) -> Result<Self> {
        let at = tx.get(self.place(child))?;
        Self::load(tx, at, self.level() - 1)
    }

    /// A copy of the leaf behind this one.
    pub(super) fn load_next<A: Load + ?Sized>(&self, tx: &mut A) -> Result<Option<Self>> {
        self.head.next.map(|next| Self::load(tx, next, 0)).transpose()
    }

    pub(super) fn at(&self) -> Ref<Head> {
        self.at
    }

    pub(super) fn level(&self) -> u32 {
        self.head.level
    }

    pub(super) fn is_leaf(&self) -> bool {
        self.head.level == 0
    }

    fn kind(&self) -> usize {
        usize::from(!self.is_leaf())
    }

    pub(super) fn len(&self) -> usize {
        self.head.len as usize
    }

    pub(super) fn capacity(&self) -> usize {
        Self::CAPACITY[self.kind()]
    }

    pub(super) fn is_full(&self) -> bool {
        self.len() >= self.capacity()
    }

    /// Whether it has so few entries that it is to get some, or to be merged. An inner node that is neither has two at least.
    pub(super) fn is_scarce(&self) -> bool {
        self.len() < (self.capacity() / 3).max(2)
    }

    /// Whether it is the last of its level, as far as it knows: inner nodes do not.
    pub(super) fn has_next(&self) -> bool {
        self.head.next.is_some()
    }

    /// The bytes of some keys.
    #[inline]
    fn keys(&self, from: usize, to: usize) -> &[u8] {
        &self.bytes.all()[Self::key_offset(from)..Self::key_offset(to)]
    }

    #[inline]
    pub(in crate::structures) fn key(&self, n: usize) -> K {
        K::decode(&self.bytes.all()[Self::key_offset(n)..][..K::BYTES])
    }

    /// Where the value of an entry is, or the child.
    #[inline]
    fn place<T>(&self, n: usize) -> Ref<T> {
        self.at.plus_bytes(Self::value_offset(self.kind(), n))
    }

    /// The value of a leaf's entry.
    #[inline]
    pub(in crate::structures) fn value<A: Load + ?Sized>(&self, tx: &mut A, n: usize) -> Result<V> {
        tx.get(self.place(n))
    }

    /// The bytes of the values from an entry on.
    pub(super) fn values<A: Load + ?Sized>(&self, tx: &mut A, from: usize) -> Result<Vec<u8>> {
        let mut values = vec![0; (self.len() - from) * Self::VALUE_BYTES[self.kind()]];
        tx.load(self.place::<()>(from).home(), &mut values)?;
        Ok(values)
    }

    /// One of several values of a leaf.
    pub(super) fn value_in(values: &[u8], n: usize) -> V {
        V::decode(&values[n * Self::VALUE_BYTES[0]..][..V::BYTES])
    }

    /// Where a key is, or where it would be.
    #[inline]
    pub(super) fn find<A: Load + ?Sized>(
        &self,
        tx: &mut A,
        key: &impl Order<K>,
    ) -> Result<std::result::Result<usize, usize>> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = (low + high) / 2;
            match key.compare(tx, &self.key(middle))? {
                Ordering::Greater => low = middle + 1,
                Ordering::Equal => return Ok(Ok(middle)),
                Ordering::Less => high = middle,
            }
        }
        Ok(Err(low))
    }

    /// The child that has a key or would have it.
    #[inline]
    pub(super) fn route<A: Load + ?Sized>(&self, tx: &mut A, key: &impl Order<K>) -> Result<usize> {
        let (mut low, mut high) = (1, self.len());
        while low < high {
            let middle = (low + high) / 2;
            if key.compare(tx, &self.key(middle))? == Ordering::Less {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        Ok(low - 1)
    }
}
