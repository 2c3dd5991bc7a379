//! What SQLite says about a file besides reading and writing it (`xFileControl`).

use std::ffi::{c_char, c_int, c_void};

use aquifer_volume::VolumeError;

use crate::api::{api, told};
use crate::codes;
use crate::file::{Batch, File};
use crate::raw::Int64;
use crate::vfs::NAME;

/// Carries out a control.
///
/// # Safety
/// `argument` is what `sqlite3.h` says of `control`.
pub unsafe fn control(file: &mut File, control: c_int, argument: *mut c_void) -> c_int {
    match control {
        codes::FCNTL_LOCKSTATE => {
            // SAFETY: the argument is an int.
            unsafe { argument.cast::<c_int>().write(file.level as c_int) };
            codes::OK
        }
        // A volume has no use for sizes in advance: room is given out page by page.
        codes::FCNTL_SIZE_HINT | codes::FCNTL_CHUNK_SIZE => codes::OK,
        codes::FCNTL_PERSIST_WAL => {
            // SAFETY: the argument is an int.
            unsafe { get_or_set(argument, &mut file.keeps_wal) };
            codes::OK
        }
        codes::FCNTL_POWERSAFE_OVERWRITE => {
            // SAFETY: the argument is an int.
            unsafe { get_or_set(argument, &mut file.is_powersafe) };
            codes::OK
        }
        codes::FCNTL_VFSNAME => {
            // SAFETY: the argument is a pointer to a string that SQLite frees.
            unsafe { argument.cast::<*mut c_char>().write(api().copy(NAME)) };
            codes::OK
        }
        codes::FCNTL_MMAP_SIZE => {
            let argument = argument.cast::<Int64>();
            // SAFETY: the argument is a limit in bytes, negative to ask for the one that holds; it is answered with what held before.
            unsafe {
                let wanted = argument.read();
                argument.write(file.mapped().limit_bytes() as Int64);
                if let Ok(wanted) = u64::try_from(wanted) {
                    file.mapped().set_limit(wanted);
                }
            }
            codes::OK
        }
        codes::FCNTL_HAS_MOVED => match file.has_moved() {
            Ok(has_moved) => {
                // SAFETY: the argument is an int.
                unsafe { argument.cast::<c_int>().write(has_moved.into()) };
                codes::OK
            }
            Err(error) => told(codes::code_of(&error, codes::IOERR_FSTAT), &error.to_string()),
        },
        codes::FCNTL_EXTERNAL_READER => {
            // SAFETY: the argument is an int. No other process has the volume.
            unsafe { argument.cast::<c_int>().write(0) };
            codes::OK
        }
        codes::FCNTL_BEGIN_ATOMIC_WRITE if file.batch.is_some() => codes::IOERR_BEGIN_ATOMIC,
        codes::FCNTL_BEGIN_ATOMIC_WRITE => {
            file.batch = Some(Batch::default());
            codes::OK
        }
        codes::FCNTL_COMMIT_ATOMIC_WRITE => commit(file),
        codes::FCNTL_ROLLBACK_ATOMIC_WRITE => {
            file.batch = None;
            codes::OK
        }
        _ => codes::NOTFOUND,
    }
}

/// After an error SQLite takes the way of a journal; a full volume would not have room for that either.
fn commit(file: &mut File) -> c_int {
    match file.write_batch() {
        Ok(()) => codes::OK,
        Err(VolumeError::Invalid(_)) => codes::IOERR_COMMIT_ATOMIC,
        Err(error) => told(codes::code_of(&error, codes::IOERR_COMMIT_ATOMIC), &error.to_string()),
    }
}

/// SQLite asks with a negative number, and is told; another number is the new value.
///
/// # Safety
/// `argument` is an int.
unsafe fn get_or_set(argument: *mut c_void, value: &mut bool) {
    let argument = argument.cast::<c_int>();
    // SAFETY: the caller's word.
    unsafe {
        match *argument {
            ..0 => *argument = (*value).into(),
            wanted => *value = wanted != 0,
        }
    }
}
