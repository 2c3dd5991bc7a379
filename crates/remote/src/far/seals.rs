//! Pages that a donor can neither read nor change unnoticed: AES-256-GCM, with a key that never leaves this process.
//!
//! The authentication tag and the number that each page was sealed with stay here. So a page of another place, or an older one of the same place, does not open either.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, Tag, UnboundKey};

use crate::random;

/// What pages were sealed with.
pub struct Seals {
    key: LessSafeKey,
    /// The next number. None is used twice with one key but for the same bytes of the same page.
    next: AtomicU64,
    records: Box<[Record]>,
}

/// The number and tag of one page. The thread that holds the lock of the page's row writes them. What a reader without it sees of two
/// of them opens nothing.
#[derive(Default)]
struct Record {
    number: AtomicU64,
    tag: [AtomicU64; 2],
}

impl Seals {
    /// A new key, for `pages` pages.
    ///
    /// # Errors
    /// The kernel gives no random bytes.
    pub fn new(pages: usize) -> io::Result<Seals> {
        let key = UnboundKey::new(&AES_256_GCM, &random::bytes::<32>()?).expect("a key has 32 bytes");
        Ok(Seals {
            key: LessSafeKey::new(key),
            next: AtomicU64::new(1),
            records: (0..pages).map(|_| Record::default()).collect(),
        })
    }

    /// RAM that they take.
    pub fn ram_bytes(&self) -> usize {
        size_of_val(&*self.records)
    }

    /// Seals a page where it is. The caller has its row locked.
    pub fn seal(&self, page: usize, bytes: &mut [u8]) {
        let record = &self.records[page];
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        record.number.store(number, Ordering::Release);
        let tag = self.seal_with(number, page, bytes);
        for (word, bytes) in record.tag.iter().zip(tag.as_ref().chunks_exact(8)) {
            word.store(u64::from_le_bytes(bytes.try_into().expect("8 bytes")), Ordering::Release);
        }
    }

    fn seal_with(&self, number: u64, page: usize, bytes: &mut [u8]) -> Tag {
        let sealed = self.key.seal_in_place_separate_tag(nonce(number), Aad::from(name(page)), bytes);
        sealed.expect("a page is not too long")
    }

    /// Opens a page where it is; `false` if it is not what was sealed last. Then the bytes mean nothing.
    pub fn open(&self, page: usize, bytes: &mut [u8]) -> bool {
        let record = &self.records[page];
        let number = record.number.load(Ordering::Acquire);
        let mut tag = [0; 16];
        for (word, bytes) in record.tag.iter().zip(tag.chunks_exact_mut(8)) {
            bytes.copy_from_slice(&word.load(Ordering::Acquire).to_le_bytes());
        }
        let name = Aad::from(name(page));
        self.key.open_in_place_separate_tag(nonce(number), name, tag.into(), bytes, 0..).is_ok()
    }
}

fn nonce(number: u64) -> Nonce {
    let mut bytes = [0; NONCE_LEN];
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    Nonce::assume_unique_for_key(bytes)
}

fn name(page: usize) -> [u8; 8] {
    (page as u64).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::far::PAGE_BYTES;

    fn sealed(seals: &Seals, page: usize, byte: u8) -> Vec<u8> {
        let mut bytes = vec![byte; PAGE_BYTES];
        seals.seal(page, &mut bytes);
        bytes
    }

    #[test]
    fn a_page_opens_where_it_was_sealed_and_nowhere_else() {
        let seals = Seals::new(2).expect("a key");
        let mut page = sealed(&seals, 0, 7);
        let mut other = sealed(&seals, 1, 7);
        assert_ne!(page, other, "the same bytes look different");
        assert!(!page.iter().all(|byte| *byte == 7));
        assert!(!seals.open(0, &mut other));
        assert!(seals.open(0, &mut page));
        assert_eq!(page, vec![7; PAGE_BYTES]);
    }

    #[test]
    fn what_was_changed_or_is_older_does_not_open() {
        let seals = Seals::new(1).expect("a key");
        let older = sealed(&seals, 0, 7);
        let newer = sealed(&seals, 0, 7);
        assert!(!seals.open(0, &mut older.clone()));
        for at in [0, 1000, PAGE_BYTES - 1] {
            let mut flipped = newer.clone();
            flipped[at] ^= 1;
            assert!(!seals.open(0, &mut flipped));
        }
        assert!(seals.open(0, &mut newer.clone()));
        assert!(!Seals::new(1).expect("a key").open(0, &mut newer.clone()), "another key");
    }

    /// What two pages that were sealed with one number have in common is what their bytes have.
    #[test]
    fn no_number_is_used_twice() {
        const PAGES: usize = 8;
        let seals = Seals::new(PAGES).expect("a key");
        let rounds =
            || (0..20).flat_map(|_| (0..PAGES).map(|page| sealed(&seals, page, 0)).collect::<Vec<_>>());
        let mut all: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..3).map(|_| scope.spawn(|| rounds().collect::<Vec<_>>())).collect();
            threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect()
        });
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 3 * 20 * PAGES);
    }
}
