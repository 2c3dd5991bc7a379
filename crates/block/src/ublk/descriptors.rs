//! The memory where the kernel writes requests: a page or more for each queue, which we read and it writes.

use std::fs::File;
use std::io;
use std::ptr::{self, NonNull};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::param::page_size;

use super::abi::{DEPTH_MAX, Descriptor};

/// Descriptors of one queue, one for each tag.
pub struct Descriptors {
    start: NonNull<Descriptor>,
    depth: u16,
    len_bytes: usize,
}

// SAFETY: the mapping belongs to this value alone, wherever it goes.
unsafe impl Send for Descriptors {}

impl Descriptors {
    /// Maps those of a queue of the device that `file` is.
    pub fn map(file: &File, queue: u16, depth: u16) -> io::Result<Self> {
        let len_bytes = bytes_of(depth.into());
        let offset = u64::from(queue) * bytes_of(DEPTH_MAX) as u64;
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        // SAFETY: a new mapping, at a place that the kernel chooses, overlaps nothing of ours.
        let start = unsafe { mmap(ptr::null_mut(), len_bytes, ProtFlags::READ, flags, file, offset) }?;
        let start = NonNull::new(start.cast()).ok_or_else(|| io::Error::other("mapped at no address"))?;
        Ok(Descriptors { start, depth, len_bytes })
    }

    /// The request of a tag, which the kernel has handed over and does not write again before it is answered.
    pub fn get(&self, tag: u16) -> Descriptor {
        assert!(tag < self.depth, "the queue has no tag {tag}");
        // SAFETY: the mapping holds `depth` descriptors for as long as this value lives. No reference is made, since the kernel writes others meanwhile.
        unsafe { self.start.add(tag.into()).read_volatile() }
    }
}

impl Drop for Descriptors {
    fn drop(&mut self) {
        // SAFETY: what was mapped, of which no reference was ever made. It fails for wrong addresses only.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.len_bytes) };
    }
}

/// Bytes of as many descriptors, in whole pages.
fn bytes_of(count: usize) -> usize {
    (count * size_of::<Descriptor>()).next_multiple_of(page_size())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_lie_as_far_apart_as_the_longest_would_be() {
        assert_eq!(bytes_of(DEPTH_MAX) % page_size(), 0);
        assert!(bytes_of(DEPTH_MAX) >= 4096 * 24);
        assert_eq!(bytes_of(32), page_size());
    }

    #[test]
    fn a_descriptor_is_read_where_it_lies() {
        use std::io::Write;
        let mut file = tempfile::tempfile().unwrap();
        let wanted = Descriptor { operation: 1, sectors: 8, first_sector: 16, address: 0 };
        let mut bytes = vec![0; page_size()];
        bytes[24..28].copy_from_slice(&1u32.to_ne_bytes());
        bytes[28..32].copy_from_slice(&8u32.to_ne_bytes());
        bytes[32..40].copy_from_slice(&16u64.to_ne_bytes());
        file.write_all(&bytes).unwrap();
        let descriptors = Descriptors::map(&file, 0, 2).unwrap();
        assert_eq!((descriptors.get(0), descriptors.get(1)), (Descriptor::default(), wanted));
    }
}
