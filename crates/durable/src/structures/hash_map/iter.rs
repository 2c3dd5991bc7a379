//! All entries of a map, a node at a time.

use std::marker::PhantomData;

use super::node::{self, Head};
use super::{HashMap, Header};
use crate::access::Load;
use crate::error::Result;
use crate::reference::Ref;
use crate::typed::Typed;
use crate::value::{Value, with_buffer};

/// The entries of a [`HashMap`], in no order.
pub struct Iter<'t, A: ?Sized, K, V> {
    tx: &'t mut A,
    header: Header,
    /// The next bucket.
    bucket: u64,
    /// The node under way: where it is, the tags of what is left of it, and the one behind it.
    node: Option<(Ref<Head>, Head)>,
    kind: PhantomData<fn() -> (K, V)>,
}

impl<'t, A: Load + ?Sized, K: Value, V: Value> Iter<'t, A, K, V> {
    pub(super) fn new(tx: &'t mut A, header: Header) -> Self {
        Self { tx, header, bucket: 0, node: None, kind: PhantomData }
    }

    fn step(&mut self) -> Result<Option<(K, V)>> {
        loop {
            if let Some((at, head)) = &mut self.node
                && let Some(slot) = node::filled_slots(head.tags).next()
            {
                head.tags &= !node::tag_at(slot, u8::MAX);
                let at = *at;
                return self.entry(at, slot).map(Some);
            }
            let next = match self.node.and_then(|(_, head)| head.next) {
                Some(next) => next,
                None if self.bucket == self.header.buckets => return Ok(None),
                None => {
                    self.bucket += 1;
                    HashMap::<K, V>::bucket(self.tx, &self.header, self.bucket - 1)?
                }
            };
            self.node = Some((next, self.tx.get(next)?));
        }
    }

    fn entry(&mut self, at: Ref<Head>, slot: usize) -> Result<(K, V)> {
        let shape = HashMap::<K, V>::SHAPE;
        with_buffer(shape.entry_bytes, |entry| {
            shape.load(self.tx, at, slot, entry)?;
            Ok((K::decode(&entry[..K::BYTES]), HashMap::<K, V>::value_in(entry)))
        })
    }
}

impl<A: Load + ?Sized, K: Value, V: Value> Iterator for Iter<'_, A, K, V> {
    type Item = Result<(K, V)>;

    fn next(&mut self) -> Option<Result<(K, V)>> {
        let outcome = self.step();
        if outcome.is_err() {
            self.node = None;
            self.bucket = self.header.buckets;
        }
        outcome.transpose()
    }
}
