//! A node of a chain: the bucket itself, or one behind it for what had no room.
//!
//! ```text
//! head: tag of each slot, 8 bytes | next node, 8 bytes
//! slot: key, value, zeros up to a multiple of 4
//! ```
//!
//! A tag is 0 if the slot is empty, else 128 and seven bits of the key's hash: few entries are looked at that are not searched for.

use crate::access::{Access, Load};
use crate::durable_struct;
use crate::error::Result;
use crate::reference::Ref;
use crate::typed::Typed;
use crate::value::{Value, whole_grains, with_buffer};

/// Most slots of a node; a tag each must have room in the head.
const SLOTS_MAX: usize = 7;
/// A node is made no larger than this by several slots.
const NODE_BYTES_USUAL: usize = 256;
/// A chunk is made no larger than this by several buckets.
const CHUNK_BYTES_USUAL: usize = 16 << 10;

durable_struct! {
    /// What a node begins with. Zeros are an empty node.
    pub(super) struct Head {
        pub(super) tags: u64,
        pub(super) next: Option<Ref<Head>>,
    }
}

/// A slot of a node, whose tags are these.
pub(super) struct Place {
    node: Ref<Head>,
    tags: u64,
    slot: usize,
}

/// Where a key that is missing could be added.
pub(super) struct Missing {
    vacant: Option<Place>,
    last: Ref<Head>,
}

/// What a search has found.
pub(super) enum Search {
    /// The place, and the node before its node.
    Found(Place, Option<Ref<Head>>),
    Missing(Missing),
}

/// What the nodes of a map are like.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    pub(super) slots: usize,
    pub(super) entry_bytes: usize,
}

/// `tag` as the tag of a slot.
pub(super) const fn tag_at(slot: usize, tag: u8) -> u64 {
    (tag as u64) << (8 * slot)
}

/// Slots that are not empty.
pub(super) fn filled_slots(tags: u64) -> impl Iterator<Item = usize> {
    (0..SLOTS_MAX).filter(move |&slot| tags & tag_at(slot, u8::MAX) != 0)
}

fn tag_of(hash: u64) -> u8 {
    0x80 | (hash >> 57) as u8
}

impl Shape {
    pub(super) const fn for_entries(bytes: usize) -> Self {
        let entry_bytes = whole_grains(if bytes == 0 { 1 } else { bytes });
        let slots = match (NODE_BYTES_USUAL - Head::BYTES) / entry_bytes {
            0 => 1,
            SLOTS_MAX.. => SLOTS_MAX,
            slots => slots,
        };
        Self { slots, entry_bytes }
    }

    pub(super) const fn node_bytes(self) -> usize {
        Head::BYTES + self.slots * self.entry_bytes
    }

    /// Buckets of a chunk, a power of two.
    pub(super) const fn chunk_buckets(self) -> u64 {
        match CHUNK_BYTES_USUAL / self.node_bytes() {
            0 => 1,
            buckets => 1 << buckets.ilog2(),
        }
    }

    #[inline]
    fn entry(self, node: Ref<Head>, slot: usize) -> Ref<()> {
        node.plus_bytes(Head::BYTES + slot * self.entry_bytes)
    }

    /// Loads the entry in a slot.
    #[inline]
    pub(super) fn load<A: Load + ?Sized>(
        self,
        tx: &mut A,
        node: Ref<Head>,
        slot: usize,
        entry: &mut [u8],
    ) -> Result<()> {
        tx.load(self.entry(node, slot).home(), entry)
    }

    /// Looks in the chain of a bucket for the key that `entry` begins with; loads the rest of the entry if it is there.
    #[inline]
    pub(super) fn search<A: Load + ?Sized>(
        self,
        tx: &mut A,
        bucket: Ref<Head>,
        hash: u64,
        key_bytes: usize,
        entry: &mut [u8],
    ) -> Result<Search> {
        let (mut node, mut before, mut vacant) = (bucket, None, None);
        loop {
            let head = tx.get(node)?;
            if let Some(slot) = self.search_node(tx, node, head.tags, hash, key_bytes, entry)? {
                return Ok(Search::Found(Place { node, tags: head.tags, slot }, before));
            }
            vacant = vacant.or_else(|| self.vacant(node, head.tags));
            match head.next {
                Some(next) => (node, before) = (next, Some(node)),
                None => return Ok(Search::Missing(Missing { vacant, last: node })),
            }
        }
    }

