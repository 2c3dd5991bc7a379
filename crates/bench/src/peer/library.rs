//! Libraries of peers, opened at run time so that none of them is needed to build.

use dlopen2::wrapper::{Container, WrapperApi};

use crate::error::{Error, Result};

/// Opens the library `name`, which `package` brings, with the functions of `T`.
///
/// # Errors
/// [`Error::Unavailable`] if it is not there or lacks a function.
///
/// # Safety
/// The functions have the types that `T` says, and the library's initialisers do no harm.
pub unsafe fn load<T: WrapperApi>(name: &str, package: &str) -> Result<Container<T>> {
    // SAFETY: the caller's word.
    let loaded = unsafe { Container::load(name) };
    loaded
        .map_err(|error| Error::Unavailable(format!("{name} cannot be loaded ({error}); install {package}")))
}
