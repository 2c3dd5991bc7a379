//! A node, as a copy that what is done to it is written through.
//!
//! ```text
//! head:   entries u32 | level u32, 0 for leaves | next leaf
//! entry:  key | value, or child with keys from this one on | zeros up to a multiple of 4
//! ```
//!
//! The key of an inner node's first entry is the one that its parent has for it, and it is not looked at. Leaves and inner
//! nodes are alike in all else.

mod change;

use std::marker::PhantomData;

use crate::access::Access;
use crate::durable_struct;
use crate::error::Result;
use crate::reference::Ref;
use crate::value::{STACK_BYTES_MAX, Value, whole_grains};

/// Usual size of a node.
const NODE_BYTES: usize = STACK_BYTES_MAX;
/// Fewest entries that there is room for.
const CAPACITY_MIN: usize = 4;

durable_struct! {
    /// What a node begins with. Zeros are an empty leaf.
    pub(super) struct Head {
        len: u32,
        level: u32,
        next: Option<Ref<Head>>,
    }
}

/// A buffer for a node's bytes: of the stack, unless they are many.
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
pub(super) struct Node<K, V> {
    at: Ref<Head>,
    head: Head,
    bytes: Bytes,
    kind: PhantomData<fn() -> (K, V)>,
}

impl<K: Value + Ord, V: Value> Node<K, V> {
    const ENTRY_BYTES: [usize; 2] = [whole_grains(K::BYTES + V::BYTES), whole_grains(K::BYTES + 8)];
    const CAPACITY: [usize; 2] = [Self::capacity_for(0), Self::capacity_for(1)];
    const BYTES: [usize; 2] = [Self::bytes_for(0), Self::bytes_for(1)];
    /// What a root may need, which may be of both kinds.
    pub(super) const ROOT_BYTES: usize =
        if Self::BYTES[0] > Self::BYTES[1] { Self::BYTES[0] } else { Self::BYTES[1] };

    const fn capacity_for(kind: usize) -> usize {
        let usual = (NODE_BYTES - Head::BYTES) / Self::ENTRY_BYTES[kind];
        if usual < CAPACITY_MIN { CAPACITY_MIN } else { usual }
    }

    const fn bytes_for(kind: usize) -> usize {
        Head::BYTES + Self::capacity_for(kind) * Self::ENTRY_BYTES[kind]
    }

    #[inline]
    fn read<A: Access + ?Sized>(&mut self, tx: &mut A, at: Ref<Head>, len: usize) -> Result<()> {
        let bytes = &mut self.bytes.all_mut()[..len];
        tx.load(at.home(), bytes)?;
        self.at = at;
        self.head = Head::decode(&bytes[..Head::BYTES]);
        Ok(())
    }

    #[inline]
    pub(super) fn empty(at: Ref<Head>, level: u32) -> Self {
        let head = Head { len: 0, level, next: None };
        Self { at, head, bytes: Bytes::zeros(Self::ROOT_BYTES), kind: PhantomData }
    }

    /// A copy of the root.
    #[inline]
    pub(super) fn root<A: Access + ?Sized>(tx: &mut A, at: Ref<Head>) -> Result<Self> {
        let mut node = Self::empty(at, 0);
        node.read(tx, at, Self::ROOT_BYTES)?;
        Ok(node)
    }

    /// A copy of a node of this level.
    pub(super) fn load<A: Access + ?Sized>(tx: &mut A, at: Ref<Head>, level: u32) -> Result<Self> {
        let mut node = Self::empty(at, level);
        node.read(tx, at, Self::BYTES[node.kind()])?;
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

    /// Becomes the copy of a child.
    #[inline]
    pub(super) fn go_down<A: Access + ?Sized>(&mut self, tx: &mut A, child: usize) -> Result<()> {
        let bytes = Self::BYTES[usize::from(self.level() > 1)];
        self.read(tx, self.child(child), bytes)
    }

    /// A copy of a child.
    pub(super) fn load_child<A: Access + ?Sized>(&self, tx: &mut A, child: usize) -> Result<Self> {
        Self::load(tx, self.child(child), self.level() - 1)
    }

    /// A copy of the leaf behind this one.
    pub(super) fn load_next<A: Access + ?Sized>(&self, tx: &mut A) -> Result<Option<Self>> {
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

    #[inline]
    fn offset(&self, n: usize) -> usize {
        Head::BYTES + n * Self::ENTRY_BYTES[self.kind()]
    }

    /// The bytes of some entries.
    #[inline]
    pub(super) fn entries(&self, from: usize, to: usize) -> &[u8] {
        &self.bytes.all()[self.offset(from)..self.offset(to)]
    }

    #[inline]
    pub(super) fn key(&self, n: usize) -> K {
        K::decode(&self.bytes.all()[self.offset(n)..][..K::BYTES])
    }

    #[inline]
    pub(super) fn value(&self, n: usize) -> V {
        V::decode(&self.bytes.all()[self.offset(n) + K::BYTES..][..V::BYTES])
    }

    #[inline]
    fn child(&self, n: usize) -> Ref<Head> {
        Ref::decode(&self.bytes.all()[self.offset(n) + K::BYTES..][..8])
    }

    /// The first entry from `low` on for which `is_before` is not so.
    #[inline]
    fn partition(&self, mut low: usize, is_before: impl Fn(K) -> bool) -> usize {
        let mut high = self.len();
        while low < high {
            let middle = (low + high) / 2;
            if is_before(self.key(middle)) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// Where a key is, or where it would be.
    #[inline]
    pub(super) fn find(&self, key: &K) -> std::result::Result<usize, usize> {
        let at = self.partition(0, |other| other < *key);
        if at < self.len() && self.key(at) == *key { Ok(at) } else { Err(at) }
    }

    /// The child that has a key or would have it.
    #[inline]
    pub(super) fn route(&self, key: &K) -> usize {
        self.partition(1, |other| other <= *key) - 1
    }
}
