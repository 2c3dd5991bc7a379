//! What a client has mapped, and its faults.

use std::collections::HashMap;
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use aquifer_sys::memory::{Protection, SharedMemory};
use aquifer_sys::uffd::Event;
use aquifer_sys::{Errno, Userfaultfd};
use rustix::event::{EventfdFlags, eventfd};

use super::channel::failed;
use super::connection::{HANDLES_MAX, Opened};
use super::protocol::Request;
use super::quota::{Limited, MemoryShare, Quota, Share};
use super::server::lock;
use crate::error::{Result, VolumeError};
use crate::grace::Grace;
use crate::key::Ino;
use crate::mapping::{Pages, SharedUse, View, resolve};
use crate::volume::Volume;
use crate::word::PAGE_BYTES;

/// No program has memory from here on, with the largest page tables that there are.
const USER_ADDRESSES_END: u64 = 1 << 56;
/// Threads that resolve the faults of one client.
const FAULT_THREADS: usize = 4;

/// The views of a client.
pub struct Views {
    volume: Arc<Volume>,
    quota: Quota,
    seen: Arc<Mutex<HashMap<u32, Seen>>>,
    /// Faults that are being resolved, with the reads ahead that go on after the fault is answered.
    resolving: Arc<Grace>,
    faults: Option<Faults>,
}

/// A view, as its faults find it.
#[derive(Clone)]
struct Seen {
    file: Arc<Held>,
    view: Arc<View>,
}

/// The memory of a file, as a part of what a user may have.
pub struct Memory {
    shared: SharedUse,
    _share: MemoryShare,
}

/// A file that keeps its bytes while it is mapped, also when it is closed and has lost its name.
struct Held {
    volume: Arc<Volume>,
    ino: Ino,
    memory: Memory,
    _share: Share,
}

/// Threads that resolve a client's faults.
struct Faults {
    descriptor: Arc<Userfaultfd>,
    stop: Arc<OwnedFd>,
    threads: Vec<JoinHandle<()>>,
}

impl Views {
    /// None yet.
    pub fn new(volume: &Arc<Volume>, quota: &Quota) -> Self {
        let (volume, quota) = (Arc::clone(volume), quota.clone());
        Views { volume, quota, seen: Arc::default(), resolving: Arc::default(), faults: None }
    }

    /// Whether a userfaultfd is known: a client has one.
    pub fn has_faults(&self) -> bool {
        self.faults.is_some()
    }

    /// The memory of a file's pages, which stays the same until the file is closed: for loads alone, if the file is open for reading alone.
    pub fn memory(&self, opened: &mut Opened) -> Result<SharedMemory> {
        if !opened.may_read {
            return Err(VolumeError::PermissionDenied);
        }
        if opened.memory.is_none() {
            opened.memory = Some(self.begin_use(opened)?);
        }
        let Some(memory) = &opened.memory else { return Err(VolumeError::PermissionDenied) };
        let memory = memory.shared.pages().memory();
        let system = |errno: Errno| VolumeError::System { step: "sharing memory", errno: errno.0 };
        let memory = if opened.may_write { memory.duplicate() } else { memory.read_only() };
        memory.map_err(system)
    }

    fn begin_use(&self, opened: &Opened) -> Result<Memory> {
        let ino = opened.file.ino();
        self.volume.file(ino)?;
        let share = self.quota.take_memory(ino)?;
        let shared = SharedUse::begin(&self.volume, ino, opened.may_write)?;
        Ok(Memory { shared, _share: share })
    }

    /// Knows a view under `handle` from now on, and resolves its faults.
    pub fn attach(
        &mut self,
        handle: u32,
        opened: &Opened,
        request: &Request<'_>,
        descriptor: Option<OwnedFd>,
    ) -> Result<()> {
        let (first, count) = ((request.b >> 32) as u32, request.b as u32);
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
            || request.a == 0
            || !request.a.is_multiple_of(PAGE_BYTES as u64)
            || end.is_none_or(|end| end > USER_ADDRESSES_END)
            || first.checked_add(count).is_none()
        {
            return Err(VolumeError::Invalid("a view is whole pages of memory and of a file"));
        }
        let ino = opened.file.ino();
        if protection == Protection::Write {
            self.volume.core().allow_changes()?;
        }
        if lock(&self.seen).len() >= HANDLES_MAX {
            return Err(VolumeError::System { step: "mapping a file", errno: libc::EMFILE });
        }
        let share = self.quota.take(Limited::Views, 1)?;
        let memory = self.begin_use(opened)?;
        if let Some(descriptor) = descriptor {
            self.resolve_faults_of(descriptor)?;
        }
        let faults = self.faults.as_ref().ok_or(VolumeError::Invalid("a view needs a userfaultfd"))?;
        // SAFETY: the addresses are the client's; calls on what it has not mapped or registered fail.
        let view = unsafe {
            View::new(Arc::clone(&faults.descriptor), request.a as usize, first, count, protection)
        };
        let view = Arc::new(view.of_other());
        memory.shared.pages().add(Arc::clone(&view));
        self.volume.hold(ino);
        let file = Arc::new(Held { volume: Arc::clone(&self.volume), ino, memory, _share: share });
        lock(&self.seen).insert(handle, Seen { file, view });
        Ok(())
    }

