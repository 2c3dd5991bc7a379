//! The process that owns a volume, for others.

use std::collections::HashMap;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use aquifer_sys::memory::Protection;
use aquifer_sys::process::peer_groups;
use aquifer_sys::uffd::Event;
use aquifer_sys::{Errno, Userfaultfd};
use rustix::event::{EventfdFlags, eventfd};

use super::channel::{Channel, Packet, failed};
use super::protocol::{Answer, Operation, PAYLOAD_BYTES_MAX, Request, VERSION, open};
use crate::access::{Access, Credentials};
use crate::error::{Result, VolumeError};
use crate::mapping::{MappedPages, View, resolve};
use crate::names::IfTaken;
use crate::session::{OpenFile, OpenHow, Session};
use crate::volume::Volume;
use crate::word::PAGE_BYTES;

/// Most clients at a time.
const CLIENTS_MAX: usize = 256;
/// Most open files, and most views, of a client.
const HANDLES_MAX: usize = 4096;
/// Most groups of a user.
const GROUPS_MAX: usize = 1024;
/// Threads that resolve the faults of one client.
const FAULT_THREADS: usize = 4;

/// Serves a volume to whoever connects, until [`super::stop_listening`].
///
/// # Errors
/// The system's, of the listening socket. What goes wrong with one client ends that client's connection.
///
/// # Context
/// Blocks. Returns once all clients are gone or were sent away.
pub fn serve(volume: &Arc<Volume>, listening: &OwnedFd) -> Result<()> {
    let clients = AtomicUsize::new(0);
    let connected: Mutex<HashMap<usize, Arc<Channel>>> = Mutex::default();
    std::thread::scope(|scope| {
        let outcome = loop {
            let channel = match Channel::accept(listening) {
                Ok(Some(channel)) => Arc::new(channel),
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            };
            if clients.load(Ordering::Acquire) >= CLIENTS_MAX {
                let _ = channel.send(
                    &refusal(&VolumeError::System { step: "serving", errno: libc::EUSERS }).encode(),
                    None,
                );
                continue;
            }
            clients.fetch_add(1, Ordering::AcqRel);
            let number = Arc::as_ptr(&channel).addr();
            lock(&connected).insert(number, Arc::clone(&channel));
            let (clients, connected) = (&clients, &connected);
            let started =
                std::thread::Builder::new().name("aq-volume-client".into()).spawn_scoped(scope, move || {
                    // A client whose connection fails is gone; nobody is left to tell.
                    let _ = Client::new(volume, Arc::clone(&channel)).and_then(|mut client| client.run());
                    lock(connected).remove(&number);
                    clients.fetch_sub(1, Ordering::AcqRel);
                });
            if started.is_err() {
                lock(connected).remove(&number);
                clients.fetch_sub(1, Ordering::AcqRel);
            }
        };
        lock(&connected).values().for_each(|channel| channel.end());
        outcome
    })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn refusal(error: &VolumeError) -> Answer {
    Answer { errno: error.errno().unsigned_abs(), bytes: error.to_string().into_bytes(), ..Answer::default() }
}

/// A file that a client has open.
struct Opened {
    file: OpenFile<Arc<Volume>>,
    may_read: bool,
    may_write: bool,
}

/// A view of a client, as its faults find it.
#[derive(Clone)]
struct Seen {
    ino: crate::Ino,
    pages: Arc<MappedPages>,
    view: Arc<View>,
}

type Views = Arc<Mutex<HashMap<u32, Seen>>>;

/// One who is connected.
struct Client<'a> {
    volume: &'a Arc<Volume>,
    channel: Arc<Channel>,
    session: Session<Arc<Volume>>,
    files: HashMap<u32, Opened>,
    views: Views,
    next_handle: u32,
    faults: Option<Faults>,
    is_known: bool,
}

/// Threads that resolve a client's faults.
struct Faults {
    descriptor: Arc<Userfaultfd>,
    stop: Arc<OwnedFd>,
    threads: Vec<JoinHandle<()>>,
}

