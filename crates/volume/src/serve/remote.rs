//! A file of a volume that another process owns, and its memory.

use std::os::fd::IntoRawFd;
use std::sync::Arc;

use aquifer_sys::memory::{MappedRange, Protection, SharedMemory};

use super::client::{Client, SENSELESS, failed, stat_of};
use super::protocol::{APPEND_BYTES_MAX, Answer, Operation, PAYLOAD_BYTES_MAX, Request};
use crate::error::{Result, VolumeError};
use crate::inode::{Inode, SIZE_BYTES_MAX};
use crate::key::Ino;
use crate::word::PAGE_BYTES;

/// A file that is open at the owner.
pub struct RemoteFile {
    client: Arc<Client>,
    handle: u32,
    may_write: bool,
}

/// A part of a file as memory of this process. Unmapped on drop.
pub struct RemoteMapping {
    client: Arc<Client>,
    addresses: Arc<MappedRange>,
    view: u32,
    len: usize,
}

impl RemoteFile {
    pub(super) fn new(client: &Arc<Client>, handle: u32, may_write: bool) -> Self {
        RemoteFile { client: Arc::clone(client), handle, may_write }
    }

    fn request(&self, operation: Operation) -> Request<'static> {
        Request::new(operation, self.handle)
    }

    /// The connection it is open through.
    #[must_use]
    pub fn client(&self) -> &Arc<Client> {
        &self.client
    }

    /// Its number, and what is known of it.
    ///
    /// # Errors
    /// The owner's.
    pub fn stat(&self) -> Result<(Ino, Inode)> {
        stat_of(&self.client.call(&self.request(Operation::Stat))?.0)
    }

    /// Some of the names in a folder, from where the last answer ended.
    pub(super) fn list(&self, next: u64) -> Result<Answer> {
        Ok(self.client.call(&Request { a: next, ..self.request(Operation::List) })?.0)
    }

    /// Reads bytes; fewer than asked for only at the end of the file.
    ///
    /// # Errors
    /// The owner's.
    pub fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<usize> {
        let mut done = 0;
        while done < bytes.len() {
            let len = (bytes.len() - done).min(PAYLOAD_BYTES_MAX);
            let request = Request { a: offset + done as u64, b: len as u64, ..self.request(Operation::Read) };
            let (answer, _) = self.client.call(&request)?;
            let got = answer.bytes.len().min(len);
            bytes[done..done + got].copy_from_slice(&answer.bytes[..got]);
            done += got;
            if got < len {
                break;
            }
        }
        Ok(done)
    }

    /// Writes bytes; fewer than given only when the volume is full.
    ///
    /// # Errors
    /// The owner's.
    pub fn write(&self, offset: u64, bytes: &[u8]) -> Result<usize> {
        let mut done = 0;
        for piece in bytes.chunks(PAYLOAD_BYTES_MAX) {
            let request = Request { a: offset + done as u64, bytes: piece, ..self.request(Operation::Write) };
            match self.client.call(&request) {
                Ok((answer, _)) => done += (answer.a as usize).min(piece.len()),
                Err(error) if done == 0 => return Err(error),
                Err(_) => break,
            }
            if done % PAYLOAD_BYTES_MAX != 0 {
                break;
            }
        }
        Ok(done)
    }

    /// Writes bytes behind the last one in one step, at most [`APPEND_BYTES_MAX`]: where the first is, and how many there was room for.
    ///
    /// # Errors
    /// The owner's; [`VolumeError::Invalid`] for more.
    pub fn append(&self, bytes: &[u8]) -> Result<(u64, usize)> {
        if bytes.len() > APPEND_BYTES_MAX {
            return Err(VolumeError::Invalid(
                "at most 4 MiB are appended at once to a volume that is served",
            ));
        }
        // Nobody else's pieces come between these.
        let turn = self.client.turn();
        let (mut piece, mut rest) = bytes.split_at(bytes.len().min(PAYLOAD_BYTES_MAX));
        loop {
            let a = u64::from(!rest.is_empty());
            let request = Request { a, bytes: piece, ..self.request(Operation::Append) };
            let (answer, _) = self.client.in_turn(&turn, &request, None)?;
            if rest.is_empty() {
                return Ok((answer.b, (answer.a as usize).min(bytes.len())));
            }
            (piece, rest) = rest.split_at(rest.len().min(PAYLOAD_BYTES_MAX));
        }
    }

    /// Changes its size.
    ///
    /// # Errors
    /// The owner's.
    pub fn truncate(&self, size_bytes: u64) -> Result<()> {
        self.client.call(&Request { a: size_bytes, ..self.request(Operation::Truncate) }).map(drop)
    }

    /// Makes a range zeros that take no room.
    ///
    /// # Errors
    /// The owner's.
    pub fn punch(&self, offset: u64, len_bytes: u64) -> Result<()> {
        self.client.call(&Request { a: offset, b: len_bytes, ..self.request(Operation::Punch) }).map(drop)
    }

    /// The shared memory of its pages, as the owner gives it.
    ///
    /// # Errors
    /// The owner's.
    pub fn memory(&self) -> Result<SharedMemory> {
        let (_, descriptor) = self.client.call(&self.request(Operation::Pages))?;
        let descriptor = descriptor.ok_or(SENSELESS)?;
        // SAFETY: the descriptor was just received, and is given away here.
        Ok(unsafe { SharedMemory::from_raw_fd(descriptor.into_raw_fd()) })
    }

    /// Maps `len` bytes from `offset`, a multiple of 4096.
    ///
    /// # Errors
    /// The owner's: a file that is open for reading alone cannot be mapped for stores. The system's.
    pub fn map(&self, offset: u64, len: usize, protection: Protection) -> Result<RemoteMapping> {
        if len == 0 || !offset.is_multiple_of(PAGE_BYTES as u64) {
            return Err(VolumeError::Invalid("a mapping begins at a multiple of 4096 and has a length"));
        }
        if offset.checked_add(len as u64).is_none_or(|end| end > SIZE_BYTES_MAX) {
            return Err(VolumeError::TooLarge);
        }
        let protection = match protection {
            Protection::Read if !self.may_write => Protection::ReadPrivately,
            protection => protection,
        };
        let is_private = matches!(protection, Protection::CopyOnWrite | Protection::ReadPrivately);
        let faults = self.client.faults()?;
        let addresses = self.memory()?.map(offset, len, protection).map_err(failed("mapping a file"))?;
        // SAFETY: the mapping is new, and the owner resolves its faults once it knows the view.
        unsafe { faults.register_shared(addresses.base(), addresses.len(), !is_private) }
            .map_err(failed("registering a mapping for page faults"))?;
        let addresses = Arc::new(addresses);
        let pages = u32::try_from(addresses.len() / PAGE_BYTES).map_err(|_| VolumeError::TooLarge)?;
        let request = Request {
            a: addresses.base().addr() as u64,
            b: (offset / PAGE_BYTES as u64) << 32 | u64::from(pages),
            c: match protection {
                Protection::Read => 0,
                Protection::Write => 1,
                Protection::CopyOnWrite | Protection::ReadPrivately => 2,
            },
            ..self.request(Operation::Attach)
        };
        // Known before the owner is asked, so that it is revoked if the owner dies now.
        self.client.remember(&addresses);
        let outcome = self.client.attach(&request, faults);
        if outcome.is_err() {
            self.client.forget(&addresses);
        }
        Ok(RemoteMapping { client: Arc::clone(&self.client), view: outcome?, addresses, len })
    }
}

impl Drop for RemoteFile {
    fn drop(&mut self) {
        // The owner closes what is open when the connection ends.
        let _ = self.client.call(&self.request(Operation::Close));
    }
}

impl RemoteMapping {
    /// The first byte.
    #[must_use]
    pub fn as_ptr(&self) -> *mut u8 {
        self.addresses.base()
    }

    /// Bytes.
    #[must_use]
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.len
    }
}

impl Drop for RemoteMapping {
    fn drop(&mut self) {
        // An owner that is gone has no views.
        let _ = self.client.call(&Request::new(Operation::Detach, self.view));
        self.client.forget(&self.addresses);
    }
}
