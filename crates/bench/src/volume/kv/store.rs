//! The store: a hash table of fixed slots in a mapped file.
//!
//! A slot is one byte with the length of the key (0: free), the key, and the value. 1024 slots are a bucket; a key stands in the bucket of its hash,
//! in the first free slot from the place of its hash on. Behind the buckets a page says which record is the next to be inserted.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};

use serde::{Deserialize, Serialize};

use super::key::{FIELD_BYTES, FIELDS, KEY_BYTES_MAX, Key, VALUE_BYTES, fill_field, prove};
use crate::error::Error;
use crate::payload::Payload;
use crate::rng::Rng;

const SLOT_BYTES: usize = 1024;
const SLOTS: usize = 1024;
const VALUE_AT: usize = 1 + KEY_BYTES_MAX;
/// Bytes of a bucket.
pub const BUCKET_BYTES: u64 = (SLOT_BYTES * SLOTS) as u64;
const HEADER_BYTES: u64 = 4096;
/// Records at first, of a hundred slots; inserts find room behind them.
const FILLED_PERCENT: u64 = 65;

const _: () = assert!(VALUE_AT + VALUE_BYTES == SLOT_BYTES);

/// How large a store is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Shape {
    /// Buckets of 1024 slots.
    pub buckets: u64,
}

impl Shape {
    /// Bytes of its file.
    pub fn bytes(self) -> u64 {
        self.buckets * BUCKET_BYTES + HEADER_BYTES
    }

    /// Records at first.
    pub fn records(self) -> u64 {
        self.buckets * SLOTS as u64 * FILLED_PERCENT / 100
    }

    fn bucket_of(self, hash: u64) -> u64 {
        ((u128::from(hash) * u128::from(self.buckets)) >> 64) as u64
    }
}

/// Where a key is in a bucket, or would be.
enum Place {
    Taken(usize),
    Free(usize),
    Full,
}

/// Finds a key.
///
/// # Safety
/// A whole bucket can be read at `bucket`, and nobody writes to it meanwhile.
unsafe fn find(bucket: *const u8, key: &Key) -> Place {
    let start = key.hash() as usize % SLOTS;
    for step in 0..SLOTS {
        let slot = (start + step) % SLOTS;
        // SAFETY: the slot is inside the bucket, which the caller keeps from being written.
        let stored = unsafe { key_in(bucket, slot) };
        if stored.is_empty() {
            return Place::Free(slot);
        }
        if stored == key.as_bytes() {
            return Place::Taken(slot);
        }
    }
    Place::Full
}

/// The key in a slot; empty if it is free.
///
/// # Safety
/// A whole bucket can be read at `bucket`, and nobody writes to it as long as the key is used.
unsafe fn key_in<'a>(bucket: *const u8, slot: usize) -> &'a [u8] {
    // SAFETY: the slot is inside the bucket; its key has at most as many bytes as there is room.
    unsafe {
        let slot = bucket.add(slot * SLOT_BYTES);
        std::slice::from_raw_parts(slot.add(1), usize::from(*slot).min(KEY_BYTES_MAX))
    }
}

/// A slot with a record.
fn put(slot: &mut [u8], payload: Payload, key: &Key, rng: &mut Rng) {
    slot[0] = key.as_bytes().len() as u8;
    slot[1..=key.as_bytes().len()].copy_from_slice(key.as_bytes());
    for field in 0..FIELDS {
        fill_field(payload, key, field, rng, &mut slot[VALUE_AT + field * FIELD_BYTES..][..FIELD_BYTES]);
    }
}

/// Makes the file of a new store, bucket by bucket.
pub fn image(shape: Shape, payload: Payload) -> impl FnMut(u64, &mut [u8]) -> crate::error::Result<()> {
    let mut records: Vec<(u64, u64)> =
        (0..shape.records()).map(|number| (shape.bucket_of(Key::of(number).hash()), number)).collect();
    records.sort_unstable();
    let mut records = records.into_iter().peekable();
    let mut rng = Rng::new(shape.buckets);
    move |offset, bytes| {
        bytes.fill(0);
        let bucket = offset / BUCKET_BYTES;
        if bucket == shape.buckets {
            bytes[..8].copy_from_slice(&shape.records().to_le_bytes());
            return Ok(());
        }
        while let Some((_, number)) = records.next_if(|record| record.0 == bucket) {
            let key = Key::of(number);
            // SAFETY: the chunk is a bucket, and ours.
            match unsafe { find(bytes.as_ptr(), &key) } {
                Place::Free(slot) => {
                    put(&mut bytes[slot * SLOT_BYTES..][..SLOT_BYTES], payload, &key, &mut rng)
                }
                Place::Taken(_) => {}
                Place::Full => {
                    return Err(Error::Input("a bucket is full; give the store more room".to_owned()));
                }
            }
        }
        Ok(())
    }
}

