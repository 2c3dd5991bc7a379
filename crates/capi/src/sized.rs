//! Structures that the program and the library know in different lengths: each begins with its size in the program, `struct_bytes`.
//!
//! Fields are only added at the end, at a multiple of 8 bytes, and 0 means what was before there was the field. So an older program works with a newer
//! library: nothing is read or written behind its structure. A newer one works with an older library, unless it sets a field that is unknown
//! there.

use std::mem::MaybeUninit;

use aquifer::Error;

/// Bytes of the smallest structure: its size, and one field.
const BYTES_MIN: usize = 16;
/// Bytes of the largest. What is larger was never initialised.
const BYTES_MAX: usize = 4096;

/// Options: 0 or NULL in a field means the default.
///
/// # Safety
/// `repr(C)`, begins with its size as `usize`, and may have all bytes 0.
pub(crate) unsafe trait SizedOptions: Sized {
    /// Its name in the header.
    const NAME: &'static str;
}

/// Makes all fields of the program's structure 0, and sets its size.
///
/// # Safety
/// `out` is NULL or has `struct_bytes` bytes.
pub(crate) unsafe fn init<T: SizedOptions>(out: *mut T, struct_bytes: usize) {
    if !out.is_null() && struct_bytes >= size_of::<usize>() {
        // SAFETY: the caller says so.
        unsafe { out.cast::<u8>().write_bytes(0, struct_bytes) };
        // SAFETY: it has room for its size.
        unsafe { out.cast::<usize>().write_unaligned(struct_bytes) };
    }
}

/// What a program gives, with 0 in fields that it does not know. NULL is all 0.
///
/// # Errors
/// [`Error::Invalid`] if it was not initialised, or has something in fields that are unknown here.
///
/// # Safety
/// `given` is NULL, or has as many bytes as it says.
pub(crate) unsafe fn read<T: SizedOptions>(given: *const T) -> Result<T, Error> {
    let mut options = MaybeUninit::<T>::zeroed();
    if !given.is_null() {
        // SAFETY: it begins with its size.
        let room = unsafe { given.cast::<usize>().read() };
        if !(BYTES_MIN..=BYTES_MAX).contains(&room) || !room.is_multiple_of(8) {
            return Err(Error::Invalid(format!("{0} was not filled by {0}_init", T::NAME)));
        }
        let (bytes, known) = (given.cast::<u8>(), room.min(size_of::<T>()));
        // SAFETY: the program's structure has `room` bytes, this one its own.
        unsafe { std::ptr::copy_nonoverlapping(bytes, options.as_mut_ptr().cast::<u8>(), known) };
        // SAFETY: as above.
        if (known..room).any(|at| unsafe { bytes.add(at).read() } != 0) {
            let why = format!("{} has a field that this version of the library does not know", T::NAME);
            return Err(Error::Invalid(why));
        }
    }
    // SAFETY: all bytes may be 0, and the program has set fields of the same types.
    Ok(unsafe { options.assume_init() })
}

/// Copies as much of what `full` makes as the caller's structure has room for; `full` is given the size to keep.
///
/// # Safety
/// `out` points to a structure whose first field is its size.
pub(crate) unsafe fn write<T>(out: *mut T, name: &str, full: impl FnOnce(usize) -> T) -> Result<(), Error> {
    // SAFETY: the caller says so.
    let room = unsafe { out.cast::<usize>().read() };
    if room < BYTES_MIN || room % 8 != 0 {
        return Err(Error::Invalid(format!("set struct_bytes to sizeof({name}) first")));
    }
    let full = full(room);
    let len = room.min(size_of::<T>());
    // SAFETY: the caller's structure has `room` bytes.
    unsafe { std::ptr::copy_nonoverlapping((&raw const full).cast::<u8>(), out.cast::<u8>(), len) };
    Ok(())
}
