//! Nodes in RAM.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use foldhash::fast::RandomState;

use crate::cache::Neighbour;
use crate::error::Result;
use crate::key::{Ino, PageKey};
use crate::node::Node;

const SHARDS: usize = 16;

/// Nodes by key. A few more than were asked for are kept when many have changed.
pub struct Nodes {
    shards: [RwLock<Shard>; SHARDS],
    shard_max: usize,
    dirty: Arc<AtomicUsize>,
    count: AtomicUsize,
    /// The shard that is looked at next for a node to drop.
    next_shard: AtomicUsize,
}

#[derive(Default)]
struct Shard {
    nodes: HashMap<PageKey, Arc<Node>, RandomState>,
    /// In the order in which they are looked at when one must go (CLOCK).
    clock: VecDeque<PageKey>,
    /// Nodes that were removed: a thread that read a node meanwhile checks whether it is still current.
    removals: u64,
}

impl Nodes {
    pub fn new(nodes_max: usize) -> Self {
        Nodes {
            shards: Default::default(),
            shard_max: (nodes_max / SHARDS).max(4),
            dirty: Arc::default(),
            count: AtomicUsize::new(0),
            next_shard: AtomicUsize::new(0),
        }
    }

    fn shard(&self, key: PageKey) -> &RwLock<Shard> {
        let hash = key.word().wrapping_mul(0x9E37_79B9_7F4A_7C15);
        &self.shards[(hash >> 60) as usize % SHARDS]
    }

    fn read(&self, key: PageKey) -> RwLockReadGuard<'_, Shard> {
        self.shard(key).read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, key: PageKey) -> RwLockWriteGuard<'_, Shard> {
        self.shard(key).write().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn len(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    pub fn dirty(&self) -> usize {
        self.dirty.load(Ordering::Relaxed)
    }

    pub fn counter(&self) -> &Arc<AtomicUsize> {
        &self.dirty
    }

    pub fn get(&self, key: PageKey) -> Option<Arc<Node>> {
        let shard = self.read(key);
        let node = shard.nodes.get(&key)?;
        node.touch();
        Some(Arc::clone(node))
    }

    /// Keeps a node that was read, if it is still what flash has; gives the one that is kept.
    pub fn insert_if(
        &self,
        key: PageKey,
        node: Arc<Node>,
        is_right: impl Fn() -> Result<bool>,
    ) -> Result<Option<Arc<Node>>> {
        loop {
            let removals = self.read(key).removals;
            if !is_right()? {
                return Ok(None);
            }
            let mut shard = self.write(key);
            if let Some(present) = shard.nodes.get(&key) {
                return Ok(Some(Arc::clone(present)));
            }
            if shard.removals == removals {
                shard.insert(key, Arc::clone(&node), self.shard_max, &self.count);
                return Ok(Some(node));
            }
        }
    }

    /// A new node, or the one that is there.
    pub fn make(&self, key: PageKey) -> Arc<Node> {
        let mut shard = self.write(key);
        if let Some(present) = shard.nodes.get(&key) {
            return Arc::clone(present);
        }
        let node = Arc::new(Node::new(key, &self.dirty));
        node.note_changed_whole();
        shard.insert(key, Arc::clone(&node), self.shard_max, &self.count);
        node
    }

    /// Drops a node that is no longer part of the table.
    pub fn forget(&self, key: PageKey) {
        let mut shard = self.write(key);
        if let Some(node) = shard.nodes.remove(&key) {
            node.note_written(true);
            shard.removals += 1;
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Whether one of the nodes below a node is in RAM.
    pub fn has_child_of(&self, key: PageKey) -> bool {
        (0..crate::node::NODE_WORDS).any(|slot| self.get(key.child(slot)).is_some())
    }

    pub fn of(&self, ino: Ino) -> Vec<Arc<Node>> {
        let mut nodes = Vec::new();
        for shard in &self.shards {
            let shard = shard.read().unwrap_or_else(PoisonError::into_inner);
            nodes.extend(shard.nodes.values().filter(|node| node.key().ino() == ino).cloned());
        }
        nodes
    }

    pub fn dirty_nodes(&self) -> Vec<Arc<Node>> {
        let mut dirty = Vec::new();
        for shard in &self.shards {
            let shard = shard.read().unwrap_or_else(PoisonError::into_inner);
            dirty.extend(shard.nodes.values().filter(|node| node.is_dirty()).cloned());
        }
        dirty
    }

    /// Drops what is too much.
    pub fn shrink(&self) {
        for shard in &self.shards {
            shard.write().unwrap_or_else(PoisonError::into_inner).shrink(self.shard_max, &self.count);
        }
    }
}

/// Nodes share their RAM with pages of files.
impl Neighbour for Nodes {
    fn pages(&self) -> usize {
        self.len()
    }

    fn look_at_one(&self) {
        for _ in 0..SHARDS {
            let next = self.next_shard.fetch_add(1, Ordering::Relaxed) % SHARDS;
            let mut shard = self.shards[next].write().unwrap_or_else(PoisonError::into_inner);
            if shard.look_at_one(&self.count) {
                return;
            }
        }
    }
}

impl Shard {
    fn insert(&mut self, key: PageKey, node: Arc<Node>, shard_max: usize, count: &AtomicUsize) {
        self.shrink(shard_max.saturating_sub(1), count);
        self.nodes.insert(key, node);
        self.clock.push_back(key);
        count.fetch_add(1, Ordering::Relaxed);
    }

    fn shrink(&mut self, shard_max: usize, count: &AtomicUsize) {
        let mut looks = self.clock.len().min(64) + self.nodes.len().saturating_sub(shard_max);
        while self.nodes.len() > shard_max && looks > 0 && self.look_at_one(count) {
            looks -= 1;
        }
    }

    /// Drops the next node if it was not used for some looks; says whether there was one.
    fn look_at_one(&mut self, count: &AtomicUsize) -> bool {
        let Some(key) = self.clock.pop_front() else { return false };
        let Some(node) = self.nodes.get(&key) else { return true };
        if node.outlives_a_look() || node.is_dirty() || Arc::strong_count(node) > 1 {
            self.clock.push_back(key);
            return true;
        }
        self.nodes.remove(&key);
        self.removals += 1;
        count.fetch_sub(1, Ordering::Relaxed);
        true
    }
}
