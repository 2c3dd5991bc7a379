//! A volume that another process owns.

use std::ops::ControlFlow;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use aquifer_sys::memory::MappedRange;
use aquifer_sys::uffd::Features;
use aquifer_sys::{Errno, SignalsBlocked, Userfaultfd};
use rustix::event::{PollFd, PollFlags, poll};

use super::channel::{Channel, Packet};
use super::entries;
use super::protocol::{Answer, Operation, Request, VERSION, open, u64_at};
use super::refusal::error_of;
use super::remote::RemoteFile;
use crate::error::{Result, VolumeError};
use crate::inode::{INODE_BYTES, Inode};
use crate::key::Ino;
use crate::names::{IfTaken, Listed};
use crate::path::Last;
use crate::volume::Space;

/// A connection to the owner of a volume.
///
/// When the owner dies, calls fail, and accesses to what is mapped raise SIGBUS.
pub struct Client {
    channel: Arc<Channel>,
    /// Held from a request to its answer.
    turn: Mutex<()>,
    faults: OnceLock<Arc<Userfaultfd>>,
    /// Whether the owner has the userfaultfd; held while a view is attached.
    is_attached: Mutex<bool>,
    mapped: Arc<Mutex<Vec<Arc<MappedRange>>>>,
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn failed(step: &'static str) -> impl Fn(Errno) -> VolumeError {
    move |errno| VolumeError::System { step, errno: errno.0 }
}

const GONE: VolumeError =
    VolumeError::System { step: "the process that has the volume is gone", errno: libc::EPIPE };
const OTHER_VERSION: VolumeError = VolumeError::System {
    step: "the process that has the volume is of another version of Aquifer",
    errno: libc::EPROTO,
};
/// What an answer is that was not made by an owner of this version.
pub(super) const SENSELESS: VolumeError = VolumeError::System {
    step: "the process that has the volume answers without sense",
    errno: libc::EPROTO,
};

impl Client {
    /// Connects to the owner that listens at `socket`.
    ///
    /// # Errors
    /// [`VolumeError::System`]: `ENOENT` and `EACCES` of the path, `ECONNREFUSED` if nobody listens there, `EPROTO` for an owner of another version.
    pub fn connect(socket: &Path) -> Result<Arc<Self>> {
        let channel = Arc::new(Channel::connect(socket)?);
        let (turn, faults, is_attached) = (Mutex::new(()), OnceLock::new(), Mutex::new(false));
        let client = Arc::new(Client { channel, turn, faults, is_attached, mapped: Arc::default() });
        let answer = client.call(&Request { a: VERSION, ..Request::new(Operation::Hello, 0) });
        match answer {
            Ok(_) => {}
            Err(VolumeError::Remote { errno: libc::EPROTO, .. }) => {
                return Err(OTHER_VERSION);
            }
            Err(error) => return Err(error),
        }
        let (channel, mapped) = (Arc::clone(&client.channel), Arc::clone(&client.mapped));
        let faults = Arc::downgrade(&client);
        // The new thread inherits that; handlers of the program run in the program's threads.
        let _signals = SignalsBlocked::new();
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

    pub(super) fn call(&self, request: &Request<'_>) -> Result<(Answer, Option<OwnedFd>)> {
        self.in_turn(&self.turn(), request, None)
    }

    /// The right to be answered; others wait until it is dropped.
    pub(super) fn turn(&self) -> MutexGuard<'_, ()> {
        lock(&self.turn)
    }

    /// Sends a request, perhaps with a descriptor, and waits for its answer.
    pub(super) fn in_turn(
        &self,
        _turn: &MutexGuard<'_, ()>,
        request: &Request<'_>,
        descriptor: Option<BorrowedFd<'_>>,
    ) -> Result<(Answer, Option<OwnedFd>)> {
        let gone = |_| GONE;
        self.channel.send(&request.encode(), descriptor).map_err(gone)?;
        let Packet { bytes, descriptors } = self.channel.receive().map_err(gone)?.ok_or(GONE)?;
        let answer = Answer::decode(&bytes).ok_or(SENSELESS)?;
        if answer.errno == 0 { Ok((answer, descriptors.into_iter().next())) } else { Err(error_of(&answer)) }
    }

    fn call_of_path(&self, operation: Operation, path: &[u8]) -> Result<Answer> {
        Ok(self.call(&Request { bytes: path, ..Request::new(operation, 0) })?.0)
    }

    fn call_of_two(&self, operation: Operation, b: u64, paths: [&[u8]; 2]) -> Result<()> {
        let (a, bytes) = (paths[0].len() as u64, paths.concat());
        self.call(&Request { a, b, bytes: &bytes, ..Request::new(operation, 0) }).map(drop)
    }

    /// Opens a file: flags as of [`super::protocol::open`], `mode` for a new one.
    ///
    /// # Errors
    /// The owner's: among others that this user may not.
    pub fn open(self: &Arc<Self>, path: &[u8], flags: u64, mode: u16) -> Result<RemoteFile> {
        let request = Request { a: flags, b: mode.into(), bytes: path, ..Request::new(Operation::Open, 0) };
        let (answer, _) = self.call(&request)?;
        Ok(RemoteFile::new(self, answer.handle, flags & open::WRITE != 0))
    }

    /// Makes everything durable that anybody changed.
    ///
    /// # Errors
    /// The owner's.
    pub fn sync(&self) -> Result<()> {
        self.call(&Request::new(Operation::Sync, 0)).map(drop)
    }

