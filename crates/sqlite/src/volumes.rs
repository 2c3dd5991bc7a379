//! Volumes that are open in this process, and whose file a name means.
//!
//! A volume is opened by the first file in it and closed with the last, so that other programs can have it between. A process has each volume once,
//! whatever number of connections use it.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString, c_char};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError, TryLockError, Weak};

use aquifer_base::units::parse_size;
use aquifer_status::Server;
use aquifer_volume::{Ino, OpenOptions, Result, Volume, VolumeError, image};

use crate::api::api;
use crate::codes;
use crate::file::Shared;

/// A volume that is open in this process.
pub struct OpenVolume {
    _server: Option<Server>,
    path: PathBuf,
    volume: Arc<Volume>,
    files: Mutex<HashMap<Ino, Weak<Shared>>>,
    /// Held while a name is looked up and its file held, or while the name goes.
    naming: Mutex<()>,
    /// Whether a program asked for anything to be durable since the last removal of a file.
    is_durable: AtomicBool,
    process: u32,
}

/// The names of a main database that is open: SQLite asks for its journal and its log by the same pointers.
struct Database {
    pointers: [usize; 3],
    path: Vec<u8>,
}

struct Entry {
    volume: Arc<OpenVolume>,
    leases: usize,
    databases: Vec<Database>,
}

static VOLUMES: Mutex<Vec<Entry>> = Mutex::new(Vec::new());

/// Counts forks: children have another number than their parent.
static PROCESS: AtomicU32 = AtomicU32::new(0);

fn volumes() -> MutexGuard<'static, Vec<Entry>> {
    VOLUMES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The right to use a volume, which stays open as long as there is one.
pub struct Lease {
    /// `None` only when it is over.
    volume: Option<Arc<OpenVolume>>,
}

impl OpenVolume {
    /// The volume.
    ///
    /// # Errors
    /// [`VolumeError::Stopped`] in a process that was forked after the volume was opened: what it has is a copy of its parent's memory, not the volume.
    pub fn volume(&self) -> Result<&Arc<Volume>> {
        if self.is_ours() {
            Ok(&self.volume)
        } else {
            Err(VolumeError::Stopped("the volume was opened before this process was forked".into()))
        }
    }

    fn is_ours(&self) -> bool {
        self.process == PROCESS.load(Ordering::Relaxed)
    }

    /// What connections to a file share.
    pub fn shared(&self, ino: Ino) -> Arc<Shared> {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(shared) = files.get(&ino).and_then(Weak::upgrade) {
            return shared;
        }
        files.retain(|_, shared| shared.strong_count() > 0);
        let shared = Arc::new(Shared::default());
        files.insert(ino, Arc::downgrade(&shared));
        shared
    }

    /// Nobody else looks names up, or removes one, while this is held.
    pub fn lock_naming(&self) -> MutexGuard<'_, ()> {
        self.naming.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes everything durable.
    ///
    /// # Errors
    /// As [`Volume::sync`].
    pub fn sync(&self) -> Result<()> {
        self.is_durable.store(true, Ordering::Relaxed);
        self.volume()?.sync()
    }

    /// Makes the removal of a file durable if `is_wanted`, or if anything was since the last removal. The removal of a journal ends a transaction; a
    /// program that has its transactions synced expects that their end is, too, which a journaling file system gives it at least when only the program
    /// dies.
    ///
    /// # Errors
    /// As [`Volume::sync`].
    pub fn sync_removal(&self, is_wanted: bool) -> Result<()> {
        if self.is_durable.swap(false, Ordering::Relaxed) || is_wanted {
            return self.volume()?.sync();
        }
        Ok(())
    }
}

impl std::ops::Deref for Lease {
    type Target = OpenVolume;

    fn deref(&self) -> &OpenVolume {
        self.volume.as_ref().expect("is there until it is dropped")
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let Some(volume) = self.volume.take() else { return };
        if !volume.is_ours() {
            // The parent's: closing it here would write to its flash.
            std::mem::forget(volume);
            return;
        }
        let mut volumes = volumes();
        let Some(at) = volumes.iter().position(|entry| Arc::ptr_eq(&entry.volume, &volume)) else { return };
        volumes[at].leases -= 1;
        if volumes[at].leases > 0 {
            return;
        }
        drop(volumes.swap_remove(at));
        // The registry stays locked until it is closed, so that nobody opens it meanwhile.
        if let Ok(open) = Arc::try_unwrap(volume)
            && let Ok(volume) = Arc::try_unwrap(open.volume)
            && let Err(error) = volume.close()
        {
            api().say(codes::IOERR, &format!("closing {}: {error}", open.path.display()));
        }
    }
}

/// Remembers the names of a main database until it is dropped.
pub struct Naming {
    pointer: usize,
}

impl Naming {
    /// Notes that the database at `path` was opened by the name at `name`.
    ///
    /// # Safety
    /// SQLite gave the name to open a main database.
    pub unsafe fn new(lease: &Lease, name: *const c_char, path: &[u8]) -> Self {
        // SAFETY: the caller's word; all three are in one block that lives as long as the file is open.
        let (journal, wal) = unsafe { ((api().filename_journal)(name), (api().filename_wal)(name)) };
        let pointers = [name as usize, journal as usize, wal as usize];
        let mut volumes = volumes();
        if let Some(entry) = volumes.iter_mut().find(|entry| is_of(entry, lease)) {
            entry.databases.push(Database { pointers, path: path.to_vec() });
        }
        Naming { pointer: name as usize }
    }
}

impl Drop for Naming {
    fn drop(&mut self) {
        for entry in volumes().iter_mut() {
            entry.databases.retain(|database| database.pointers[0] != self.pointer);
        }
    }
}

