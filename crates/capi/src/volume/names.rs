//! What is done by path.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ops::ControlFlow;

use aquifer::ErrorCode;
use aquifer_volume::path::Last;
use aquifer_volume::{IfTaken, Listed};

use super::abi::{AqEntry, AqInode, kind_number};
use super::{AqVolume, fail_null, failed_at, with};
use crate::message::{self, fail_with};
use crate::sized;

/// A copy of the caller's string, which may lie in a mapped file (see `bounce`).
///
/// # Safety
/// `text` is NULL or ends with a zero byte.
pub(super) unsafe fn path_bytes(text: *const c_char, what: &str) -> Result<Vec<u8>, c_int> {
    if text.is_null() {
        return Err(fail_null(what));
    }
    // SAFETY: the caller says so.
    Ok(unsafe { CStr::from_ptr(text) }.to_bytes().to_vec())
}

/// What `run` makes of a volume and a path.
///
/// # Safety
/// As of [`with`] and [`path_bytes`].
unsafe fn with_path(
    volume: *mut AqVolume,
    path: *const c_char,
    run: impl FnOnce(&AqVolume, &[u8]) -> Result<(), c_int>,
) -> c_int {
    // SAFETY: passed on to the caller.
    unsafe { with(volume, |volume| run(volume, &path_bytes(path, "path")?)) }
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aq_volume_make_folder(
    volume: *mut AqVolume,
    path: *const c_char,
    mode: c_uint,
) -> c_int {
    let make = |volume: &AqVolume, path: &[u8]| {
        volume.reach.make_folder(path, (mode & 0o7777) as u16).map_err(failed_at(path))
    };
    // SAFETY: passed on to the caller.
    unsafe { with_path(volume, path, make) }
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aq_volume_remove(volume: *mut AqVolume, path: *const c_char) -> c_int {
    let remove = |volume: &AqVolume, path: &[u8]| volume.reach.remove(path).map_err(failed_at(path));
    // SAFETY: passed on to the caller.
    unsafe { with_path(volume, path, remove) }
}

fn to_if_taken(number: c_int) -> Result<IfTaken, c_int> {
    match number {
        0 => Ok(IfTaken::Replace),
        1 => Ok(IfTaken::Fail),
        2 => Ok(IfTaken::Exchange),
        other => {
            let sentence = format!("if_taken is {other}; see enum aq_if_taken");
            Err(fail_with(ErrorCode::Invalid, &sentence))
        }
    }
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aq_volume_rename(
    volume: *mut AqVolume,
    path: *const c_char,
    new_path: *const c_char,
    if_taken: c_int,
) -> c_int {
    let rename = |volume: &AqVolume, path: &[u8]| {
        // SAFETY: NULL, or the caller's string.
        let new_path = unsafe { path_bytes(new_path, "new_path") }?;
        volume.reach.rename(path, &new_path, to_if_taken(if_taken)?).map_err(failed_at(path))
    };
    // SAFETY: passed on to the caller.
    unsafe { with_path(volume, path, rename) }
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aq_volume_link(
    volume: *mut AqVolume,
    path: *const c_char,
    new_path: *const c_char,
) -> c_int {
    let link = |volume: &AqVolume, path: &[u8]| {
        // SAFETY: NULL, or the caller's string.
        let new_path = unsafe { path_bytes(new_path, "new_path") }?;
        volume.reach.link(path, &new_path).map_err(failed_at(path))
    };
    // SAFETY: passed on to the caller.
    unsafe { with_path(volume, path, link) }
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aq_volume_symlink(
    volume: *mut AqVolume,
    target: *const c_char,
    path: *const c_char,
) -> c_int {
    let make = |volume: &AqVolume, path: &[u8]| {
        // SAFETY: NULL, or the caller's string.
        let target = unsafe { path_bytes(target, "target") }?;
        volume.reach.make_symlink(&target, path).map_err(failed_at(path))
    };
    // SAFETY: passed on to the caller.
    unsafe { with_path(volume, path, make) }
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aq_volume_read_link(
    volume: *mut AqVolume,
    path: *const c_char,
    buffer: *mut c_char,
    len: usize,
) -> c_int {
    let read = |volume: &AqVolume, path: &[u8]| {
        if buffer.is_null() {
            return Err(fail_null("buffer"));
        }
        let target = volume.reach.read_link(path).map_err(failed_at(path))?;
        if target.len() >= len {
            let sentence = format!("the buffer has {len} bytes, {} are needed", target.len() + 1);
            return Err(fail_with(ErrorCode::Invalid, &sentence));
        }
        // SAFETY: the caller's buffer has more bytes than that.
        unsafe {
            std::ptr::copy_nonoverlapping(target.as_ptr(), buffer.cast(), target.len());
            *buffer.add(target.len()) = 0;
        }
        Ok(())
    };
    // SAFETY: passed on to the caller.
    unsafe { with_path(volume, path, read) }
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aq_volume_stat(
    volume: *mut AqVolume,
    path: *const c_char,
    follow: c_int,
    inode: *mut AqInode,
) -> c_int {
    let stat = |volume: &AqVolume, path: &[u8]| {
        if inode.is_null() {
            return Err(fail_null("inode"));
        }
        let last = if follow == 0 { Last::Keep } else { Last::Follow };
        let (ino, found) = volume.reach.stat(path, last).map_err(failed_at(path))?;
        // SAFETY: the caller's structure, whose first field is its size.
        unsafe { sized::write(inode, "aq_inode", |room| AqInode::new(room, ino, &found)) }
            .map_err(|error| message::fail(&error))
    };
    // SAFETY: passed on to the caller.
    unsafe { with_path(volume, path, stat) }
}

/// What is called for each entry; a number other than 0 ends the listing.
type Visit = unsafe extern "C" fn(entry: *const AqEntry, context: *mut c_void) -> c_int;

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aq_volume_list(
    volume: *mut AqVolume,
    path: *const c_char,
    visit: Option<Visit>,
    context: *mut c_void,
) -> c_int {
    let list = |volume: &AqVolume, path: &[u8]| {
        let Some(visit) = visit else { return Err(fail_null("visit")) };
        // The volume calls this while it holds no lock, so that `visit` can use the volume.
        let one = |listed: Listed<'_>| {
            let name = [listed.name, &[0]].concat();
            let entry = AqEntry {
                name: name.as_ptr().cast(),
                name_bytes: listed.name.len(),
                ino: listed.ino.0.into(),
                kind: kind_number(listed.kind),
                zero: 0,
            };
            // SAFETY: the caller's function, which is as the header says.
            match unsafe { visit(&raw const entry, context) } {
                0 => ControlFlow::Continue(()),
                _ => ControlFlow::Break(()),
            }
        };
        volume.reach.list(path, one).map_err(failed_at(path))
    };
    // SAFETY: passed on to the caller.
    unsafe { with_path(volume, path, list) }
}
