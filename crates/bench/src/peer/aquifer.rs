//! This library as its users have it: a heap opened through the C interface.

use std::ffi::c_int;
use std::ptr::{self, NonNull};

use crate::error::{Error, Result};
use crate::objects::Objects;
use crate::peer::abi::{self, Api, HeapPointer, Item, Stats};
use crate::peer::{Peer, Setup};
use crate::workdir::c_path;

/// Size that RAM is divided for when objects share pages.
const PAGE_BYTES: u64 = 4096;

/// Where the objects of an array are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Layout {
    /// Each on a page of addresses of its own.
    Objects,
    /// Packed in a block.
    Pages,
    /// The same, of which pages are compressed before they leave RAM.
    CompressedPages,
    /// The same, while that saves time and processors have some left.
    CompressedInSpareTime,
}

/// An open heap with one array.
#[derive(Debug)]
pub struct Aquifer {
    api: &'static Api,
    heap: HeapPointer,
    array: NonNull<u8>,
    stride_bytes: usize,
    object_bytes: usize,
    count: u64,
}

impl Aquifer {
    /// Loads the library, opens a heap with its flash file in the benchmark's directory and
    /// allocates the array.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if there is no library or it refuses, with its own sentence.
    pub fn open(setup: &Setup, layout: Layout) -> Result<Self> {
        let on_pages = layout != Layout::Objects;
        let api = Api::open()?;
        let dir = c_path(&setup.dir);
        let mut options = api.default_options();
        options.ram_bytes = setup.ram_bytes;
        options.flash_path = dir.as_ptr();
        options.flash_bytes = setup.flash_bytes;
        options.object_bytes = if on_pages { PAGE_BYTES } else { 0 };
        options.compression = match layout {
            Layout::Objects | Layout::Pages => abi::COMPRESS_NEVER,
            Layout::CompressedPages => abi::COMPRESS_ALWAYS,
            Layout::CompressedInSpareTime => abi::COMPRESS_AUTO,
        };
        let mut heap = ptr::null_mut();
        // SAFETY: options made by the library, whose strings outlive the call; room for the result.
        let code = unsafe { api.aq_heap_open(&options, &mut heap) };
        if code != 0 {
            return Err(Error::Unavailable(format!("aq_heap_open failed ({code}): {}", api.message())));
        }
        let (count, object_bytes) = (setup.objects(), setup.object_bytes as usize);
        let mut stride_bytes = 0;
        let array = if on_pages {
            stride_bytes = object_bytes;
            // SAFETY: the heap is open.
            unsafe { api.aq_heap_page_malloc(heap, count as usize * object_bytes) }
        } else {
            // SAFETY: the heap is open; room for the stride.
            unsafe { api.aq_heap_array(heap, count as usize, object_bytes, &mut stride_bytes) }
        };
        let Some(array) = NonNull::new(array.cast::<u8>()) else {
            return Err(Error::Unavailable(format!("allocating the objects failed: {}", api.message())));
        };
        Ok(Self { api, heap, array, stride_bytes, object_bytes, count })
    }

    /// Asks for `addresses` to be in RAM.
    ///
    /// # Errors
    /// [`Error::Unavailable`] with the library's sentence.
    pub fn prefetch(&self, addresses: &[*mut u8]) -> Result<()> {
        let (first, count) = (addresses.as_ptr().cast(), addresses.len());
        // SAFETY: the heap is open and the addresses are elements of its array; a pointer to bytes
        // has the layout of a pointer to void.
        let code = unsafe { self.api.aq_heap_prefetch(self.heap, first, count) };
        if code == 0 {
            return Ok(());
        }
        Err(Error::Unavailable(format!("aq_heap_prefetch failed ({code}): {}", self.api.message())))
    }
}

impl Aquifer {
    /// The library's number of element `index`.
    ///
    /// # Errors
    /// [`Error::Unavailable`] with the library's sentence.
    pub fn reference(&self, index: u64) -> Result<u64> {
        // SAFETY: the heap is open; the address is only a number here.
        match unsafe { self.api.aq_heap_ref_of(self.heap, self.objects().address(index).cast()) } {
            0 => Err(self.refused("aq_heap_ref_of")),
            reference => Ok(reference),
        }
    }