    /// Forgets a view; `None` if there is none of this handle. After it nobody puts bytes at its addresses, where the client may map another file
    /// next, and nobody holds its file.
    pub fn detach(&self, handle: u32) -> Option<()> {
        let seen = lock(&self.seen).remove(&handle)?;
        self.resolving.wait();
        seen.end();
        Some(())
    }

    /// Whether a view has this handle.
    pub fn has(&self, handle: u32) -> bool {
        lock(&self.seen).contains_key(&handle)
    }

    fn resolve_faults_of(&mut self, descriptor: OwnedFd) -> Result<()> {
        if self.faults.is_some() {
            return Err(VolumeError::Invalid("a client has one userfaultfd"));
        }
        // SAFETY: the descriptor was just received, and is given away here.
        let descriptor = Arc::new(unsafe { Userfaultfd::from_raw_fd(descriptor.into_raw_fd()) });
        let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC).map_err(failed("making an eventfd"))?);
        let mut faults = Faults { descriptor, stop, threads: Vec::new() };
        for _ in 0..FAULT_THREADS {
            let (volume, seen) = (Arc::clone(&self.volume), Arc::clone(&self.seen));
            let resolving = Arc::clone(&self.resolving);
            let (descriptor, stop) = (Arc::clone(&faults.descriptor), Arc::clone(&faults.stop));
            let thread = std::thread::Builder::new()
                .name("aq-volume-fault".into())
                .spawn(move || resolve_faults(&volume, &seen, &resolving, &descriptor, &stop))
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

impl Seen {
    fn end(&self) {
        self.file.memory.shared.pages().remove(&self.view);
    }
}

/// Whether a descriptor from a stranger is what it should be: calls on others could block, or do anything.
pub fn is_userfaultfd(descriptor: &OwnedFd) -> bool {
    let link = std::fs::read_link(format!("/proc/self/fd/{}", descriptor.as_raw_fd()));
    let is_one = link.is_ok_and(|target| target.as_os_str() == "anon_inode:[userfaultfd]");
    is_one && rustix::fs::fcntl_setfl(descriptor, rustix::fs::OFlags::NONBLOCK).is_ok()
}

impl Drop for Faults {
    fn drop(&mut self) {
        // It stays readable for all threads.
        let _ = rustix::io::write(&self.stop, &1u64.to_ne_bytes());
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Drop for Views {
    fn drop(&mut self) {
        drop(self.faults.take());
        lock(&self.seen).drain().for_each(|(_, seen)| seen.end());
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // Bytes that cannot be freed now are freed when the volume is opened next.
        let _ = self.volume.let_go(self.ino);
    }
}

/// Resolves faults until `stop` is readable.
fn resolve_faults(
    volume: &Volume,
    views: &Mutex<HashMap<u32, Seen>>,
    resolving: &Grace,
    descriptor: &Userfaultfd,
    stop: &OwnedFd,
) {
    loop {
        match descriptor.poll(stop.as_raw_fd(), -1) {
            // The faults of a client that has made its descriptor mute are its own trouble.
            Ok(ready) if ready.woken || ready.is_mute => return,
            Ok(_) => {}
            Err(_) => return,
        }
        let event = match descriptor.read_event() {
            Ok(Some(event)) => event,
            Ok(None) => continue,
            Err(_) => return,
        };
        let Event::PageFault { address, write, write_protected, .. } = event else { continue };
        let _look = resolving.look();
        let found =
            lock(views).values().find_map(|seen| seen.view.page_at(address).map(|page| (seen.clone(), page)));
        let Some((seen, index)) = found else { continue };
        let outcome = resolve_fault(volume, &seen, index, write || write_protected);
        // If the client is gone, nobody is left to tell.
        let _ = match outcome {
            Ok(()) => seen.view.wake(index),
            // Another process that may write the file takes its pages away: this one tries again.
            Err(VolumeError::System { errno: libc::EFAULT, .. }) => seen.view.wake(index),
            // The client gets SIGBUS.
            Err(_) => seen.view.poison(index),
        };
    }
}

/// Makes a page accessible through a view. A client says that its fault is that of a store; what it may store to, it does not say.
fn resolve_fault(volume: &Volume, seen: &Seen, index: u32, is_write: bool) -> Result<()> {
    if is_write && seen.view.access() == Protection::Read {
        return Err(VolumeError::PermissionDenied);
    }
    let pages = Pages::Shared(Arc::clone(seen.file.memory.shared.pages()));
    // What is asked for now and read later might come to an address that the client uses for another file by then.
    let nobody = |_, _| ();
    resolve(volume.core(), seen.file.ino, &pages, &seen.view, index, is_write, nobody).map(drop)
}
