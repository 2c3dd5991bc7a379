//! Volumes: make, open, connect, close, sync; and who this process is to them.
//!
//! | file | noun |
//! |---|---|
//! | `abi` | the structures of the header |
//! | `failure` | numbers of a volume's errors |
//! | `reach` | a volume in this process, or one that another process has |
//! | `names` | what is done by path |
//! | `file` | open files |
//! | `bounce` | bytes on their way between files and the caller's memory |
//! | `mapping` | files as memory |

mod abi;
mod bounce;
mod failure;
mod file;
mod mapping;
mod names;
mod reach;

use std::ffi::{c_char, c_int};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use aquifer::ErrorCode;
use aquifer_status::Server;
use aquifer_volume::access::Credentials;
use aquifer_volume::serve::Client;
use aquifer_volume::{Background, Depth, Volume, VolumeError, image};

use crate::abi::path;
use crate::forks;
use crate::heap::null;
use crate::message::{self, fail_with};
use crate::sized;
use crate::status::answer_at;
use abi::{AqSpace, AqVolumeOptions};
use reach::Reach;

/// `aq_volume`
pub struct AqVolume {
    // Dropped first: it answers for the volume.
    _server: Option<Server>,
    reach: Reach,
    /// Forks before it was opened.
    forks: usize,
    /// Drops pages and commits where nobody waits for it, if the volume is this process's.
    background: Option<Background>,
}

/// As `aquifer volume serve` and `mount` do by default.
const COMMIT_INTERVAL: Duration = Duration::from_secs(5);

/// User and group of this process, who own the first folder of a volume that it makes.
fn owner() -> (u32, u32) {
    // SAFETY: the calls have no arguments and cannot fail.
    unsafe { (libc::geteuid(), libc::getegid()) }
}

/// User, group and further groups of this process.
fn credentials() -> Result<Credentials, c_int> {
    let (uid, gid) = owner();
    // SAFETY: nothing is written for a size of 0.
    let count = unsafe { libc::getgroups(0, std::ptr::null_mut()) };
    let mut groups = vec![0; usize::try_from(count).unwrap_or(0)];
    // SAFETY: the list has room for as many as are said.
    let filled = unsafe { libc::getgroups(count.max(0), groups.as_mut_ptr()) };
    if count < 0 || filled < 0 {
        let sentence = format!("asking for the groups of this process: {}", io::Error::last_os_error());
        return Err(fail_with(ErrorCode::Io, &sentence));
    }
    groups.truncate(filled as usize);
    Ok(Credentials::new(uid, gid, groups))
}

/// The number of an outcome whose message was kept.
fn number(outcome: Result<(), c_int>) -> c_int {
    outcome.err().unwrap_or(0)
}

fn fail_null(what: &str) -> c_int {
    message::fail(&null(what))
}

/// The number of an error in a child of the process that opened it: two processes must not append to the same log.
fn ensure_not_forked(forks: usize) -> Result<(), c_int> {
    if forks::count() == forks {
        return Ok(());
    }
    let sentence = "the volume is open in the parent of this process; use it there, or exec";
    Err(fail_with(ErrorCode::Forked, sentence))
}

/// What `run` makes of a volume.
///
/// # Safety
/// `volume` is NULL, or was made by `aq_volume_open` or `aq_volume_connect` and is not closed.
unsafe fn with(volume: *mut AqVolume, run: impl FnOnce(&AqVolume) -> Result<(), c_int>) -> c_int {
    // SAFETY: the caller says so.
    let Some(volume) = (unsafe { volume.as_ref() }) else { return fail_null("volume") };
    number(ensure_not_forked(volume.forks).and_then(|()| run(volume)))
}

