//! Which objects there are, in memory that the allocator under test has no part in.

use std::ptr;
use std::slice;

use aquifer_bench::error::{Error, Result};

const HOME_BITS: u32 = 48;

/// An object: where a store has it, and its size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Object {
    /// Address, or what the store has in its place; less than 2^48.
    pub home: u64,
    /// Its size, less than 64 KiB.
    pub bytes: u32,
}

/// All objects, in no order. The memory for them is touched when the books are made, so that it grows no more.
#[derive(Debug)]
pub struct Books {
    words: &'static mut [u64],
    len: usize,
}

impl Books {
    /// Books for `capacity` objects, which stay mapped until the process ends.
    ///
    /// # Errors
    /// [`Error::Unavailable`] without the memory.
    pub fn new(capacity: usize) -> Result<Self> {
        let (bytes, protection) = (capacity * size_of::<u64>(), libc::PROT_READ | libc::PROT_WRITE);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let mapped = unsafe { libc::mmap(ptr::null_mut(), bytes, protection, flags, -1, 0) };
        if mapped == libc::MAP_FAILED {
            return Err(Error::Unavailable(format!("there is no memory for {bytes} bytes of books")));
        }
        // SAFETY: zeroed, aligned to a page, of that length, and nobody else has it or unmaps it.
        let words = unsafe { slice::from_raw_parts_mut(mapped.cast(), capacity) };
        Ok(Self { words, len: 0 })
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Enters an object.
    pub fn insert(&mut self, object: Object) {
        assert!(object.home >> HOME_BITS == 0 && object.bytes < 1 << (64 - HOME_BITS), "{object:?}");
        self.words[self.len] = object.home | u64::from(object.bytes) << HOME_BITS;
        self.len += 1;
    }

    /// Removes the object at a position, where the last one goes then.
    pub fn remove(&mut self, at: usize) -> Object {
        assert!(at < self.len);
        self.len -= 1;
        self.words.swap(at, self.len);
        let word = self.words[self.len];
        Object { home: word & ((1 << HOME_BITS) - 1), bytes: (word >> HOME_BITS) as u32 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_come_back_as_entered() {
        let mut books = Books::new(3).expect("memory");
        let object = |n: u32| Object { home: (1 << 48) - u64::from(n) - 1, bytes: 65_535 - n };
        (0..3).for_each(|n| books.insert(object(n)));
        assert_eq!([books.remove(0), books.remove(0), books.remove(0)], [object(0), object(2), object(1)]);
        assert_eq!(books.len(), 0);
    }
}
