//! Memory that stays in place for the kernel.

use std::sync::atomic::Ordering;

use aquifer_heap::HeapError;
use aquifer_vm::fork;

use super::PageHeap;
use crate::announced::Ticket;
use crate::error::Error;

/// A buffer that stays where it is during a system call.
#[derive(Debug)]
pub struct CallBuffer(Kept);

#[derive(Debug)]
enum Kept {
    Anyway,
    /// In ordinary memory.
    Announced(Ticket),
    Pinned {
        address: usize,
        bytes: usize,
    },
}

impl PageHeap {
    /// Keeps the pages of a range mapped and writable until [`PageHeap::unpin`]. Pins nest. Ordinary memory needs none.
    ///
    /// # Errors
    /// [`Error::Heap`] if they cannot be read or too much is pinned. Returns whether there is something to unpin.
    pub fn pin(&self, address: usize, bytes: usize) -> Result<bool, Error> {
        match self.managed.get() {
            Some(managed) if fork::is_forked() => {
                let (first, count) = self.pages_of(address, bytes);
                managed.parts.engine.keep_in_snapshot(first, count).map_err(HeapError::Pin)?;
                Ok(false)
            }
            Some(managed) => {
                managed.parts.allocator.pin(address, bytes)?;
                Ok(true)
            }
            None => Ok(false),
        }
    }

    /// Ends one pin of that range, or of a part of it.
    ///
    /// # Errors
    /// [`Error::Heap`] if it is not pinned.
    pub fn unpin(&self, address: usize, bytes: usize) -> Result<(), Error> {
        match self.managed.get() {
            Some(managed) if !fork::is_forked() => Ok(managed.parts.allocator.unpin(address, bytes)?),
            _ => Ok(()),
        }
    }

    /// Ends the pin of pages that were protected and are accessible now.
    ///
    /// # Errors
    /// [`Error::Heap`] if they cannot be made the heap's own; they stay in RAM then.
    pub fn unpin_protected(&self, address: usize, bytes: usize) -> Result<(), Error> {
        match self.managed.get() {
            Some(managed) if !fork::is_forked() => {
                let (first, count) = self.pages_of(address, bytes);
                managed.parts.engine.own(first, count).map_err(HeapError::Fault)?;
                self.unpin(address, bytes)
            }
            _ => Ok(()),
        }
    }

    /// Keeps a buffer in place for a system call, until [`PageHeap::end_call`]: as [`PageHeap::pin`], also if the memory becomes a
    /// heap's during the call. Signal-safe, and lock-free while the memory is ordinary.
    ///
    /// # Errors
    /// As [`PageHeap::pin`].
    pub fn begin_call(&self, address: usize, bytes: usize) -> Result<CallBuffer, Error> {
        loop {
            if self.is_managed() {
                let is_pinned = self.pin(address, bytes)?;
                return Ok(CallBuffer(if is_pinned {
                    Kept::Pinned { address, bytes }
                } else {
                    Kept::Anyway
                }));
            }
            let ticket = self.announced.begin(address, bytes);
            // The takeover sets this flag before it looks for announced buffers.
            if !self.is_taken_over.load(Ordering::SeqCst) && !self.is_managed() {
                return Ok(CallBuffer(ticket.map_or(Kept::Anyway, Kept::Announced)));
            }
            ticket.into_iter().for_each(|ticket| self.end_announced(ticket));
            drop(self.becoming_managed.read());
        }
    }

    /// The call has returned.
    ///
    /// # Errors
    /// [`Error::Heap`] if the buffer is not pinned.
    pub fn end_call(&self, buffer: CallBuffer) -> Result<(), Error> {
        match buffer.0 {
            Kept::Anyway => Ok(()),
            Kept::Pinned { address, bytes } => self.unpin(address, bytes),
            Kept::Announced(ticket) => {
                self.end_announced(ticket);
                Ok(())
            }
        }
    }

    fn end_announced(&self, ticket: Ticket) {
        let Some((address, bytes)) = self.announced.end(ticket) else { return };
        if !self.is_managed() {
            // The takeover has pinned the buffer and still holds the lock: wait for it.
            drop(self.becoming_managed.read());
        }
        if let Some(managed) = self.managed.get() {
            let (first, count) = self.pages_of(address, bytes);
            let _ = managed.parts.engine.unpin(first, count);
        }
    }

    /// In a forked child: none of its parent's calls are under way. Signal-safe.
    pub fn forget_calls(&self) {
        self.announced.forget_all();
    }
}
