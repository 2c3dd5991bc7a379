//! The heap.

use std::sync::Arc;

use aquifer_base::AllocationClass;
use aquifer_base::limits::OS_PAGE_BYTES;
use aquifer_heap::uses::Used;
use aquifer_heap::{HeapError, SMALL_BYTES_MAX};
use aquifer_status::Server;
use aquifer_vm::batch::Part;
use aquifer_vm::hints::Hint;
use aquifer_vm::{Engine, fork};

use crate::assembly::Assembly;
use crate::error::Error;
use crate::options::Options;
use crate::reference::Ref;
use crate::stats::{Stats, answer_at};

/// Memory that reaches below RAM. Objects go with the heap when it is dropped.
///
/// # Durability
/// None: flash is used as memory. After a crash, and after the heap is closed, nothing of it is left.
///
/// # Context
/// All methods may be called from any thread, none from a signal handler. Objects may be touched
/// anywhere, also in signal handlers, as long as SIGBUS is not blocked.
pub struct Heap {
    // Dropped first: it answers for the parts.
    _server: Option<Server>,
    parts: Arc<Assembly>,
}

/// Objects of one size, each on a page of its own.
#[derive(Clone, Copy, Debug)]
pub struct Array {
    /// An address, so that threads can share the array.
    base: usize,
    len: usize,
}

impl Array {
    /// Address of the first element; frees the array when given to [`Heap::free`].
    pub fn base(&self) -> *mut u8 {
        std::ptr::with_exposed_provenance_mut(self.base)
    }

    /// How many elements there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none; never true.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes from one element to the next.
    pub fn stride_bytes(&self) -> usize {
        OS_PAGE_BYTES
    }

    /// Address of element `index`.
    ///
    /// # Panics
    /// If `index` is not below [`Array::len`].
    pub fn element(&self, index: usize) -> *mut u8 {
        assert!(index < self.len, "element {index} of an array of {}", self.len);
        self.base().wrapping_add(index * OS_PAGE_BYTES)
    }
}

impl Heap {
    /// Opens a heap: reserves address space and flash, starts the writer and the cleaner.
    ///
    /// # Errors
    /// [`Error`], which names what is missing and what to do. Nothing is left behind.
    pub fn open(options: Options) -> Result<Self, Error> {
        let parts = Arc::new(Assembly::new(&options)?);
        let server = options.socket.as_deref().map(|path| answer_at(path, &parts)).transpose()?;
        Ok(Self { _server: server, parts })
    }

    fn parts(&self) -> Result<&Assembly, Error> {
        if fork::is_forked() { Err(Error::Forked) } else { Ok(&self.parts) }
    }

    /// The first byte of a new object of `bytes`, zeroed, aligned to 4096. 0 bytes count as 1. It is of this thread's class
    /// ([`with_class`](crate::with_class)).
    ///
    /// # Errors
    /// [`Error::Heap`] when the flash or the address range is used up, or `bytes` is above 1 GiB.
    pub fn allocate(&self, bytes: usize) -> Result<*mut u8, Error> {
        Ok(self.parts()?.allocator.allocate(bytes)?)
    }

    /// `count` zeroed objects of `bytes` each (1 to 4096), each on a page of its own. They cost nothing
    /// in RAM or on flash until written.
    ///
    /// # Errors
    /// As [`Heap::allocate`].
    pub fn array(&self, count: usize, bytes: usize) -> Result<Array, Error> {
        let base = self.parts()?.allocator.allocate_array(count, bytes)?;
        Ok(Array { base: base.expose_provenance(), len: count })
    }

    /// A block of at least `bytes`, whose contents are undefined, at a multiple of `align` bytes, a power of two.
    ///
    /// Unlike objects, blocks share pages (SSDAlloc's memory pages): what is kept in RAM and on flash are pages of 4096
    /// bytes with all that is on them. For objects of pages and more, and for small ones that are used together.
    ///
    /// # Errors
    /// [`Error::Heap`] when the flash or the address range is used up.
    pub fn allocate_block(&self, bytes: usize, align: usize) -> Result<*mut u8, Error> {
        Ok(self.parts()?.allocator.allocate_block(bytes, align)?)
    }

    /// Whether a new block of `bytes` may hold bytes of an earlier one; those of more than [`SMALL_BYTES_MAX`] read as zeros.
    pub fn block_is_recycled(&self, bytes: usize) -> bool {
        bytes <= SMALL_BYTES_MAX
    }

    /// Makes a block longer or shorter where it is; false if it must move.
    ///
    /// # Errors
    /// [`Error::Heap`] if `block` does not belong to this heap, or the flash is full.
    pub fn resize_block(&self, block: *mut u8, bytes: usize) -> Result<bool, Error> {
        Ok(self.parts()?.allocator.resize_block(block as usize, bytes)?)
    }

    pub(crate) fn offset_of(&self, object: *const u8) -> Result<usize, Error> {
        let parts = self.parts()?;
        match parts.engine.page_at(object as usize) {
            Some(_) => Ok(object as usize - parts.engine.base() as usize),
            None => Err(HeapError::Foreign(object as usize).into()),
        }
    }

