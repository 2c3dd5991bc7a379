//! An object and its model: bytes that follow from a key and a version.

use std::fmt;
use std::ops::Range;

use aquifer::{Error, Heap};
use aquifer_base::limits::OS_PAGE_BYTES;
use aquifer_base::random::{Random, mix};

use crate::sizes::Request;

/// One in this many small objects has every byte in the model.
const EXACT_SHARE: u64 = 32;
/// Largest object of which the model keeps every byte.
const EXACT_BYTES_MAX: usize = 8 << 10;
/// Pages that one operation reads or writes of a large object, at most; now and then it is all.
const PAGES_PER_OPERATION: u64 = 8;

/// A page whose first bytes have the pattern of `version`; zeros follow.
#[derive(Clone, Copy, Default)]
struct Page {
    version: u32,
    bytes: u16,
}

/// What the memory must hold.
enum Model {
    /// Patterns of `key`, page by page.
    Pattern { key: u64, pages: Vec<Page> },
    /// These bytes.
    Exact(Vec<u8>),
}

/// An object or array of the heap.
pub struct Object {
    address: *mut u8,
    /// Bytes that may be used on each page, or of a smaller object.
    page_bytes: usize,
    is_array: bool,
    model: Model,
    /// How many pins of it the threads hold.
    pub pins: u32,
}

// SAFETY: the address is used only by who has the lock of the object.
unsafe impl Send for Object {}

/// Bytes that are not what the model says.
#[derive(Clone, Copy, Debug)]
pub struct Difference {
    /// Of the first wrong byte.
    address: usize,
    got: u8,
    expected: u8,
    /// From the start of the object to the wrong byte.
    offset_bytes: usize,
    /// Bytes that may be used on each page, and how many of that page differ.
    page_bytes: usize,
    wrong_bytes: usize,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { address, got, expected, offset_bytes, page_bytes, wrong_bytes } = self;
        write!(f, "byte {offset_bytes} at {address:#x} is {got:#04x}, not {expected:#04x}; ")?;
        write!(f, "{wrong_bytes} of the {page_bytes} bytes of its page differ")
    }
}

impl Object {
    /// A new object that the heap has given out; it must read as zeros.
    ///
    /// # Errors
    /// The heap's.
    pub fn new(heap: &Heap, request: Request, rng: &mut Random) -> Result<Self, Error> {
        let key = rng.next();
        let (address, page_bytes, pages, is_array) = match request {
            Request::Object(bytes) => {
                let address = heap.allocate(bytes)?;
                let usable = heap.usable_bytes(address)?;
                (address, usable.min(OS_PAGE_BYTES), usable.div_ceil(OS_PAGE_BYTES), false)
            }
            Request::Array(count, bytes) => {
                let address = heap.array(count, bytes)?.base();
                (address, heap.usable_bytes(address)?, count, true)
            }
        };
        let exact = !is_array && pages * page_bytes <= EXACT_BYTES_MAX && key.is_multiple_of(EXACT_SHARE);
        let model = match exact {
            true => Model::Exact(vec![0; pages * page_bytes]),
            false => Model::Pattern { key, pages: vec![Page::default(); pages] },
        };
        Ok(Self { address, page_bytes, is_array, model, pins: 0 })
    }

    /// First byte.
    pub fn address(&self) -> *mut u8 {
        self.address
    }

    /// Objects that the heap counts for it.
    pub fn count(&self) -> u64 {
        if self.is_array { self.pages() as u64 } else { 1 }
    }

    /// Bytes that the heap counts for it.
    pub fn bytes(&self) -> u64 {
        (self.pages() * self.page_bytes) as u64
    }

    fn pages(&self) -> usize {
        match &self.model {
            Model::Pattern { pages, .. } => pages.len(),
            Model::Exact(bytes) => bytes.len() / self.page_bytes,
        }
    }

    /// The bytes of a page in the heap's memory; this is where faults happen.
    fn memory(&self, page: usize) -> &[u8] {
        // SAFETY: the page belongs to the object, which only the holder of its lock uses, and all of its
        // bytes are initialised: new memory reads as zeros.
        unsafe {
            std::slice::from_raw_parts(self.address.wrapping_add(page * OS_PAGE_BYTES), self.page_bytes)
        }
    }

    fn memory_mut(&mut self, page: usize) -> &mut [u8] {
        // SAFETY: as for `memory`, and the object is borrowed uniquely.
        unsafe {
            std::slice::from_raw_parts_mut(self.address.wrapping_add(page * OS_PAGE_BYTES), self.page_bytes)
        }
    }

    /// Some consecutive pages.
    fn choose(&self, rng: &mut Random) -> Range<usize> {
        let pages = self.pages() as u64;
        if pages == 1 || rng.below(64) == 0 {
            return 0..pages as usize;
        }
        let count = 1 + rng.below(PAGES_PER_OPERATION.min(pages));
        let first = rng.below(pages - count + 1);
        first as usize..(first + count) as usize
    }

    /// A page, as its address and usable bytes.
    pub fn choose_page(&self, rng: &mut Random) -> (*mut u8, usize) {
        let page = rng.below(self.pages() as u64) as usize;
        (self.address.wrapping_add(page * OS_PAGE_BYTES), self.page_bytes)
    }

    /// Reads some of the object and compares.
    pub fn read(&self, rng: &mut Random, scratch: &mut Scratch) -> Result<(), Difference> {
        self.choose(rng).try_for_each(|page| self.check_page(page, scratch))
    }

