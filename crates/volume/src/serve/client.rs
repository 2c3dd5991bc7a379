//! A volume that another process owns.

use std::os::fd::{AsFd, BorrowedFd, IntoRawFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use aquifer_sys::memory::{Protection, SharedMapping, SharedMemory};
use aquifer_sys::uffd::Features;
use aquifer_sys::{Errno, Userfaultfd};
use rustix::event::{PollFd, PollFlags, poll};

use super::channel::{Channel, Packet};
use super::protocol::{Answer, Operation, PAYLOAD_BYTES_MAX, Request, VERSION};
use crate::error::{Result, VolumeError};
use crate::inode::{INODE_BYTES, Inode};
use crate::word::PAGE_BYTES;

/// A connection to the owner of a volume.
///
/// When the owner dies, calls fail, and accesses to what is mapped raise SIGBUS.
pub struct Client {
    channel: Arc<Channel>,
    /// Held from a request to its answer.
    turn: Mutex<()>,
    faults: OnceLock<Arc<Userfaultfd>>,
    is_attached: AtomicBool,
    mapped: Arc<Mutex<Vec<Arc<SharedMapping>>>>,
}

/// A file that is open at the owner.
pub struct RemoteFile {
    client: Arc<Client>,
    handle: u32,
    may_write: bool,
}

/// A part of a file as memory of this process. Unmapped on drop.
pub struct RemoteMapping {
    client: Arc<Client>,
    addresses: Arc<SharedMapping>,
    view: u32,
    len: usize,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn failed(step: &'static str) -> impl Fn(Errno) -> VolumeError {
    move |errno| VolumeError::System { step, errno: errno.0 }
}

const GONE: VolumeError =
    VolumeError::System { step: "the process that has the volume is gone", errno: libc::EPIPE };

impl Client {
    /// Connects to the owner that listens at `socket`.
    ///
    /// # Errors
    /// Nobody listens there, or somebody of another version.
    pub fn connect(socket: &Path) -> Result<Arc<Self>> {
        let channel = Arc::new(Channel::connect(socket)?);
        let (turn, faults, is_attached) = (Mutex::new(()), OnceLock::new(), AtomicBool::new(false));
        let client = Arc::new(Client { channel, turn, faults, is_attached, mapped: Arc::default() });
        let answer = client.call(&Request { a: VERSION, ..Request::new(Operation::Hello, 0) }, None);
        match answer {
            Ok(_) => {}
            Err(VolumeError::Remote { errno: libc::EPROTO, .. }) => {
                return Err(VolumeError::Invalid("the process that has the volume is of another version"));
            }
            Err(error) => return Err(error),
        }
        let (channel, mapped) = (Arc::clone(&client.channel), Arc::clone(&client.mapped));
        let faults = Arc::downgrade(&client);
        std::thread::Builder::new()
            .name("aq-volume-watch".into())
            .spawn(move || {
                wait_for_end(&channel);
                revoke(&mapped, faults.upgrade().and_then(|client| client.faults.get().cloned()));
            })
            .map_err(|error| VolumeError::System {
                step: "starting a thread",
                errno: error.raw_os_error().unwrap_or(libc::EAGAIN),
            })?;
        Ok(client)
    }

    fn call(
        &self,
        request: &Request<'_>,
        descriptor: Option<BorrowedFd<'_>>,
    ) -> Result<(Answer, Option<OwnedFd>)> {
        let _turn = lock(&self.turn);
        let gone = |_| GONE;
        self.channel.send(&request.encode(), descriptor).map_err(gone)?;
        let Packet { bytes, descriptor } = self.channel.receive().map_err(gone)?.ok_or(GONE)?;
        let answer =
            Answer::decode(&bytes).ok_or(VolumeError::Invalid("the owner's answer makes no sense"))?;
        if answer.errno == 0 {
            return Ok((answer, descriptor));
        }
        Err(error_of(&answer))
    }

    /// Opens a file: flags as of [`super::protocol::open`], `mode` for a new one.
    ///
    /// # Errors
    /// The owner's: among others that this user may not.
    pub fn open(self: &Arc<Self>, path: &[u8], flags: u64, mode: u16) -> Result<RemoteFile> {
        let request = Request { a: flags, b: mode.into(), bytes: path, ..Request::new(Operation::Open, 0) };
        let (answer, _) = self.call(&request, None)?;
        let may_write = flags & super::protocol::open::WRITE != 0;
        Ok(RemoteFile { client: Arc::clone(self), handle: answer.handle, may_write })
    }

    /// Makes everything durable that anybody changed.
    ///
    /// # Errors
    /// The owner's.
    pub fn sync(&self) -> Result<()> {
        self.call(&Request::new(Operation::Sync, 0), None).map(drop)
    }

    /// Makes a folder.
    ///
    /// # Errors
    /// The owner's.
    pub fn make_folder(&self, path: &[u8], mode: u16) -> Result<()> {
        let request = Request { b: mode.into(), bytes: path, ..Request::new(Operation::MakeFolder, 0) };
        self.call(&request, None).map(drop)
    }

    /// Removes a file or an empty folder.
    ///
    /// # Errors
    /// The owner's.
    pub fn remove(&self, path: &[u8]) -> Result<()> {
        self.call(&Request { bytes: path, ..Request::new(Operation::Remove, 0) }, None).map(drop)
    }

    /// Changes a name.
    ///
    /// # Errors
    /// The owner's.
    pub fn rename(&self, from: &[u8], to: &[u8]) -> Result<()> {
        let (a, bytes) = (from.len() as u64, [from, to].concat());
        self.call(&Request { a, bytes: &bytes, ..Request::new(Operation::Rename, 0) }, None).map(drop)
    }

    fn faults(&self) -> Result<&Arc<Userfaultfd>> {
        if let Some(faults) = self.faults.get() {
            return Ok(faults);
        }
        let wanted = Features::MISSING_SHMEM
            | Features::MINOR_SHMEM
            | Features::WP_SHMEM
            | Features::PAGEFAULT_FLAG_WP
            | Features::POISON;
        // With the right to, system calls may be given absent pages too.
        let faults = Userfaultfd::open_full(wanted).or_else(|_| Userfaultfd::open(wanted));
        let faults = faults.map_err(failed("opening a userfaultfd, which mapped files need"))?;
        Ok(self.faults.get_or_init(|| Arc::new(faults)))
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.channel.end();
    }
}

fn error_of(answer: &Answer) -> VolumeError {
    let text = String::from_utf8_lossy(&answer.bytes).into_owned();
    VolumeError::Remote { errno: answer.errno.cast_signed(), text }
}

/// Returns when the other end is gone.
fn wait_for_end(channel: &Channel) {
    loop {
        let mut watched = [PollFd::from_borrowed_fd(channel.as_fd(), PollFlags::RDHUP)];
        let outcome = poll(&mut watched, None);
        let gone = PollFlags::HUP | PollFlags::RDHUP | PollFlags::ERR;
        if outcome.is_ok() && watched[0].revents().intersects(gone) {
            return;
        }
    }
}

/// Makes accesses to what is mapped raise SIGBUS, also those that wait for the owner.
fn revoke(mapped: &Mutex<Vec<Arc<SharedMapping>>>, faults: Option<Arc<Userfaultfd>>) {
    for mapping in lock(mapped).iter() {
        // SAFETY: programs use the range through raw pointers; that accesses fail is what they were told.
        let revoked = unsafe { mapping.revoke() };
        if revoked.is_err() {
            // What is absent would wait for ever.
            aquifer_sys::process::write_stderr(
                b"aquifer: the owner of the volume is gone, and its mapped files cannot be unmapped\n",
            );
            std::process::abort();
        }
        if let Some(faults) = &faults {
            // Nobody may be waiting.
            let _ = faults.wake(mapping.base(), mapping.len());
        }
    }
}

impl RemoteFile {
    /// Its inode.
    ///
    /// # Errors
    /// The owner's.
    pub fn inode(&self) -> Result<Inode> {
        let (answer, _) = self.client.call(&Request::new(Operation::Stat, self.handle), None)?;
        let bytes: &[u8; INODE_BYTES] = answer.bytes.first_chunk().ok_or(SENSELESS)?;
        Inode::decode(bytes).ok_or(SENSELESS)
    }

    /// Reads bytes; fewer than asked for only at the end of the file.
    ///
    /// # Errors
    /// The owner's.
    pub fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<usize> {
        let mut done = 0;
        while done < bytes.len() {
            let len = (bytes.len() - done).min(PAYLOAD_BYTES_MAX);
            let request = Request {
                a: offset + done as u64,
                b: len as u64,
                ..Request::new(Operation::Read, self.handle)
            };
            let (answer, _) = self.client.call(&request, None)?;
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
            let request = Request {
                a: offset + done as u64,
                bytes: piece,
                ..Request::new(Operation::Write, self.handle)
            };
            match self.client.call(&request, None) {
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

    /// Changes its size.
    ///
    /// # Errors
    /// The owner's.
    pub fn truncate(&self, size_bytes: u64) -> Result<()> {
        self.client
            .call(&Request { a: size_bytes, ..Request::new(Operation::Truncate, self.handle) }, None)
            .map(drop)
    }

    /// The shared memory of its pages, as the owner gives it.
    ///
    /// # Errors
    /// The owner's.
    pub fn memory(&self) -> Result<SharedMemory> {
        let (_, descriptor) = self.client.call(&Request::new(Operation::Pages, self.handle), None)?;
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
            ..Request::new(Operation::Attach, self.handle)
        };
        // Known before the owner is asked, so that it is revoked if the owner dies now.
        lock(&self.client.mapped).push(Arc::clone(&addresses));
        let outcome = self.attach(&request, faults);
        if outcome.is_err() {
            self.client.forget(&addresses);
        }
        Ok(RemoteMapping { client: Arc::clone(&self.client), view: outcome?, addresses, len })
    }

    fn attach(&self, request: &Request<'_>, faults: &Arc<Userfaultfd>) -> Result<u32> {
        if self.client.is_attached.load(Ordering::Acquire) {
            return Ok(self.client.call(request, None)?.0.handle);
        }
        // SAFETY: the descriptor lives as long as the client.
        let descriptor = unsafe { BorrowedFd::borrow_raw(faults.raw_fd()) };
        let (answer, _) = self.client.call(request, Some(descriptor))?;
        self.client.is_attached.store(true, Ordering::Release);
        Ok(answer.handle)
    }
}

const SENSELESS: VolumeError = VolumeError::Invalid("the owner's answer makes no sense");

impl Client {
    fn forget(&self, addresses: &Arc<SharedMapping>) {
        lock(&self.mapped).retain(|known| !Arc::ptr_eq(known, addresses));
    }
}

impl Drop for RemoteFile {
    fn drop(&mut self) {
        // The owner closes what is open when the connection ends.
        let _ = self.client.call(&Request::new(Operation::Close, self.handle), None);
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
        let _ = self.client.call(&Request::new(Operation::Detach, self.view), None);
        self.client.forget(&self.addresses);
    }
}