/// An open store. Each bucket has a lock, in ordinary memory.
pub struct Store {
    base: NonNull<u8>,
    shape: Shape,
    payload: Payload,
    locks: Vec<RwLock<()>>,
    /// The next record to be inserted.
    next: AtomicU64,
}

// SAFETY: buckets are only touched under their locks, and `open`'s caller promised that they outlive this.
unsafe impl Send for Store {}
// SAFETY: as above.
unsafe impl Sync for Store {}

impl Store {
    /// The store at `base`.
    ///
    /// # Safety
    /// As many bytes as the shape says are mapped there, for reading and writing, as long as this lives; nobody else touches them.
    pub unsafe fn open(base: NonNull<u8>, shape: Shape, payload: Payload) -> Self {
        let locks = (0..shape.buckets).map(|_| RwLock::new(())).collect();
        let store = Self { base, shape, payload, locks, next: AtomicU64::new(0) };
        // SAFETY: the header lies behind the buckets, aligned to a page.
        let records = unsafe { store.header().read() };
        store.next.store(records, Ordering::Relaxed);
        store
    }

    fn header(&self) -> *mut u64 {
        // SAFETY: inside the file, by `open`'s contract.
        unsafe { self.base.as_ptr().add((self.shape.buckets * BUCKET_BYTES) as usize).cast() }
    }

    /// The number of the next record to be inserted.
    pub fn next(&self) -> &AtomicU64 {
        &self.next
    }

    /// Writes that number into the file. Nobody may use the store meanwhile.
    pub fn keep_next(&mut self) {
        // SAFETY: as in `open`; nobody else has the store.
        unsafe { self.header().write(self.next.load(Ordering::Relaxed)) };
    }

    fn bucket(&self, number: u64) -> *mut u8 {
        // SAFETY: inside the file, by `open`'s contract.
        unsafe { self.base.as_ptr().add((number * BUCKET_BYTES) as usize) }
    }

    /// Copies a record's value; whether there is one.
    pub fn read(&self, key: &Key, value: &mut [u8; VALUE_BYTES]) -> bool {
        let number = self.shape.bucket_of(key.hash());
        let _lock = self.locks[number as usize].read().unwrap_or_else(PoisonError::into_inner);
        let bucket = self.bucket(number);
        // SAFETY: the bucket is whole, and the lock keeps writers out.
        match unsafe { find(bucket, key) } {
            Place::Taken(slot) => {
                // SAFETY: as above.
                unsafe { copy_value(bucket, slot, value) };
                true
            }
            _ => false,
        }
    }

    /// Rewrites a field of a record; whether there is one.
    pub fn update(&self, key: &Key, field: usize, rng: &mut Rng) -> bool {
        let number = self.shape.bucket_of(key.hash());
        let mut bytes = [0; FIELD_BYTES];
        fill_field(self.payload, key, field, rng, &mut bytes);
        let _lock = self.locks[number as usize].write().unwrap_or_else(PoisonError::into_inner);
        let bucket = self.bucket(number);
        // SAFETY: the bucket is whole, and ours by the lock.
        let Place::Taken(slot) = (unsafe { find(bucket, key) }) else { return false };
        let at = slot * SLOT_BYTES + VALUE_AT + field * FIELD_BYTES;
        // SAFETY: as above; the field is inside the slot.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), bucket.add(at), FIELD_BYTES) };
        true
    }

    /// Adds a record, or rewrites the one that is there; whether there was room.
    pub fn insert(&self, key: &Key, rng: &mut Rng) -> bool {
        let number = self.shape.bucket_of(key.hash());
        let mut bytes = [0; SLOT_BYTES];
        put(&mut bytes, self.payload, key, rng);
        let _lock = self.locks[number as usize].write().unwrap_or_else(PoisonError::into_inner);
        let bucket = self.bucket(number);
        // SAFETY: the bucket is whole, and ours by the lock.
        let (Place::Taken(slot) | Place::Free(slot)) = (unsafe { find(bucket, key) }) else { return false };
        // SAFETY: as above.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), bucket.add(slot * SLOT_BYTES), SLOT_BYTES) };
        true
    }