    /// Hands the bytes of the element with that number to `read`, where they are in RAM.
    ///
    /// # Errors
    /// [`Error::Unavailable`] with the library's sentence.
    #[inline]
    pub fn with_used<T>(&self, reference: u64, read: impl FnOnce(&[u8]) -> T) -> Result<T> {
        // SAFETY: the heap is open; a wrong number is refused.
        let bytes = unsafe { self.api.aq_heap_deref(self.heap, reference, abi::READ) };
        if bytes.is_null() {
            return Err(self.refused("aq_heap_deref"));
        }
        // SAFETY: the element's bytes stay here until the release below, and nobody writes them
        // meanwhile: benchmarks that use numbers have one thread.
        let answer = read(unsafe { std::slice::from_raw_parts(bytes.cast(), self.object_bytes) });
        // SAFETY: the heap is open.
        match unsafe { self.api.aq_heap_release(self.heap, reference) } {
            0 => Ok(answer),
            _ => Err(self.refused("aq_heap_release")),
        }
    }

    /// Copies the elements `indices` to `memory`, one behind the other.
    ///
    /// # Errors
    /// [`Error::Unavailable`] with the library's sentence.
    pub fn read_batch(&self, indices: &[u64], memory: &mut [u8]) -> Result<()> {
        let items = self.items(indices, memory.len(), memory.as_mut_ptr());
        // SAFETY: the heap is open; each item has its own part of the memory, which is ours to write.
        self.done("aq_heap_read_batch", unsafe {
            self.api.aq_heap_read_batch(self.heap, items.as_ptr(), items.len())
        })
    }

    /// Rewrites the elements `indices` with what is in `memory`, one behind the other.
    ///
    /// # Errors
    /// [`Error::Unavailable`] with the library's sentence.
    pub fn write_batch(&self, indices: &[u64], memory: &[u8]) -> Result<()> {
        let items = self.items(indices, memory.len(), memory.as_ptr().cast_mut());
        // SAFETY: the heap is open; each item has its own part of the memory, which is only read.
        self.done("aq_heap_write_batch", unsafe {
            self.api.aq_heap_write_batch(self.heap, items.as_ptr(), items.len())
        })
    }

    fn items(&self, indices: &[u64], memory_bytes: usize, memory: *mut u8) -> Vec<Item> {
        assert_eq!(memory_bytes, indices.len() * self.object_bytes);
        let item = |(nth, &index): (usize, &u64)| Item {
            object: self.objects().address(index).cast(),
            memory: memory.wrapping_add(nth * self.object_bytes).cast(),
            bytes: self.object_bytes,
        };
        indices.iter().enumerate().map(item).collect()
    }

    fn done(&self, function: &str, code: c_int) -> Result<()> {
        if code == 0 { Ok(()) } else { Err(self.refused(function)) }
    }

    #[cold]
    fn refused(&self, function: &str) -> Error {
        Error::Unavailable(format!("{function} failed: {}", self.api.message()))
    }
}

impl Peer for Aquifer {
    fn objects(&self) -> Objects<'_> {
        // SAFETY: the array has `count` elements and is freed only with the heap, after every view.
        unsafe { Objects::new(self.array, self.stride_bytes, self.object_bytes, self.count) }
    }

    fn stats(&self) -> Option<Stats> {
        let mut stats = Stats::sized();
        // SAFETY: the heap is open and the structure says how long it is.
        let code = unsafe { self.api.aq_heap_stats_get(self.heap, &mut stats) };
        (code == 0).then_some(stats)
    }
}

impl Drop for Aquifer {
    fn drop(&mut self) {
        // SAFETY: the heap is open, and views of its array borrow this.
        let code = unsafe { self.api.aq_heap_close(self.heap) };
        if code != 0 {
            eprintln!("aq_heap_close failed ({code}): {}", self.api.message());
        }
    }
}
