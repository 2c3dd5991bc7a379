//! The block device, from its beginning to its end.
//!
//! 1. A device is made, which has a number and a file of its own (`/dev/ublkcN`), and nobody sees.
//! 2. The kernel is told what it is like.
//! 3. A thread for each queue waits for requests.
//! 4. It is started: `/dev/ublkbN` appears, and the kernel looks for partitions on it.
//! 5. It is stopped: `/dev/ublkbN` is gone, and the threads end.
//! 6. It is taken away. Its number is free when the last one who has its file open closes it.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use aquifer_device::Device;

use super::abi::{ANY_ID, DeviceInfo, FLAG_ENCODED_COMMANDS};
use super::control::Control;
use super::error::UblkError;
use super::leftovers;
use super::parameters::{TRANSFER_BYTES_MAX, parameters_of};
use super::queue::Queue;
use super::transfer::{DEPTH, Transfer};
use crate::Report;

/// Stack of each thread. Little, because a process whose memory is locked pays for all of it.
const STACK_BYTES: usize = 256 << 10;

/// How a device is shown.
pub struct Options {
    /// Queues, each with a thread and 16 MiB of memory; the kernel makes no more than there are processors.
    pub threads: u16,
    /// Where sentences about the device go.
    pub report: Report,
    /// Called when the device ends although nobody here has [ended](Shown::end) it.
    pub on_gone: Arc<dyn Fn() + Send + Sync>,
}

/// A device that the kernel shows.
pub struct Shown {
    device: Arc<dyn Device>,
    control: Mutex<Control>,
    id: u32,
    path: PathBuf,
    threads: Vec<JoinHandle<()>>,
    is_ending: Arc<AtomicBool>,
}

/// What a thread has beside its queue.
struct Worker {
    queue: u16,
    depth: u16,
    file: File,
    transfer: Arc<Transfer>,
    is_ending: Arc<AtomicBool>,
    report: Report,
    on_gone: Arc<dyn Fn() + Send + Sync>,
}

impl Shown {
    /// Shows `device` as a block device.
    ///
    /// # Errors
    /// [`UblkError`]; nothing stays.
    pub fn new(device: Arc<dyn Device>, options: &Options) -> Result<Self, UblkError> {
        let mut control = Control::open()?;
        leftovers::clear(&mut control);
        let info = control.add(DeviceInfo {
            queues: options.threads.max(1),
            depth: DEPTH as u16,
            buffer_bytes_max: TRANSFER_BYTES_MAX,
            id: ANY_ID,
            flags: FLAG_ENCODED_COMMANDS,
            mark: leftovers::mark(),
            ..DeviceInfo::default()
        })?;
        // From here on its end takes away what was made.
        let mut shown = Shown {
            device,
            control: Mutex::new(control),
            id: info.id,
            path: PathBuf::from(format!("/dev/ublkb{}", info.id)),
            threads: Vec::new(),
            is_ending: Arc::default(),
        };
        shown.control().set(info.id, &parameters_of(&*shown.device))?;
        shown.serve_queues(&info, options)?;
        shown.control().start(info.id)?;
        Ok(shown)
    }

    /// The block device's file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Sees whether it is a swap area, is mounted, or is part of something else.
    ///
    /// # Errors
    /// [`UblkError::InUse`].
    pub fn check_unused(&self) -> Result<(), UblkError> {
        let alone = OpenOptions::new().read(true).custom_flags(libc::O_EXCL).open(&self.path);
        match alone {
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
                Err(UblkError::InUse(self.path.clone()))
            }
            // Nobody can use what cannot be opened.
            _ => Ok(()),
        }
    }

    /// Takes the device away, also from those who use it: they get errors. Requests that have begun are answered.
    ///
    /// # Errors
    /// [`UblkError::Device`], or the kernel's.
    ///
    /// # Durability
    /// Everything is durable when this returns without an error.
    pub fn end(mut self) -> Result<(), UblkError> {
        let removed = self.remove();
        self.device.sync()?;
        removed
    }

    /// Starts a thread for each queue, and waits until all are ready.
    fn serve_queues(&mut self, info: &DeviceInfo, options: &Options) -> Result<(), UblkError> {
        let path = PathBuf::from(format!("/dev/ublkc{}", info.id));
        let opened = OpenOptions::new().read(true).write(true).open(&path);
        // The kernel lets one file be opened; the others are copies of it.
        let file = opened.map_err(|source| UblkError::Node { path, source })?;
        let transfer = Arc::new(Transfer::new(Arc::clone(&self.device), Arc::clone(&options.report)));
        let (ready, are_ready) = channel();
        for queue in 0..info.queues {
            let failed = |source| UblkError::Queue { queue, source };
            let worker = Worker {
                queue,
                depth: info.depth,
                file: file.try_clone().map_err(failed)?,
                transfer: Arc::clone(&transfer),
                is_ending: Arc::clone(&self.is_ending),
                report: Arc::clone(&options.report),
                on_gone: Arc::clone(&options.on_gone),
            };
            let ready = ready.clone();
            let builder = thread::Builder::new().name("aq-block-ublk".into()).stack_size(STACK_BYTES);
            self.threads.push(builder.spawn(move || worker.work(ready)).map_err(failed)?);
        }
        drop(ready);
        are_ready.iter().try_for_each(|(queue, outcome): (u16, io::Result<()>)| {
            outcome.map_err(|source| UblkError::Queue { queue, source })
        })
    }

    /// Stops the device, waits for its threads, and takes it away.
    fn remove(&mut self) -> Result<(), UblkError> {
        if self.is_ending.swap(true, SeqCst) {
            return Ok(());
        }
        let stopped = self.control().stop(self.id);
        for thread in self.threads.drain(..) {
            // Why it panicked was said.
            let _ = thread.join();
        }
        let deleted = self.control().delete(self.id);
        match stopped.and(deleted) {
            // Somebody else may have done either.
            Err(UblkError::Command { source, .. }) if source.raw_os_error() == Some(libc::ENODEV) => Ok(()),
            outcome => outcome,
        }
    }

    fn control(&self) -> MutexGuard<'_, Control> {
        self.control.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        // Nobody is left to hear that something stays; the next process of ours takes it away.
        let _ = self.remove();
    }
}

impl Worker {
    fn work(self, ready: Sender<(u16, io::Result<()>)>) {
        let queue = match Queue::new(self.file, self.queue, self.depth, &self.transfer) {
            Ok(queue) => queue,
            Err(error) => return ready.send((self.queue, Err(error))).unwrap_or_default(),
        };
        // The thread that waits for the answer may have given up.
        let _ = ready.send((self.queue, Ok(())));
        // And waits until nobody can say more.
        drop(ready);
        if let Err(error) = queue.run() {
            (self.report)(&format!("queue {} ended: {error}", self.queue));
        }
        if !self.is_ending.load(SeqCst) {
            (self.on_gone)();
        }
    }
}