    pub(crate) fn address_of(&self, object: Ref) -> Result<*mut u8, Error> {
        let address = (self.parts()?.engine.base() as usize).wrapping_add(object.offset());
        Ok(std::ptr::with_exposed_provenance_mut(address))
    }

    pub(crate) fn begin_use_at(&self, offset: usize, write: bool) -> Result<(usize, Used), Error> {
        let parts = self.parts()?;
        let address = (parts.engine.base() as usize).wrapping_add(offset);
        Ok((address, parts.allocator.begin_use(address, write)?))
    }

    pub(crate) fn end_use_at(&self, address: usize) -> Result<(), Error> {
        Ok(self.parts()?.allocator.end_use(address)?)
    }

    /// Ends one use of an object that [`Heap::read`] or [`Heap::write`] began and whose guard was forgotten.
    ///
    /// # Errors
    /// [`Error::Heap`] if it is not in use.
    pub fn end_use(&self, object: Ref) -> Result<(), Error> {
        self.end_use_at((self.parts()?.engine.base() as usize).wrapping_add(object.offset()))
    }

    /// Says how the memory of `bytes` from `address` will be used. A hint: nothing depends on it but speed.
    ///
    /// # Errors
    /// [`Error::Heap`] if it is not this heap's, or what will be needed cannot be read.
    pub fn advise(&self, address: *const u8, bytes: usize, hint: Hint) -> Result<(), Error> {
        Ok(self.parts()?.allocator.advise(address as usize, bytes, hint)?)
    }

    pub(crate) fn parts_of(
        &self,
        address: usize,
        bytes: usize,
        memory: *mut u8,
        parts: &mut Vec<Part>,
    ) -> Result<(), Error> {
        Ok(self.parts()?.allocator.parts(address, bytes, memory, parts)?)
    }

    pub(crate) fn engine(&self) -> Result<&Arc<Engine>, Error> {
        Ok(&self.parts()?.engine)
    }

    /// Bytes that may be used at `object`.
    ///
    /// # Errors
    /// [`Error::Heap`] if nothing of this heap starts there.
    pub fn usable_bytes(&self, object: *const u8) -> Result<usize, Error> {
        Ok(self.parts()?.allocator.usable_bytes(object as usize)?)
    }

    /// The class that `object` was allocated with. Blocks have none, which is the default class.
    ///
    /// # Errors
    /// [`Error::Heap`] if nothing of this heap starts there.
    pub fn class_of(&self, object: *const u8) -> Result<AllocationClass, Error> {
        Ok(self.parts()?.allocator.class_of(object as usize)?)
    }

    /// Whether `address` lies in this heap's address range.
    pub fn contains(&self, address: *const u8) -> bool {
        self.parts.engine.page_at(address as usize).is_some()
    }

    /// Frees an object, array or block: at once in RAM, and on flash together with others, at the latest when room is wanted.
    ///
    /// # Errors
    /// [`Error::Heap`] for pointers of others, freed and pinned objects.
    pub fn free(&self, object: *mut u8) -> Result<(), Error> {
        Ok(self.parts()?.allocator.free(object as usize)?)
    }

    /// Brings objects into RAM with many reads under way at once. A hint: what finds no room is skipped, and so is NULL.
    ///
    /// # Errors
    /// [`Error::Heap`] if pointers are not of this heap or objects could not be read; the others were brought in.
    pub fn prefetch(&self, objects: &[*const u8]) -> Result<(), Error> {
        let addresses: Vec<usize> = objects.iter().map(|&object| object as usize).collect();
        Ok(self.parts()?.allocator.prefetch(&addresses)?)
    }

    /// Keeps the pages of `bytes` from `address` mapped and writable until [`Heap::unpin`], so that system
    /// calls can use them. Pins nest.
    ///
    /// # Errors
    /// [`Error::Heap`] if the range is not of this heap, cannot be read, or too much is pinned.
    pub fn pin(&self, address: *mut u8, bytes: usize) -> Result<(), Error> {
        Ok(self.parts()?.allocator.pin(address as usize, bytes)?)
    }

    /// Ends one pin of that range.
    ///
    /// # Errors
    /// [`Error::Heap`] if it is not pinned.
    pub fn unpin(&self, address: *mut u8, bytes: usize) -> Result<(), Error> {
        Ok(self.parts()?.allocator.unpin(address as usize, bytes)?)
    }

    /// Whether this process may use the heap.
    ///
    /// # Errors
    /// [`Error::Forked`] in a child of the process that opened it.
    pub fn ensure_usable(&self) -> Result<(), Error> {
        self.parts().map(|_| ())
    }

    /// What the heap uses and has done.
    pub fn stats(&self) -> Stats {
        Stats::of(&self.parts)
    }

    /// Proves that entries, slots, pages and log agree. No other thread may use the heap meanwhile.
    ///
    /// # Errors
    /// [`Error::Invariant`] with both sides of the first disagreement.
    pub fn check(&self) -> Result<(), Error> {
        self.parts()?.allocator.check().map_err(Error::Invariant)
    }
}