    /// Reads all of the object and compares.
    pub fn read_all(&self, scratch: &mut Scratch) -> Result<(), Difference> {
        (0..self.pages()).try_for_each(|page| self.check_page(page, scratch))
    }

    fn check_page(&self, page: usize, scratch: &mut Scratch) -> Result<(), Difference> {
        let expected = match &self.model {
            Model::Exact(bytes) => &bytes[page * self.page_bytes..(page + 1) * self.page_bytes],
            Model::Pattern { key, pages } => {
                let Page { version, bytes } = pages[page];
                let (written, zeros) = scratch[..self.page_bytes].split_at_mut(usize::from(bytes));
                fill(*key, page, version, written);
                zeros.fill(0);
                &scratch[..self.page_bytes]
            }
        };
        let got = self.memory(page);
        if got == expected { Ok(()) } else { Err(self.describe(page, got, expected)) }
    }

    /// Where the first difference is. The memory may change again while one looks, if it is that broken.
    fn describe(&self, page: usize, got: &[u8], expected: &[u8]) -> Difference {
        let wrong = || got.iter().zip(expected).enumerate().filter(|(_, (got, expected))| got != expected);
        let (at, got, expected) =
            wrong().next().map_or((0, 0, 0), |(at, (&got, &expected))| (at, got, expected));
        let offset_bytes = page * OS_PAGE_BYTES + at;
        let address = self.address as usize + offset_bytes;
        Difference {
            address,
            got,
            expected,
            offset_bytes,
            page_bytes: self.page_bytes,
            wrong_bytes: wrong().count(),
        }
    }

    /// Writes some of the object.
    pub fn write(&mut self, rng: &mut Random, scratch: &mut Scratch) {
        for page in self.choose(rng) {
            self.write_page(page, rng, scratch);
        }
    }

    fn write_page(&mut self, page: usize, rng: &mut Random, scratch: &mut Scratch) {
        let page_bytes = self.page_bytes;
        let range = match &mut self.model {
            Model::Exact(bytes) => {
                let first = rng.below(page_bytes as u64) as usize;
                let end = first + 1 + rng.below((page_bytes - first) as u64) as usize;
                fill(rng.next(), 0, 0, &mut scratch[first..end]);
                bytes[page * page_bytes..][first..end].copy_from_slice(&scratch[first..end]);
                first..end
            }
            Model::Pattern { key, pages } => {
                let before = &mut pages[page];
                // Never less than before, so that one version describes the page.
                let bytes = usize::from(before.bytes).max(1 + rng.below(page_bytes as u64) as usize);
                *before = Page { version: before.version + 1, bytes: bytes as u16 };
                fill(*key, page, before.version, &mut scratch[..bytes]);
                0..bytes
            }
        };
        self.memory_mut(page)[range.clone()].copy_from_slice(&scratch[range]);
    }

    /// Changes the size as `realloc` of C does: in place if at least half of the object stays in use, else
    /// to a new object with what fits of the old bytes. Not for arrays.
    ///
    /// # Errors
    /// The heap's; the object is as before.
    pub fn reallocate(&mut self, heap: &Heap, bytes: usize) -> Result<(), Error> {
        let usable = heap.usable_bytes(self.address)?;
        if bytes <= usable && bytes > usable / 2 {
            return Ok(());
        }
        let moved = heap.allocate(bytes)?;
        let kept = usable.min(bytes);
        // SAFETY: both objects have that many bytes and do not overlap.
        unsafe { std::ptr::copy_nonoverlapping(self.address, moved, kept) };
        if let Err(error) = heap.free(self.address) {
            heap.free(moved)?;
            return Err(error);
        }
        self.address = moved;
        let usable = heap.usable_bytes(moved)?;
        self.page_bytes = usable.min(OS_PAGE_BYTES);
        self.model.resize(kept, usable);
        Ok(())
    }

    /// Whether it may be reallocated.
    pub fn is_array(&self) -> bool {
        self.is_array
    }
}

impl Model {
    /// The first `kept` bytes stay, the rest of `usable` are zeros.
    fn resize(&mut self, kept: usize, usable: usize) {
        match self {
            Self::Exact(bytes) => {
                bytes.truncate(kept);
                bytes.resize(usable, 0);
            }
            Self::Pattern { pages, .. } => {
                pages.resize(usable.div_ceil(OS_PAGE_BYTES), Page::default());
                for (number, page) in pages.iter_mut().enumerate() {
                    let left = kept.saturating_sub(number * OS_PAGE_BYTES);
                    page.bytes = usize::from(page.bytes).min(left) as u16;
                }
            }
        }
    }
}

/// Memory for the bytes of one page.
pub type Scratch = [u8; OS_PAGE_BYTES];

/// The first bytes of a page, as many as `out` has. Every key, page number and version has its own.
fn fill(key: u64, page: usize, version: u32, out: &mut [u8]) {
    let mut rng = Random::new(key ^ mix((page as u64) << 32 | u64::from(version)));
    let mut words = out.chunks_exact_mut(8);
    for word in &mut words {
        word.copy_from_slice(&rng.next().to_le_bytes());
    }
    let rest = words.into_remainder();
    let last = rng.next().to_le_bytes();
    rest.copy_from_slice(&last[..rest.len()]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_has_the_same_bytes_but_for_its_last_word() {
        let (mut long, mut short) = ([0; 64], [0; 40]);
        fill(7, 1, 3, &mut long);
        fill(7, 1, 3, &mut short);
        assert_eq!(long[..40], short);
        fill(7, 1, 4, &mut short);
        assert_ne!(long[..40], short);
    }
}
