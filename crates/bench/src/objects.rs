//! The array of objects that a peer lends to the workload.

use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::rng::Rng;

const WORD_BYTES: usize = size_of::<u64>();

/// `count` objects of `object_bytes` bytes each, `stride_bytes` apart.
///
/// Words are read and written as relaxed atomics: threads of the workload race on purpose, and on
/// the machines we measure a relaxed access is an ordinary load or store.
#[derive(Clone, Copy, Debug)]
pub struct Objects<'a> {
    base: NonNull<u8>,
    stride_bytes: usize,
    object_bytes: usize,
    count: u64,
    owner: PhantomData<&'a [AtomicU64]>,
}

// SAFETY: the memory is only reached through atomics, and `new`'s caller promised that it outlives
// 'a for all threads.
unsafe impl Send for Objects<'_> {}
// SAFETY: as above.
unsafe impl Sync for Objects<'_> {}

impl<'a> Objects<'a> {
    /// A view of the array at `base`. `object_bytes` is a multiple of 8.
    ///
    /// # Safety
    /// For all of `'a`, `count * stride_bytes` bytes at `base` can be read and written by any
    /// thread, and nothing but atomics touches them. `base` is aligned to 8.
    pub unsafe fn new(base: NonNull<u8>, stride_bytes: usize, object_bytes: usize, count: u64) -> Self {
        assert!(object_bytes.is_multiple_of(WORD_BYTES) && stride_bytes.is_multiple_of(WORD_BYTES));
        assert!(object_bytes > 0 && object_bytes <= stride_bytes);
        assert!(base.as_ptr().addr().is_multiple_of(WORD_BYTES));
        Self { base, stride_bytes, object_bytes, count, owner: PhantomData }
    }

    /// Number of objects.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Bytes of one object.
    pub fn object_bytes(&self) -> usize {
        self.object_bytes
    }

    /// The objects from `first` on.
    pub fn behind(&self, first: u64) -> Self {
        assert!(first < self.count);
        let base = NonNull::new(self.address(first)).expect("inside the array");
        Self { base, count: self.count - first, ..*self }
    }

    /// Where object `index` begins.
    #[inline]
    pub fn address(&self, index: u64) -> *mut u8 {
        assert!(index < self.count);
        // SAFETY: inside the array, by the assertion and `new`'s contract.
        unsafe { self.base.as_ptr().add(index as usize * self.stride_bytes) }
    }

    #[inline]
    fn words(&self, index: u64) -> impl Iterator<Item = &'a AtomicU64> {
        let first = self.address(index).cast::<u64>();
        (0..self.object_bytes / WORD_BYTES).map(move |word| {
            // SAFETY: inside the object, aligned to 8, and only used through atomics for 'a.
            unsafe { AtomicU64::from_ptr(first.add(word)) }
        })
    }

    /// Reads every byte of an object; the exclusive or of its words.
    #[inline]
    pub fn read(&self, index: u64) -> u64 {
        self.words(index).fold(0, |sum, word| sum ^ word.load(Ordering::Relaxed))
    }

    /// Rewrites every byte of an object with fresh random bytes.
    #[inline]
    pub fn write(&self, index: u64, rng: &mut Rng) {
        self.words(index).for_each(|word| word.store(rng.next(), Ordering::Relaxed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_whole_objects_and_nothing_else() {
        let mut memory = vec![0u64; 64];
        let base = NonNull::new(memory.as_mut_ptr().cast::<u8>()).expect("a vector's address");
        // SAFETY: 4 objects 128 bytes apart fill the vector, which outlives the view.
        let objects = unsafe { Objects::new(base, 128, 64, 4) };
        objects.write(2, &mut Rng::new(9));
        assert_ne!(objects.read(2), 0);
        assert_eq!((objects.behind(2).count(), objects.behind(2).read(0)), (2, objects.read(2)));
        assert_eq!(objects.read(1), 0);
        assert!(memory[..32].iter().all(|&word| word == 0));
        assert!(memory[32..40].iter().all(|&word| word != 0));
        assert!(memory[40..].iter().all(|&word| word == 0));
    }
}
