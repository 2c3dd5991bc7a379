//! Memory of requests: as many buffers as there are threads, made before the first of them runs.

use std::ops::{Deref, DerefMut};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use aquifer_device::AlignedBuffer;

/// Buffers that threads borrow, one each.
pub struct Buffers {
    free: Mutex<Vec<AlignedBuffer>>,
    returned: Condvar,
}

/// A borrowed buffer, which goes back by itself.
pub struct Borrowed<'a> {
    buffers: &'a Buffers,
    /// There until it is dropped.
    buffer: Option<AlignedBuffer>,
}

impl Buffers {
    /// `count` buffers of `len_bytes` bytes, whose memory is there: they were written.
    pub fn new(count: usize, len_bytes: usize) -> Self {
        let fresh = || {
            let mut buffer = AlignedBuffer::new(len_bytes);
            buffer.fill(0xAA);
            buffer
        };
        let free = (0..count.max(1)).map(|_| fresh()).collect();
        Buffers { free: Mutex::new(free), returned: Condvar::new() }
    }

    /// Borrows a buffer; waits if all are lent. Allocates nothing.
    pub fn borrow(&self) -> Borrowed<'_> {
        let mut free = self.lock();
        loop {
            if let Some(buffer) = free.pop() {
                return Borrowed { buffers: self, buffer: Some(buffer) };
            }
            free = self.returned.wait(free).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The list is whole at every moment.
    fn lock(&self) -> MutexGuard<'_, Vec<AlignedBuffer>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Borrowed<'_> {
    fn drop(&mut self) {
        // The list has room: it held this buffer before.
        self.buffers.lock().extend(self.buffer.take());
        self.buffers.returned.notify_one();
    }
}

impl Deref for Borrowed<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.buffer.as_deref().unwrap_or_default()
    }
}

impl DerefMut for Borrowed<'_> {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.buffer.as_deref_mut().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn who_comes_too_late_waits() {
        let buffers = Buffers::new(1, 512);
        let first = buffers.borrow();
        assert_eq!(first.len(), 512);
        std::thread::scope(|scope| {
            let second = scope.spawn(|| buffers.borrow().len());
            std::thread::sleep(Duration::from_millis(20));
            assert!(!second.is_finished());
            drop(first);
            assert_eq!(second.join().unwrap(), 512);
        });
    }
}