impl<'a> Client<'a> {
    fn new(volume: &'a Arc<Volume>, channel: Arc<Channel>) -> Result<Self> {
        let peer = channel.peer()?;
        let mut groups = vec![0; GROUPS_MAX];
        let count = peer_groups(channel.as_fd().as_raw_fd(), &mut groups).map_err(|errno| {
            VolumeError::System { step: "asking for the client's groups", errno: errno.0 }
        })?;
        groups.truncate(count);
        let who = Credentials::new(peer.uid.as_raw(), peer.gid.as_raw(), groups);
        let session = Session::new(Arc::clone(volume), who);
        let (files, views) = (HashMap::new(), Views::default());
        Ok(Client { volume, channel, session, files, views, next_handle: 1, faults: None, is_known: false })
    }

    fn run(&mut self) -> Result<()> {
        while let Some(packet) = self.channel.receive()? {
            let outcome = self.answer(packet);
            let (answer, memory) = match outcome {
                Ok((answer, memory)) => (answer, memory),
                Err(error) => (refusal(&error), None),
            };
            let memory = memory.as_ref().map(|memory| {
                // SAFETY: the memory lives until the packet is sent.
                unsafe { BorrowedFd::borrow_raw(memory.raw_fd()) }
            });
            self.channel.send(&answer.encode(), memory)?;
        }
        Ok(())
    }

    fn answer(&mut self, packet: Packet) -> Result<(Answer, Option<aquifer_sys::memory::SharedMemory>)> {
        let Packet { bytes, descriptor } = packet;
        let request =
            Request::decode(&bytes).ok_or(VolumeError::Invalid("this is no message for a volume"))?;
        if request.operation == Operation::Hello {
            self.is_known = request.a == VERSION;
            let answer = Answer {
                a: VERSION,
                errno: if self.is_known { 0 } else { libc::EPROTO.unsigned_abs() },
                ..Answer::default()
            };
            return Ok((answer, None));
        }
        if !self.is_known {
            return Err(VolumeError::Invalid("the first message must say the version"));
        }
        let done = |()| Answer::default();
        let answer = match request.operation {
            Operation::Open => self.open(&request)?,
            Operation::Close => {
                self.files.remove(&request.handle).map(drop).ok_or(UNKNOWN_HANDLE)?;
                Answer::default()
            }
            Operation::Read => {
                let mut bytes = vec![0; (request.b as usize).min(PAYLOAD_BYTES_MAX)];
                let got = self.opened(request.handle)?.file.read(request.a, &mut bytes)?;
                bytes.truncate(got);
                Answer { bytes, ..Answer::default() }
            }
            Operation::Write => {
                let written = self.opened(request.handle)?.file.write(request.a, request.bytes)?;
                Answer { a: written as u64, ..Answer::default() }
            }
            Operation::Stat => {
                let inode = self.opened(request.handle)?.file.inode()?;
                Answer {
                    a: inode.size_bytes,
                    b: inode.mode.into(),
                    bytes: inode.encode().to_vec(),
                    ..Answer::default()
                }
            }
            Operation::Truncate => self.opened(request.handle)?.file.truncate(request.a).map(done)?,
            Operation::Sync => self.volume.sync().map(done)?,
            Operation::Pages => return self.pages(request.handle),
            Operation::Attach => self.attach(&request, descriptor)?,
            Operation::Detach => {
                let seen = lock(&self.views).remove(&request.handle).ok_or(UNKNOWN_HANDLE)?;
                seen.pages.remove(&seen.view);
                Answer::default()
            }
            Operation::MakeFolder => {
                self.session.make_folder(request.bytes, request.b as u16).map(|_| Answer::default())?
            }
            Operation::Remove => match self.session.unlink(request.bytes) {
                Err(VolumeError::IsAFolder) => self.session.remove_folder(request.bytes).map(done)?,
                outcome => outcome.map(done)?,
            },
            Operation::Rename => {
                let at = usize::try_from(request.a).unwrap_or(usize::MAX);
                let (from, to) =
                    request.bytes.split_at_checked(at).ok_or(VolumeError::Invalid("a path is cut off"))?;
                self.session.rename(from, to, IfTaken::Replace).map(done)?
            }
            Operation::Hello => Answer::default(),
        };
        Ok((answer, None))
    }