/// # Safety
/// As the header says.
unsafe fn image_path(text: *const c_char) -> Result<PathBuf, c_int> {
    // SAFETY: NULL, or the caller's string.
    let path = unsafe { path(text) };
    path.ok_or_else(|| fail_with(ErrorCode::Invalid, "path is NULL or empty"))
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aq_volume_options_init(options: *mut AqVolumeOptions, struct_bytes: usize) {
    // SAFETY: passed on to the caller.
    unsafe { sized::init(options, struct_bytes) };
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aq_volume_create(path: *const c_char, size_bytes: u64, segment_bytes: u64) -> c_int {
    // SAFETY: passed on to the caller.
    let outcome = unsafe { image_path(path) }.and_then(|path| {
        let made = image::new_medium(&path, size_bytes, segment_bytes)
            .and_then(|medium| Volume::create(medium, owner()));
        made.map_err(|error| failure::fail_at(path.as_os_str().as_encoded_bytes(), &error))
    });
    number(outcome)
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aq_volume_open(
    path: *const c_char,
    options: *const AqVolumeOptions,
    volume: *mut *mut AqVolume,
) -> c_int {
    if volume.is_null() {
        return fail_null("volume");
    }
    // SAFETY: passed on to the caller.
    let opened = unsafe { open(path, options) };
    // SAFETY: checked above.
    number(opened.map(|opened| unsafe { *volume = Box::into_raw(Box::new(opened)) }))
}

/// # Safety
/// As the header says.
unsafe fn open(path: *const c_char, options: *const AqVolumeOptions) -> Result<AqVolume, c_int> {
    // SAFETY: passed on to the caller.
    let path = unsafe { image_path(path) }?;
    // SAFETY: NULL, or the caller's options.
    let given = unsafe { sized::read(options) }.map_err(|error| message::fail(&error))?;
    // SAFETY: the caller's options, in which the path is NULL or a string.
    let (options, socket) = (given.to_options(), unsafe { given.socket() });
    let forks = forks::count();
    let who = credentials()?;
    let start = |volume: Volume| {
        let background = volume.start_background(COMMIT_INTERVAL)?;
        Ok((Arc::new(volume), Some(background)))
    };
    let (volume, background) = image::open_medium(&path)
        .and_then(|medium| Volume::open(medium, options))
        .and_then(start)
        .map_err(|error| failure::fail_at(path.as_os_str().as_encoded_bytes(), &error))?;
    let server = answer_at(socket, |path| volume.answer_at(path))?;
    Ok(AqVolume { _server: server, reach: Reach::Own { volume, who }, forks, background })
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aq_volume_connect(socket_path: *const c_char, volume: *mut *mut AqVolume) -> c_int {
    if volume.is_null() {
        return fail_null("volume");
    }
    // SAFETY: passed on to the caller.
    let connected = unsafe { connect(socket_path) };
    // SAFETY: checked above.
    number(connected.map(|connected| unsafe { *volume = Box::into_raw(Box::new(connected)) }))
}

/// # Safety
/// As the header says.
unsafe fn connect(socket_path: *const c_char) -> Result<AqVolume, c_int> {
    // SAFETY: passed on to the caller.
    let path = unsafe { image_path(socket_path) }?;
    let forks = forks::count();
    let client = Client::connect(&path)
        .map_err(|error| failure::fail_at(path.as_os_str().as_encoded_bytes(), &error))?;
    Ok(AqVolume { _server: None, reach: Reach::Served(client), forks, background: None })
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aq_volume_close(volume: *mut AqVolume) -> c_int {
    let is_free = |opened: &AqVolume| {
        if opened.reach.is_free() {
            return Ok(());
        }
        let sentence = "files of the volume are open or mapped; close and unmap them, then close the volume";
        Err(fail_with(ErrorCode::Busy, sentence))
    };
    // SAFETY: passed on to the caller.
    let code = unsafe { with(volume, is_free) };
    if code != 0 {
        return code;
    }
    // SAFETY: made by aq_volume_open or aq_volume_connect, and the caller does not use it again.
    let opened = unsafe { Box::from_raw(volume) };
    drop(opened.background);
    // Nobody else has it, as was just seen.
    number(opened.reach.close().map_err(failed))
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aq_volume_sync(volume: *mut AqVolume) -> c_int {
    // SAFETY: passed on to the caller.
    unsafe { with(volume, |volume| volume.reach.sync().map_err(failed)) }
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aq_volume_space(volume: *mut AqVolume, space: *mut AqSpace) -> c_int {
    let look = |volume: &AqVolume| {
        if space.is_null() {
            return Err(fail_null("space"));
        }
        let found = volume.reach.space().map_err(failed)?;
        // SAFETY: the caller's structure, whose first field is its size.
        unsafe { sized::write(space, "aq_space", |room| AqSpace::new(room, &found)) }
            .map_err(|error| message::fail(&error))
    };
    // SAFETY: passed on to the caller.
    unsafe { with(volume, look) }
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aq_volume_check(volume: *mut AqVolume) -> c_int {
    // SAFETY: passed on to the caller.
    unsafe { with(volume, |volume| check(&volume.reach)) }
}

fn check(reach: &Reach) -> Result<(), c_int> {
    let Reach::Own { volume, .. } = reach else {
        let sentence = "the volume is checked by the process that has it; or, when that has ended, by `aquifer volume check VOLUME`";
        return Err(fail_with(ErrorCode::Permission, sentence));
    };
    let found = volume.check(Depth::Contents, |_, _| ()).map_err(failed)?;
    let Some(first) = found.problems.first() else { return Ok(()) };
    let code = if found.damaged.is_empty() { ErrorCode::Invariant } else { ErrorCode::Corrupt };
    let sentence = format!("{} things are wrong with the volume; the first: {first}", found.problems.len());
    Err(fail_with(code, &sentence))
}

/// The number of an error of the volume.
fn failed(error: VolumeError) -> c_int {
    failure::fail(&error)
}

/// The number of an error of the volume, of a file at `path` in it.
fn failed_at(path: &[u8]) -> impl Fn(VolumeError) -> c_int {
    move |error| failure::fail_at(path, &error)
}
