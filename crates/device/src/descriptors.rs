//! Descriptors of the library, by their types.

use std::os::fd::{FromRawFd, IntoRawFd, OwnedFd};

use aquifer_sys::descriptors;

/// As [`descriptors::own`], for a type that owns its descriptor. The owner calls [`descriptors::forget`]
/// before it drops the file.
#[must_use]
pub fn own<T: Into<OwnedFd> + From<OwnedFd>>(file: T) -> T {
    let fd: OwnedFd = file.into();
    // SAFETY: the descriptor that is given back is open, and this function's alone, as the one that it was before.
    T::from(unsafe { OwnedFd::from_raw_fd(descriptors::own(fd.into_raw_fd())) })
}
