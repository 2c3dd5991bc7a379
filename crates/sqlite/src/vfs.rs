//! The methods of the VFS.

use std::ffi::{CStr, OsStr, c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use aquifer_sys::stderr;
use aquifer_volume::{Kind, Result, VolumeError};

use crate::api::{api, told};
use crate::codes;
use crate::file::{File, Mode};
use crate::host::{self, host};
use crate::io::METHODS;
use crate::names;
use crate::raw::{RawFile, Vfs};
use crate::volumes::{self, Lease, Naming, Wishes};

/// The VFS's name.
pub const NAME: &CStr = c"aquifer";

/// The VFS in front of `host`, which has files that are in no volume.
pub fn vfs_over(host: &Vfs) -> Vfs {
    Vfs {
        version: 2,
        file_bytes: host.file_bytes.max(size_of::<RawFile>() as c_int),
        path_bytes_max: host.path_bytes_max.max(1024),
        next: std::ptr::null_mut(),
        name: NAME.as_ptr(),
        data: std::ptr::null_mut(),
        open,
        delete,
        access,
        full_pathname,
        dl_open: host.dl_open.map(|_| host::dl_open as _),
        dl_error: host.dl_error.map(|_| host::dl_error as _),
        dl_sym: host.dl_sym.map(|_| host::dl_sym as _),
        dl_close: host.dl_close.map(|_| host::dl_close as _),
        randomness: host::randomness,
        sleep: host::sleep,
        current_time: host::current_time,
        get_last_error: host.get_last_error.map(|_| host::get_last_error as _),
        current_time_int64: Some(host::current_time_int64),
    }
}

/// The bytes of a name.
///
/// # Safety
/// The name ends with a zero byte, and lives as long as it is used.
unsafe fn bytes<'a>(name: *const c_char) -> &'a [u8] {
    // SAFETY: the caller's word.
    unsafe { CStr::from_ptr(name) }.to_bytes()
}

unsafe extern "C" fn open(
    _vfs: *mut Vfs,
    name: *const c_char,
    raw: *mut RawFile,
    flags: c_int,
    flags_out: *mut c_int,
) -> c_int {
    // SAFETY: SQLite gives room for a file; without methods it is not open.
    unsafe { (*raw).methods = std::ptr::null() };
    // SAFETY: SQLite gives a name that it can tell the parameters of, or none.
    let opened = match unsafe { lease_of(name, flags) } {
        // SAFETY: as above.
        Ok(Some(lease)) => unsafe { open_in(lease, name, flags) },
        Ok(None) => {
            let (vfs, methods) = host();
            // SAFETY: what SQLite gave, passed on; there is room for the host's files.
            return unsafe { (methods.open)(vfs, name, raw, flags, flags_out) };
        }
        Err(error) => Err(error),
    };
    match opened {
        Ok(file) => {
            // SAFETY: SQLite gives room for a file, and for the flags if it wants them.
            unsafe {
                (*raw).opened = Box::into_raw(Box::new(file)).cast();
                (*raw).methods = &METHODS;
                if !flags_out.is_null() {
                    flags_out.write(flags);
                }
            }
            codes::OK
        }
        Err(error) => {
            say_once(&error);
            told(codes::code_of_open(&error), &error.to_string())
        }
    }
}

/// Says why the volume of the environment cannot be opened: SQLite keeps it for who has asked for its log, and tells the program only that it could not
/// open a file.
fn say_once(error: &VolumeError) {
    static IS_SAID: AtomicBool = AtomicBool::new(false);
    let Some(volume) = volumes::of_environment() else { return };
    if !volumes::is_open(&volume) && !IS_SAID.swap(true, Ordering::Relaxed) {
        let line = format!("aquifer: the volume {} cannot be opened: {error}\n", volume.display());
        stderr::write(line.as_bytes());
    }
}

/// The volume that has, or will have, the file; `None` if it is the host's.
///
/// # Safety
/// `name` and `flags` are those of `xOpen`.
unsafe fn lease_of(name: *const c_char, flags: c_int) -> Result<Option<Lease>> {
    if name.is_null() {
        return Ok(None);
    }
    if flags & codes::OPEN_MAIN_DB == 0 {
        // SAFETY: the caller's word.
        return volumes::of_name(name, unsafe { bytes(name) });
    }
    // SAFETY: the name is that of a main database.
    let parameter = |key: &CStr| unsafe { api().parameter(name, key) };
    let (ram, socket) = (parameter(c"ram"), parameter(c"socket"));
    let wishes = Wishes { ram: ram.as_deref(), socket: socket.as_deref() };
    if let Some(volume) = parameter(c"volume") {
        return volumes::lease(Path::new(OsStr::from_bytes(&volume)), wishes).map(Some);
    }
    if let Some(volume) = volumes::of_environment() {
        return volumes::lease(&volume, wishes).map(Some);
    }
    if parameter(c"vfs").is_some_and(|vfs| vfs == NAME.to_bytes()) {
        return Err(VolumeError::Invalid(
            "which volume? add volume=PATH to the URI of the database, or set AQUIFER_VOLUME",
        ));
    }
    Ok(None)
}

/// Opens a file of a volume.
///
/// # Safety
/// `name` and `flags` are those of `xOpen`.
unsafe fn open_in(lease: Lease, name: *const c_char, flags: c_int) -> Result<File> {
    let mode = Mode {
        may_make: flags & codes::OPEN_CREATE != 0,
        must_make: flags & codes::OPEN_EXCLUSIVE != 0,
        is_temporary: flags & codes::OPEN_DELETEONCLOSE != 0,
        is_read_only: flags & codes::OPEN_READWRITE == 0 && flags & codes::OPEN_READONLY != 0,
    };
    // SAFETY: the caller's word.
    let path = unsafe { bytes(name) };
    let is_database = flags & codes::OPEN_MAIN_DB != 0;
    // SAFETY: the name is that of a main database.
    let naming = is_database.then(|| unsafe { Naming::new(&lease, name, path) });
    let mut file = File::open(lease, path.to_vec(), mode)?;
    if let Some(naming) = naming {
        file.set_naming(naming);
        // SAFETY: as above.
        let is_powersafe = unsafe { api().parameter(name, c"psow") };
        file.is_powersafe = is_powersafe.is_none_or(|value| !is_no(&value));
    }
    Ok(file)
}

/// Whether SQLite takes the value of a parameter for a no.
fn is_no(value: &[u8]) -> bool {
    [&b"0"[..], b"no", b"off", b"false"].iter().any(|no| value.eq_ignore_ascii_case(no))
}

unsafe extern "C" fn delete(_vfs: *mut Vfs, name: *const c_char, is_synced: c_int) -> c_int {
    // SAFETY: SQLite gives a name.
    let path = unsafe { bytes(name) };
    match volumes::of_name(name, path)
        .and_then(|lease| lease.map(|lease| remove(&lease, path, is_synced != 0)).transpose())
    {
        Ok(Some(())) => codes::OK,
        Ok(None) => {
            let (vfs, methods) = host();
            // SAFETY: what SQLite gave, passed on.
            unsafe { (methods.delete)(vfs, name, is_synced) }
        }
        // SQLite does not mind, and should not hear of it as an error.
        Err(VolumeError::NotFound) => codes::IOERR_DELETE_NOENT,
        Err(error) => told(codes::code_of(&error, codes::IOERR_DELETE), &error.to_string()),
    }
}

fn remove(lease: &Lease, path: &[u8], is_synced: bool) -> Result<()> {
    let volume = lease.volume()?;
    {
        let _naming = lease.lock_naming();
        let place = names::find(volume, path)?;
        volume.unlink(place.folder, &place.name)?;
    }
    lease.sync_removal(is_synced)
}

unsafe extern "C" fn access(_vfs: *mut Vfs, name: *const c_char, kind: c_int, answer: *mut c_int) -> c_int {
    // SAFETY: SQLite gives a name.
    let path = unsafe { bytes(name) };
    match volumes::of_name(name, path)
        .and_then(|lease| lease.map(|lease| is_there(&lease, path, kind)).transpose())
    {
        Ok(Some(is_there)) => {
            // SAFETY: SQLite gives a place for the answer.
            unsafe { answer.write(is_there.into()) };
            codes::OK
        }
        Ok(None) => {
            let (vfs, methods) = host();
            // SAFETY: what SQLite gave, passed on.
            unsafe { (methods.access)(vfs, name, kind, answer) }
        }
        Err(error) => told(codes::code_of(&error, codes::IOERR_ACCESS), &error.to_string()),
    }
}

/// Whether there is a file. If only that is asked, an empty one counts as none, as SQLite's own VFS has it: a journal that was made and never written
/// is no reason to repair a database.
fn is_there(lease: &Lease, path: &[u8], kind: c_int) -> Result<bool> {
    let volume = lease.volume()?;
    let found = match names::find(volume, path) {
        Err(VolumeError::NotFound | VolumeError::NotAFolder) => None,
        Err(VolumeError::IsAFolder) => return Ok(true),
        outcome => outcome?.target,
    };
    Ok(match found {
        Some((ino, Kind::File)) => kind != codes::ACCESS_EXISTS || volume.inode(ino)?.size_bytes > 0,
        found => found.is_some(),
    })
}

/// With a volume for all files a name begins at its root. Else it is one of the host's, and a database that names its volume by `volume=` has the same
/// name in there.
unsafe extern "C" fn full_pathname(
    _vfs: *mut Vfs,
    name: *const c_char,
    len: c_int,
    full: *mut c_char,
) -> c_int {
    if volumes::of_environment().is_none() {
        let (vfs, methods) = host();
        // SAFETY: what SQLite gave, passed on.
        return unsafe { (methods.full_pathname)(vfs, name, len, full) };
    }
    // SAFETY: SQLite gives a name.
    let found = names::full(unsafe { bytes(name) });
    if found.len() >= len as usize {
        return told(codes::CANTOPEN, "the name is too long");
    }
    // SAFETY: SQLite gives a buffer of that length, which is longer than the name.
    unsafe {
        full.copy_from_nonoverlapping(found.as_ptr().cast(), found.len());
        full.add(found.len()).write(0);
    }
    codes::OK
}
