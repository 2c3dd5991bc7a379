//! The array of objects that a peer lends to the workload.

use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

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
    /// Number of the first object; not 0 in a view of a part.
    first: u64,
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
        Self { base, stride_bytes, object_bytes, first: 0, count, owner: PhantomData }
    }

    /// Number of objects.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Bytes of one object.
    pub fn object_bytes(&self) -> usize {
        self.object_bytes
    }

    /// The objects from `index` on. They keep their numbers.
    pub fn behind(&self, index: u64) -> Self {
        assert!(index < self.count);
        let base = NonNull::new(self.address(index)).expect("inside the array");
        Self { base, first: self.number(index), count: self.count - index, ..*self }
    }

    /// Number of object `index` in the whole array, from which its bytes follow.
    #[inline]
    pub fn number(&self, index: u64) -> u64 {
        self.first + index
    }

    /// Where object `index` begins.
    #[inline]
    pub fn address(&self, index: u64) -> *mut u8 {
        assert!(index < self.count);
        // SAFETY: inside the array, by the assertion and `new`'s contract.
        unsafe { self.base.as_ptr().add(index as usize * self.stride_bytes) }
    }

    /// The words of object `index`.
    #[inline]
    pub fn words(&self, index: u64) -> impl Iterator<Item = &'a AtomicU64> {
        let first = self.address(index).cast::<u64>();
        (0..self.object_bytes / WORD_BYTES).map(move |word| {
            // SAFETY: inside the object, aligned to 8, and only used through atomics for 'a.
            unsafe { AtomicU64::from_ptr(first.add(word)) }
        })
    }

    /// Reads every byte of an object and believes it; the exclusive or of its words. To be compared with
    /// [`Verified::read`](crate::verified::Verified::read).
    #[inline]
    pub fn read(&self, index: u64) -> u64 {
        self.words(index).fold(0, |sum, word| sum ^ word.load(Ordering::Relaxed))
    }
}

/// `count` objects of `object_bytes` bytes each in plain memory, for a while.
pub fn in_memory<T>(object_bytes: usize, count: u64, work: impl FnOnce(Objects<'_>) -> T) -> T {
    let mut memory = vec![0u64; object_bytes.div_ceil(WORD_BYTES) * count as usize];
    let base = NonNull::new(memory.as_mut_ptr().cast::<u8>()).expect("a vector's address");
    // SAFETY: the objects fill the vector, which outlives the view and is not used in any other way meanwhile.
    work(unsafe { Objects::new(base, object_bytes, object_bytes, count) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_one_object() {
        let mut memory = vec![0u64; 64];
        let base = NonNull::new(memory.as_mut_ptr().cast::<u8>()).expect("a vector's address");
        // SAFETY: 4 objects 128 bytes apart fill the vector, which outlives the view.
        let objects = unsafe { Objects::new(base, 128, 64, 4) };
        objects.words(2).zip(1..).for_each(|(word, value)| word.store(value, Ordering::Relaxed));
        assert_eq!(objects.read(2), (1..9).fold(0, |sum, value| sum ^ value));
        let behind = objects.behind(1).behind(1);
        assert_eq!((behind.count(), behind.number(1), behind.read(0)), (2, 3, objects.read(2)));
        assert_eq!(objects.read(1), 0);
        assert!(memory[..32].iter().all(|&word| word == 0));
        assert!(memory[32..40].iter().copied().eq(1..9));
        assert!(memory[40..].iter().all(|&word| word == 0));
    }
}
