//! Transfers by libfabric: real one-sided ones over RDMA (`verbs`), emulated ones over TCP (`tcp`).
//!
//! Every connection has a fabric domain of its own, so that keys of one borrower mean nothing on another's connection.

mod borrowed;
mod descriptors;
mod ffi;
mod lent;
mod listener;

use std::ffi::{CString, c_int};
use std::sync::OnceLock;
use std::time::Duration;

use aquifer_sys::insiders;

use super::error::TransportError;
use crate::words::Words;

pub use borrowed::connect;
pub use lent::Served;
pub use listener::{Listener, Request};

/// Whether this build has the calls of libfabric.
pub const IS_BUILT: bool = true;

/// The provider that every machine has.
pub const PROVIDER: &str = "tcp";

/// Room for the names of providers, some dozen.
const PROVIDERS_BYTES: usize = 4096;

/// Bytes that a borrower shows when it connects; the donor gave them to it before.
pub type Token = [u8; ffi::TOKEN_BYTES];

/// Version of the library: major, minor.
///
/// # Errors
/// It is not there.
pub fn version() -> Result<(u32, u32), TransportError> {
    load()?;
    // SAFETY: the library is loaded.
    let version = unsafe { ffi::aqf_version() };
    Ok((version >> 16, version & 0xffff))
}

/// Providers that can connect a donor and a borrower on this machine, by name, in order.
///
/// # Errors
/// The library is not there, or finds none for another reason than that there is none.
pub fn providers() -> Result<Vec<String>, TransportError> {
    load()?;
    let mut text = [0; PROVIDERS_BYTES];
    // SAFETY: the length is that of the array; what is written ends in NUL.
    let error = unsafe { ffi::aqf_providers(text.as_mut_ptr().cast(), text.len()) };
    if error != 0 {
        return Err(failed("looking for providers", error));
    }
    let mut names: Vec<String> = c_text(&text).lines().map(str::to_owned).collect();
    names.sort();
    names.dedup();
    Ok(names)
}

/// Loads the library, once. Under an unchanged program its memory is not managed memory, which it may be needed for.
fn load() -> Result<(), TransportError> {
    static LOADED: OnceLock<c_int> = OnceLock::new();
    // SAFETY: loads the library, or says that it could not.
    let load = || insiders::note_loaded(b"libfabric.so", || unsafe { ffi::aqf_load() });
    if *LOADED.get_or_init(load) == 0 { Ok(()) } else { Err(TransportError::NoLibrary) }
}

/// What an error of the library means.
fn explain(error: c_int) -> Words {
    // SAFETY: the length is that of the memory; what is written ends in NUL.
    Words::written(|text| unsafe { ffi::aqf_explain(error, text.as_mut_ptr(), text.len()) })
}

/// The text before the NUL.
fn c_text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

fn failed(doing: &'static str, error: c_int) -> TransportError {
    TransportError::Failed { doing, reason: explain(error).to_string() }
}

/// Error of a name: of what was to be opened, at an address.
fn unopened(provider: &str, address: String, error: c_int) -> TransportError {
    match -error {
        libc::ENOENT => TransportError::NoLibrary,
        libc::ENODATA => TransportError::NoProvider { provider: provider.to_string(), address },
        libc::EADDRINUSE => TransportError::InUse(address),
        _ => TransportError::Refused { address, reason: explain(error).to_string() },
    }
}

fn c_string(text: &str, what: &'static str) -> Result<CString, TransportError> {
    CString::new(text)
        .map_err(|_| TransportError::Failed { doing: what, reason: format!("{text:?} has a NUL in it") })
}

fn milliseconds(limit: Duration) -> c_int {
    // What is not zero must not become zero, which would not wait.
    let whole = limit.as_nanos().div_ceil(1_000_000);
    c_int::try_from(whole).unwrap_or(c_int::MAX)
}