    /// Copies and proves the values of up to `count` records that stand from a key's slot on, bucket after bucket; how many there were.
    ///
    /// # Errors
    /// As [`prove`].
    pub fn scan(&self, key: &Key, count: usize, value: &mut [u8; VALUE_BYTES]) -> Result<usize, String> {
        let first = self.shape.bucket_of(key.hash());
        let mut found = 0;
        for number in first..self.shape.buckets {
            let _lock = self.locks[number as usize].read().unwrap_or_else(PoisonError::into_inner);
            let bucket = self.bucket(number);
            let start = if number == first { key.hash() as usize % SLOTS } else { 0 };
            for slot in start..SLOTS {
                if found == count {
                    return Ok(found);
                }
                // SAFETY: the slot is inside the bucket, and the lock keeps writers out.
                let stored = unsafe { key_in(bucket, slot) };
                if !stored.is_empty() {
                    let key = Key::from_bytes(stored).expect("no longer than a key");
                    // SAFETY: as above.
                    unsafe { copy_value(bucket, slot, value) };
                    prove(self.payload, &key, value)?;
                    found += 1;
                }
            }
        }
        Ok(found)
    }
}

/// Copies a value.
///
/// # Safety
/// A whole bucket can be read at `bucket`, and nobody writes to it meanwhile.
unsafe fn copy_value(bucket: *const u8, slot: usize, value: &mut [u8; VALUE_BYTES]) {
    // SAFETY: the value is inside the slot, the slot inside the bucket.
    unsafe {
        let from = bucket.add(slot * SLOT_BYTES + VALUE_AT);
        std::ptr::copy_nonoverlapping(from, value.as_mut_ptr(), VALUE_BYTES);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_store_has_its_records_and_takes_more() {
        let shape = Shape { buckets: 3 };
        let mut file = vec![0u64; shape.bytes() as usize / 8];
        let base = NonNull::new(file.as_mut_ptr().cast::<u8>()).expect("memory");
        let mut make = image(shape, Payload::Text);
        for offset in (0..shape.bytes()).step_by(BUCKET_BYTES as usize) {
            let length = BUCKET_BYTES.min(shape.bytes() - offset) as usize;
            // SAFETY: the part is inside the vector, which nobody else uses.
            let bytes = unsafe { std::slice::from_raw_parts_mut(base.as_ptr().add(offset as usize), length) };
            make(offset, bytes).expect("room");
        }
        // SAFETY: the vector outlives the store, and is not used besides.
        let mut store = unsafe { Store::open(base, shape, Payload::Text) };
        let records = shape.records();
        assert_eq!(store.next().load(Ordering::Relaxed), records);
        let (mut rng, mut value) = (Rng::new(1), [0; VALUE_BYTES]);
        for number in 0..records {
            let key = Key::of(number);
            assert!(store.read(&key, &mut value), "record {number}");
            assert_eq!(prove(Payload::Text, &key, &value), Ok(()));
        }
        let new = Key::of(records);
        assert!(!store.read(&new, &mut value) && !store.update(&new, 0, &mut rng));
        assert!(store.insert(&new, &mut rng) && store.read(&new, &mut value));
        let before = value;
        assert!(store.update(&new, 9, &mut rng) && store.read(&new, &mut value));
        assert_eq!(value[..900], before[..900]);
        assert_ne!(value[900..], before[900..]);
        assert_eq!(prove(Payload::Text, &new, &value), Ok(()));
        let all = (0..shape.records()).map(|number| store.scan(&Key::of(number), 5, &mut value));
        assert!(all.filter(|found| *found == Ok(5)).count() as u64 > records - 20);
        store.next().store(77, Ordering::Relaxed);
        store.keep_next();
        // SAFETY: as above; the first store is not used any more.
        assert_eq!(unsafe { Store::open(base, shape, Payload::Text) }.next().load(Ordering::Relaxed), 77);
        let full = (0..4000).map(|number| store.insert(&Key::of(1 << 20 | number), &mut rng));
        assert!(full.into_iter().any(|was_room| !was_room), "more records than slots");
    }
}