    #[inline]
    fn search_node<A: Load + ?Sized>(
        self,
        tx: &mut A,
        node: Ref<Head>,
        tags: u64,
        hash: u64,
        key_bytes: usize,
        entry: &mut [u8],
    ) -> Result<Option<usize>> {
        for slot in 0..self.slots {
            if (tags >> (8 * slot)) as u8 != tag_of(hash) {
                continue;
            }
            let is_found = with_buffer(self.entry_bytes, |other| {
                self.load(tx, node, slot, other)?;
                let is_found = other[..key_bytes] == entry[..key_bytes];
                if is_found {
                    entry.copy_from_slice(other);
                }
                Ok(is_found)
            });
            if is_found? {
                return Ok(Some(slot));
            }
        }
        Ok(None)
    }

    /// The first empty slot.
    #[inline]
    fn vacant(self, node: Ref<Head>, tags: u64) -> Option<Place> {
        let slot = (0..self.slots).find(|&slot| tags & tag_at(slot, u8::MAX) == 0)?;
        Some(Place { node, tags, slot })
    }

    /// Writes an entry over one with the same key.
    #[inline]
    pub(super) fn replace<A: Access + ?Sized>(
        self,
        tx: &mut A,
        place: &Place,
        key_bytes: usize,
        entry: &[u8],
    ) -> Result<()> {
        // Whole grains, and of the key only what shares one with the value.
        let from = key_bytes / 4 * 4;
        let home = self.entry(place.node, place.slot).home();
        tx.store(home.plus_bytes(from as u64), &entry[from..])
    }

    /// Adds an entry where a search did not find its key.
    #[inline]
    pub(super) fn add<A: Access + ?Sized>(
        self,
        tx: &mut A,
        missing: &Missing,
        hash: u64,
        entry: &[u8],
    ) -> Result<()> {
        match &missing.vacant {
            Some(place) => {
                let tags = place.tags | tag_at(place.slot, tag_of(hash));
                tx.set_field(place.node, Head::FIELDS.tags, tags)?;
                tx.store(self.entry(place.node, place.slot).home(), entry)
            }
            None => {
                let node = Ref::from_home(tx.alloc(self.node_bytes() as u64)?);
                tx.set(node, Head { tags: tag_at(0, tag_of(hash)), next: None })?;
                tx.set_field(missing.last, Head::FIELDS.next, Some(node))?;
                tx.store(self.entry(node, 0).home(), entry)
            }
        }
    }

    /// Adds an entry whose key is not in the chain.
    pub(super) fn put<A: Access + ?Sized>(
        self,
        tx: &mut A,
        bucket: Ref<Head>,
        hash: u64,
        entry: &[u8],
    ) -> Result<()> {
        let mut node = bucket;
        loop {
            let head = tx.get(node)?;
            let vacant = self.vacant(node, head.tags);
            match head.next {
                Some(next) if vacant.is_none() => node = next,
                _ => return self.add(tx, &Missing { vacant, last: node }, hash, entry),
            }
        }
    }

    /// Empties a slot; frees its node if it was the last one of it, and the node is not the bucket itself.
    pub(super) fn take_out<A: Access + ?Sized>(
        self,
        tx: &mut A,
        place: Place,
        before: Option<Ref<Head>>,
    ) -> Result<()> {
        let tags = place.tags & !tag_at(place.slot, u8::MAX);
        match before {
            Some(before) if tags == 0 => {
                let next = tx.get_field(place.node, Head::FIELDS.next)?;
                tx.set_field(before, Head::FIELDS.next, next)?;
                tx.delete(place.node)
            }
            _ => tx.set_field(place.node, Head::FIELDS.tags, tags),
        }
    }
}