    /// Makes a folder.
    ///
    /// # Errors
    /// The owner's.
    pub fn make_folder(&self, path: &[u8], mode: u16) -> Result<()> {
        let request = Request { b: mode.into(), bytes: path, ..Request::new(Operation::MakeFolder, 0) };
        self.call(&request).map(drop)
    }

    /// Removes a file or an empty folder.
    ///
    /// # Errors
    /// The owner's.
    pub fn remove(&self, path: &[u8]) -> Result<()> {
        self.call_of_path(Operation::Remove, path).map(drop)
    }

    /// Changes a name.
    ///
    /// # Errors
    /// The owner's.
    pub fn rename(&self, from: &[u8], to: &[u8], if_taken: IfTaken) -> Result<()> {
        let number = match if_taken {
            IfTaken::Replace => 0,
            IfTaken::Fail => 1,
            IfTaken::Exchange => 2,
        };
        self.call_of_two(Operation::Rename, number, [from, to])
    }

    /// Gives a file another name.
    ///
    /// # Errors
    /// The owner's.
    pub fn link(&self, path: &[u8], new: &[u8]) -> Result<()> {
        self.call_of_two(Operation::Link, 0, [path, new])
    }

    /// Makes a symbolic link that leads to `target`.
    ///
    /// # Errors
    /// The owner's.
    pub fn make_symlink(&self, target: &[u8], path: &[u8]) -> Result<()> {
        self.call_of_two(Operation::Symlink, 0, [target, path])
    }

    /// What a symbolic link says.
    ///
    /// # Errors
    /// The owner's.
    pub fn read_link(&self, path: &[u8]) -> Result<Vec<u8>> {
        Ok(self.call_of_path(Operation::ReadLink, path)?.bytes)
    }

    /// What is known of a file or folder.
    ///
    /// # Errors
    /// The owner's.
    pub fn stat(&self, path: &[u8], last: Last) -> Result<(Ino, Inode)> {
        let a = u64::from(last == Last::Follow);
        let (answer, _) = self.call(&Request { a, bytes: path, ..Request::new(Operation::StatPath, 0) })?;
        stat_of(&answer)
    }

    /// Lists a folder; `visit` may use the client.
    ///
    /// # Errors
    /// The owner's.
    pub fn list(
        self: &Arc<Self>,
        path: &[u8],
        mut visit: impl FnMut(Listed<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        let folder = self.open(path, open::READ, 0)?;
        let (mut next, mut is_end) = (0, false);
        while !is_end {
            let answer = folder.list(next)?;
            // An answer with neither names nor the end would come again and again.
            if answer.b == 0 && answer.a == next {
                return Err(SENSELESS);
            }
            (next, is_end) = (answer.a, answer.b != 0);
            let mut entries = &answer.bytes[..];
            while let Some((name, ino, kind)) = entries::pop(&mut entries) {
                if visit(Listed { name, ino, kind, next }).is_break() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// How full the volume is.
    ///
    /// # Errors
    /// The owner's.
    pub fn space(&self) -> Result<Space> {
        let bytes = self.call_of_path(Operation::Space, b"")?.bytes;
        if bytes.len() != 40 {
            return Err(SENSELESS);
        }
        let number = |n: usize| u64_at(&bytes, n * 8);
        Ok(Space {
            capacity_bytes: number(0),
            used_bytes: number(1),
            kept_bytes: number(2),
            files: number(3),
            files_max: number(4),
        })
    }

    /// Has the owner resolve the faults of a view; the view's handle there.
    pub(super) fn attach(&self, request: &Request<'_>, faults: &Arc<Userfaultfd>) -> Result<u32> {
        let mut is_attached = lock(&self.is_attached);
        // SAFETY: the descriptor lives as long as the client.
        let descriptor = unsafe { BorrowedFd::borrow_raw(faults.raw_fd()) };
        let descriptor = (!*is_attached).then_some(descriptor);
        let (answer, _) = self.in_turn(&self.turn(), request, descriptor)?;
        *is_attached = true;
        Ok(answer.handle)
    }

    /// Knows a mapping, which is revoked if the owner dies.
    pub(super) fn remember(&self, addresses: &Arc<MappedRange>) {
        lock(&self.mapped).push(Arc::clone(addresses));
    }

    pub(super) fn forget(&self, addresses: &Arc<MappedRange>) {
        lock(&self.mapped).retain(|known| !Arc::ptr_eq(known, addresses));
    }

    pub(super) fn faults(&self) -> Result<&Arc<Userfaultfd>> {
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

/// The number and the inode in an answer.
pub(super) fn stat_of(answer: &Answer) -> Result<(Ino, Inode)> {
    let bytes: &[u8; INODE_BYTES] = answer.bytes.first_chunk().ok_or(SENSELESS)?;
    let ino = u32::try_from(answer.a).map_err(|_| SENSELESS)?;
    Ok((Ino(ino), Inode::decode(bytes).ok_or(SENSELESS)?))
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
fn revoke(mapped: &Mutex<Vec<Arc<MappedRange>>>, faults: Option<Arc<Userfaultfd>>) {
    for mapping in lock(mapped).iter() {
        // SAFETY: programs use the range through raw pointers; that accesses fail is what they were told.
        let revoked = unsafe { mapping.revoke() };
        if revoked.is_err() {
            // What is absent would wait for ever.
            aquifer_sys::stderr::write(
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