    fn opened(&self, handle: u32) -> Result<&Opened> {
        self.files.get(&handle).ok_or(UNKNOWN_HANDLE)
    }

    fn new_handle(&mut self) -> u32 {
        let handle = self.next_handle;
        self.next_handle = self.next_handle.wrapping_add(1).max(1);
        handle
    }

    fn open(&mut self, request: &Request<'_>) -> Result<Answer> {
        let has = |flag: u64| request.a & flag != 0;
        if request.a & !open::ALL != 0 || !(has(open::READ) || has(open::WRITE)) {
            return Err(VolumeError::Invalid("these are no flags to open a file with"));
        }
        if self.files.len() >= HANDLES_MAX {
            return Err(VolumeError::System { step: "opening a file", errno: libc::EMFILE });
        }
        let access = match (has(open::READ), has(open::WRITE)) {
            (true, true) => Access::READ.and(Access::WRITE),
            (true, false) => Access::READ,
            _ => Access::WRITE,
        };
        let how = OpenHow {
            access,
            make: has(open::CREATE).then_some(request.b as u16),
            is_new: has(open::EXCLUSIVE),
            is_truncated: has(open::TRUNCATE),
            keeps_link: false,
        };
        let file = self.session.open(request.bytes, &how)?;
        let size_bytes = file.inode()?.size_bytes;
        let handle = self.new_handle();
        self.files.insert(handle, Opened { file, may_read: has(open::READ), may_write: has(open::WRITE) });
        Ok(Answer { handle, a: size_bytes, ..Answer::default() })
    }

    /// The memory of a file's pages: for loads alone, if the file is open for reading alone.
    fn pages(&self, handle: u32) -> Result<(Answer, Option<aquifer_sys::memory::SharedMemory>)> {
        let opened = self.opened(handle)?;
        if !opened.may_read {
            return Err(VolumeError::PermissionDenied);
        }
        let pages = self.volume.shared_pages(opened.file.ino())?;
        let system = |errno: Errno| VolumeError::System { step: "sharing memory", errno: errno.0 };
        let memory = if opened.may_write { pages.memory().duplicate() } else { pages.memory().read_only() };
        Ok((Answer::default(), Some(memory.map_err(system)?)))
    }

    fn attach(&mut self, request: &Request<'_>, descriptor: Option<OwnedFd>) -> Result<Answer> {
        let (first, count) = ((request.b >> 32) as u32, request.b as u32);
        let opened = self.opened(request.handle)?;
        let protection = match request.c {
            0 => Protection::Read,
            1 => Protection::Write,
            2 => Protection::CopyOnWrite,
            _ => return Err(VolumeError::Invalid("a view is for loads, for stores, or private")),
        };
        if !opened.may_read || (protection == Protection::Write && !opened.may_write) {
            return Err(VolumeError::PermissionDenied);
        }
        let end = request.a.checked_add(u64::from(count) * PAGE_BYTES as u64);
        if count == 0
            || !request.a.is_multiple_of(PAGE_BYTES as u64)
            || end.is_none()
            || first.checked_add(count).is_none()
        {
            return Err(VolumeError::Invalid("a view is whole pages of memory and of a file"));
        }
        let ino = opened.file.ino();
        let pages = self.volume.shared_pages(ino)?;
        if lock(&self.views).len() >= HANDLES_MAX {
            return Err(VolumeError::System { step: "mapping a file", errno: libc::EMFILE });
        }
        if let Some(descriptor) = descriptor {
            self.resolve_faults_of(descriptor)?;
        }
        let faults = self.faults.as_ref().ok_or(VolumeError::Invalid("a view needs a userfaultfd"))?;
        // SAFETY: the addresses are the client's; calls on what it has not mapped or registered fail.
        let view = unsafe {
            View::new(Arc::clone(&faults.descriptor), request.a as usize, first, count, protection)
        };
        let view = Arc::new(view);
        pages.add(Arc::clone(&view));
        let handle = self.new_handle();
        lock(&self.views).insert(handle, Seen { ino, pages, view });
        Ok(Answer { handle, ..Answer::default() })
    }

