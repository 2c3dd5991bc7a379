//! libpmemobj's actions as C programs use them: values to set are collected, and published together through a redo log.
//!
//! They do not see what they are about to set, so this is no heap that any data structure works on.

use std::mem::MaybeUninit;
use std::path::PathBuf;

use super::pmemobj::{Action, Oid, Pool};
use super::{BUCKET_SHIFT, BUCKETS, OBJECT_BYTES, OBJECTS, SECOND_WORD, Store, first_bytes};
use crate::durable::directory::{Setup, failed};
use crate::durable::transactions::Workload;
use crate::error::Result;

/// A node of the map.
#[repr(C)]
struct Node {
    key: u64,
    value: u64,
    /// Offset of the next one in the pool; 0 after the last one.
    next: u64,
}

/// A pool with objects or the buckets of a map.
pub struct Actions {
    pool: Pool,
    path: PathBuf,
    /// First bytes of the objects.
    objects: Vec<*mut u8>,
    /// Offsets of the first nodes.
    buckets: *mut u64,
}

// SAFETY: the library's functions may be called by many threads; the objects and buckets are in the mapped pool.
unsafe impl Send for Actions {}
// SAFETY: as above. Threads take different objects and buckets, as `Store` demands.
unsafe impl Sync for Actions {}

impl Actions {
    /// Makes a pool with what `workload` needs.
    ///
    /// # Errors
    /// [`crate::Error::Unavailable`] without the library, and its errors.
    pub fn open(setup: &Setup, workload: Workload) -> Result<Self> {
        let (pool, path) = (Pool::create(setup)?, setup.path());
        let mut store = Self { pool, path, objects: Vec::new(), buckets: std::ptr::null_mut() };
        match workload {
            Workload::TwoWords => {
                let objects = (0..OBJECTS as u64).map(|index| store.make(&first_bytes(setup.payload, index)));
                store.objects = objects.collect::<Result<_>>()?;
            }
            Workload::Insert => store.buckets = store.zeros(BUCKETS as usize * size_of::<u64>())?.cast(),
        }
        Ok(store)
    }

    fn pointer(&self, offset: u64) -> *mut u8 {
        self.pool.pointer.cast::<u8>().wrapping_add(offset as usize)
    }

    fn zeros(&self, bytes: usize) -> Result<*mut u8> {
        let mut object = Oid { pool: 0, offset: 0 };
        // SAFETY: the pool is open; a place for the result.
        match unsafe { self.pool.api.pmemobj_zalloc(self.pool.pointer, &mut object, bytes, 0) } {
            0 => Ok(self.pointer(object.offset)),
            _ => Err(failed("allocating in", &self.path, self.pool.message())),
        }
    }

    fn make(&self, bytes: &[u8; OBJECT_BYTES]) -> Result<*mut u8> {
        let object = self.zeros(OBJECT_BYTES)?;
        // SAFETY: the object was just allocated with this size.
        unsafe {
            object.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
            self.pool.api.pmemobj_persist(self.pool.pointer, object.cast(), bytes.len());
        }
        Ok(object)
    }

    /// The first word of an object, and the second.
    fn words_of(&self, index: u64) -> (*mut u64, *mut u64) {
        let object = self.objects[index as usize];
        (object.cast(), object.wrapping_add(SECOND_WORD).cast())
    }

    fn bucket(&self, key: u64) -> *mut u64 {
        assert!(!self.buckets.is_null(), "a pool of objects has no map");
        self.buckets.wrapping_add((key >> BUCKET_SHIFT) as usize)
    }

    /// The key's node.
    fn find(&self, key: u64) -> Option<*mut Node> {
        // SAFETY: buckets and nodes are in the mapped pool, and this thread alone uses those of this bucket.
        unsafe {
            let mut offset = *self.bucket(key);
            while offset != 0 {
                let node: *mut Node = self.pointer(offset).cast();
                if (*node).key == key {
                    return Some(node);
                }
                offset = (*node).next;
            }
        }
        None
    }

    /// Sets a value to be published.
    fn set(&self, action: &mut MaybeUninit<Action>, word: *mut u64, value: u64) {
        // SAFETY: the pool is open, the word is in it, and there is room for the action.
        unsafe { self.pool.api.pmemobj_set_value(self.pool.pointer, action.as_mut_ptr(), word, value) };
    }

    /// Publishes actions, all of which the library has filled in.
    fn publish(&self, actions: &mut [MaybeUninit<Action>]) -> Result<()> {
        // SAFETY: the pool is open, and the actions are the library's.
        match unsafe {
            self.pool.api.pmemobj_publish(self.pool.pointer, actions.as_mut_ptr().cast(), actions.len())
        } {
            0 => Ok(()),
            _ => Err(failed("publishing in", &self.path, self.pool.message())),
        }
    }

    /// Reserves a node, which is the action, and fills it in; returns its offset.
    fn reserve(&self, action: &mut MaybeUninit<Action>, content: Node) -> Result<u64> {
        // SAFETY: the pool is open, and there is room for the action.
        let object = unsafe {
            self.pool.api.pmemobj_reserve(self.pool.pointer, action.as_mut_ptr(), size_of::<Node>(), 0)
        };
        if object.offset == 0 {
            return Err(failed("allocating in", &self.path, self.pool.message()));
        }
        let node: *mut Node = self.pointer(object.offset).cast();
        // SAFETY: the node was just reserved, and nobody else knows it.
        unsafe {
            node.write(content);
            self.pool.api.pmemobj_persist(self.pool.pointer, node.cast(), size_of::<Node>());
        }
        Ok(object.offset)
    }
}

impl Store for Actions {
    fn update(&self, index: u64) -> Result<()> {
        let (first, second) = self.words_of(index);
        let mut actions = [MaybeUninit::uninit(); 2];
        // SAFETY: the words are in the mapped pool, and this thread alone uses them.
        let (one, other) = unsafe { (first.read(), second.read()) };
        self.set(&mut actions[0], first, one.wrapping_add(1));
        self.set(&mut actions[1], second, other.wrapping_sub(1));
        self.publish(&mut actions)
    }

    fn insert(&self, key: u64, value: u64) -> Result<()> {
        let mut actions = [MaybeUninit::uninit(); 2];
        if let Some(node) = self.find(key) {
            // SAFETY: the node is in the mapped pool.
            self.set(&mut actions[0], unsafe { &raw mut (*node).value }, value);
            return self.publish(&mut actions[..1]);
        }
        let bucket = self.bucket(key);
        // SAFETY: the bucket is in the mapped pool, and this thread alone uses it.
        let next = unsafe { bucket.read() };
        let offset = self.reserve(&mut actions[0], Node { key, value, next })?;
        self.set(&mut actions[1], bucket, offset);
        self.publish(&mut actions)
    }

    fn object(&self, index: u64) -> Result<[u8; OBJECT_BYTES]> {
        // SAFETY: the object is in the mapped pool, and this thread alone uses it.
        Ok(unsafe { self.objects[index as usize].cast::<[u8; OBJECT_BYTES]>().read() })
    }

    fn get(&self, key: u64) -> Result<Option<u64>> {
        // SAFETY: the node is in the mapped pool.
        Ok(self.find(key).map(|node| unsafe { (*node).value }))
    }
}