fn is_of(entry: &Entry, lease: &Lease) -> bool {
    lease.volume.as_ref().is_some_and(|volume| Arc::ptr_eq(&entry.volume, volume))
}

impl Database {
    /// Whether it is the one that a journal or log of that name belongs to.
    fn has(&self, path: &[u8]) -> bool {
        path.strip_prefix(&self.path[..]).is_some_and(|rest| rest.is_empty() || rest[0] == b'-')
    }
}

/// The volume that the environment names.
pub fn of_environment() -> Option<PathBuf> {
    std::env::var_os("AQUIFER_VOLUME").filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// The volume that has a file which SQLite names: that of the database it belongs to, else that of the environment; `None` if it is in none.
///
/// # Errors
/// As [`lease`].
pub fn of_name(name: *const c_char, path: &[u8]) -> Result<Option<Lease>> {
    let mut volumes = volumes();
    let by = |test: &dyn Fn(&Database) -> bool| {
        volumes.iter().position(|entry| entry.volume.is_ours() && entry.databases.iter().any(test))
    };
    let at = by(&|database| database.pointers.contains(&(name as usize)))
        .or_else(|| by(&|database| database.has(path)));
    if let Some(at) = at {
        return Ok(Some(lease_entry(&mut volumes[at])));
    }
    drop(volumes);
    of_environment().map(|path| lease(&path, Wishes::default())).transpose()
}

fn lease_entry(entry: &mut Entry) -> Lease {
    entry.leases += 1;
    Lease { volume: Some(Arc::clone(&entry.volume)) }
}

/// Whether this process has the volume at `path` open, or is a child of one that has.
pub fn is_open(path: &Path) -> bool {
    let Ok(path) = std::fs::canonicalize(path) else { return false };
    volumes().iter().any(|entry| entry.volume.path == path)
}

/// How a volume is opened. It counts only for who opens the volume first.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wishes<'a> {
    /// A size such as `64M`; without it the environment's `AQUIFER_VOLUME_RAM`.
    pub ram: Option<&'a [u8]>,
    /// Where `aquifer top` asks; without it the environment's `AQUIFER_VOLUME_SOCKET`.
    pub socket: Option<&'a [u8]>,
}

/// The volume in the file or block device at `path`, which is opened if need be.
///
/// # Errors
/// [`VolumeError::Invalid`] for a malformed size; those of [`Volume::open`]; [`VolumeError::System`] if the socket cannot be made.
pub fn lease(path: &Path, wishes: Wishes<'_>) -> Result<Lease> {
    let path = std::fs::canonicalize(path).map_err(|error| image::not_found(path, &error))?;
    let mut volumes = volumes();
    let known = volumes.iter_mut().find(|entry| entry.volume.is_ours() && entry.volume.path == path);
    if let Some(entry) = known {
        return Ok(lease_entry(entry));
    }
    watch_process();
    let options = OpenOptions { ram_bytes: ram_bytes(wishes.ram)?, is_read_only: false };
    let volume = Arc::new(Volume::open(image::open_medium(&path)?, options)?);
    let server = server_of(&volume, wishes.socket)?;
    let open = OpenVolume {
        _server: server,
        path,
        volume,
        files: Mutex::default(),
        naming: Mutex::default(),
        is_durable: AtomicBool::new(false),
        process: PROCESS.load(Ordering::Relaxed),
    };
    volumes.push(Entry { volume: Arc::new(open), leases: 0, databases: Vec::new() });
    Ok(lease_entry(volumes.last_mut().expect("was just pushed")))
}

/// What a URI says, or else a variable of the environment; `None` if that is empty.
fn said(in_uri: Option<&[u8]>, variable: &str) -> Option<OsString> {
    let text = in_uri.map(|text| OsStr::from_bytes(text).to_owned()).or_else(|| std::env::var_os(variable));
    text.filter(|text| !text.is_empty())
}

fn server_of(volume: &Volume, socket: Option<&[u8]>) -> Result<Option<Server>> {
    let Some(path) = said(socket, "AQUIFER_VOLUME_SOCKET") else { return Ok(None) };
    let failed = |error: std::io::Error| VolumeError::System {
        step: "making the socket for numbers",
        errno: error.raw_os_error().unwrap_or(libc::EINVAL),
    };
    volume.answer_at(Path::new(&path)).map(Some).map_err(failed)
}

fn ram_bytes(ram: Option<&[u8]>) -> Result<u64> {
    let Some(text) = said(ram, "AQUIFER_VOLUME_RAM") else { return Ok(OpenOptions::default().ram_bytes) };
    parse_size(&text.to_string_lossy())
        .map_err(|_| VolumeError::Invalid("RAM for a volume is a size such as 64M"))
}

/// Counts forks, and makes what was written durable when the process ends.
fn watch_process() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: both are functions of this library, which stays loaded.
        unsafe {
            libc::pthread_atfork(None, None, Some(note_fork));
            libc::atexit(sync_all);
        }
    });
}

extern "C" fn note_fork() {
    PROCESS.fetch_add(1, Ordering::Relaxed);
}

/// Connections that nobody closed: as with a file system, what they wrote without a sync outlives the process that ends in order.
extern "C" fn sync_all() {
    let volumes = match VOLUMES.try_lock() {
        Ok(volumes) => volumes,
        Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        Err(TryLockError::WouldBlock) => return,
    };
    for entry in volumes.iter().filter(|entry| entry.volume.is_ours()) {
        // Nobody is left who could be told.
        let _ = entry.volume.volume.sync();
    }
}
