//! Pages that go to flash together.

use aquifer_device::{AlignedBuffer, Device, DeviceError, WriteRequest};
use arrayvec::ArrayVec;

use super::{CHUNK_PAGES_MAX, PAGE_BYTES};

/// Pages that go to flash together, each of them once.
pub struct Chunk {
    /// Which ones, in the order in which they came.
    pages: Vec<usize>,
    /// Their bytes in the same order, and room for more.
    memory: AlignedBuffer,
}

impl Chunk {
    /// Room for `pages` pages, at most [`CHUNK_PAGES_MAX`].
    pub fn new(pages: usize) -> Chunk {
        Chunk { pages: Vec::with_capacity(pages), memory: AlignedBuffer::new(pages * PAGE_BYTES) }
    }

    /// RAM that it takes.
    pub fn ram_bytes(&self) -> usize {
        size_of::<Chunk>() + self.memory.len() + self.pages.capacity() * size_of::<usize>()
    }

    /// Which pages it has.
    pub fn pages(&self) -> &[usize] {
        &self.pages
    }

    /// Whether there is no room for another one.
    pub fn is_full(&self) -> bool {
        (self.pages.len() + 1) * PAGE_BYTES > self.memory.len()
    }

    /// The bytes of one.
    pub fn bytes(&self, nth: usize) -> &[u8] {
        &self.memory[nth * PAGE_BYTES..][..PAGE_BYTES]
    }

    /// Takes a page that it does not have, and says which one of them it is. It must not be full.
    pub fn push(&mut self, page: usize, bytes: &[u8]) -> usize {
        let nth = self.pages.len();
        self.replace(nth, bytes);
        self.pages.push(page);
        nth
    }

    /// Takes newer bytes of a page.
    pub fn replace(&mut self, nth: usize, bytes: &[u8]) {
        self.memory[nth * PAGE_BYTES..][..PAGE_BYTES].copy_from_slice(bytes);
    }

    /// Makes room for others.
    pub fn empty(&mut self) {
        self.pages.clear();
    }

    /// Writes all to where they belong on a device: in its order, and at once what follows each other there and here.
    ///
    /// # Errors
    /// The first of the device; pages before and behind it may have been written.
    pub fn write(&self, device: &dyn Device) -> Result<(), DeviceError> {
        let mut order: ArrayVec<(usize, usize), CHUNK_PAGES_MAX> =
            self.pages.iter().copied().zip(0..).collect();
        order.sort_unstable();
        let follow = |before: &(usize, usize), after: &(usize, usize)| {
            before.0 + 1 == after.0 && before.1 + 1 == after.1
        };
        let request = |run: &[(usize, usize)]| {
            let (page, nth) = run[0];
            let bytes = &self.memory[nth * PAGE_BYTES..(nth + run.len()) * PAGE_BYTES];
            WriteRequest::new(page as u64 * PAGE_BYTES as u64, bytes)
        };
        let mut requests: ArrayVec<_, CHUNK_PAGES_MAX> = order.chunk_by(follow).map(request).collect();
        device.write_batch(&mut requests);
        requests.iter().try_for_each(|request| request.result)
    }
}