    fn resolve_faults_of(&mut self, descriptor: OwnedFd) -> Result<()> {
        if self.faults.is_some() {
            return Err(VolumeError::Invalid("a client has one userfaultfd"));
        }
        if !is_userfaultfd(&descriptor) {
            return Err(VolumeError::Invalid("this is no userfaultfd"));
        }
        // SAFETY: the descriptor was just received, and is given away here.
        let descriptor = Arc::new(unsafe { Userfaultfd::from_raw_fd(descriptor.into_raw_fd()) });
        let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC).map_err(failed("making an eventfd"))?);
        let mut faults = Faults { descriptor, stop, threads: Vec::new() };
        for _ in 0..FAULT_THREADS {
            let (volume, views) = (Arc::clone(self.volume), Arc::clone(&self.views));
            let (descriptor, stop) = (Arc::clone(&faults.descriptor), Arc::clone(&faults.stop));
            let thread = std::thread::Builder::new()
                .name("aq-volume-fault".into())
                .spawn(move || resolve_faults(&volume, &views, &descriptor, &stop))
                .map_err(|error| VolumeError::System {
                    step: "starting a thread",
                    errno: error.raw_os_error().unwrap_or(libc::EAGAIN),
                })?;
            faults.threads.push(thread);
        }
        self.faults = Some(faults);
        Ok(())
    }
}

const UNKNOWN_HANDLE: VolumeError =
    VolumeError::System { step: "there is no such handle", errno: libc::EBADF };

/// Whether a descriptor from a stranger is what it should be: calls on others could block, or do anything.
fn is_userfaultfd(descriptor: &OwnedFd) -> bool {
    let link = std::fs::read_link(format!("/proc/self/fd/{}", descriptor.as_raw_fd()));
    let is_one = link.is_ok_and(|target| target.as_os_str() == "anon_inode:[userfaultfd]");
    let is_nonblocking = rustix::fs::fcntl_setfl(descriptor, rustix::fs::OFlags::NONBLOCK).is_ok();
    is_one && is_nonblocking
}

impl Drop for Client<'_> {
    fn drop(&mut self) {
        if let Some(faults) = self.faults.take() {
            // It stays readable for all threads.
            let _ = rustix::io::write(&faults.stop, &1u64.to_ne_bytes());
            for thread in faults.threads {
                let _ = thread.join();
            }
        }
        for (_, seen) in lock(&self.views).drain() {
            seen.pages.remove(&seen.view);
        }
    }
}

/// Resolves faults until `stop` is readable.
fn resolve_faults(volume: &Volume, views: &Views, descriptor: &Userfaultfd, stop: &OwnedFd) {
    loop {
        match descriptor.poll(stop.as_raw_fd(), -1) {
            Ok(ready) if ready.woken => return,
            Ok(_) => {}
            Err(_) => return,
        }
        let event = match descriptor.read_event() {
            Ok(Some(event)) => event,
            Ok(None) => continue,
            Err(_) => return,
        };
        let Event::PageFault { address, write, write_protected, .. } = event else { continue };
        let found = lock(views).values().find_map(|seen| Some((seen.clone(), seen.view.page_at(address)?)));
        let Some((seen, index)) = found else { continue };
        let is_write = write || write_protected;
        let outcome = resolve(volume.core(), seen.ino, &seen.pages, &seen.view, index, is_write);
        if outcome.is_err() {
            // The client gets SIGBUS. If it is gone, nobody is left to tell.
            let _ = seen.view.poison(index);
        } else {
            let _ = seen.view.wake(index);
        }
    }
}
