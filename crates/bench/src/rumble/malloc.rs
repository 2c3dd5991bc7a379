//! The C library's malloc, or the one that stands in front of it in this process.

use std::fs;
use std::ptr;

use super::books::Object;
use super::resident::Resident;
use super::store::{Footprint, Store};
use crate::error::{Error, Result};

/// Objects of malloc; memory is what the process has grown by.
#[derive(Debug)]
pub struct Malloc {
    baseline_bytes: u64,
}

/// Fails unless this process has the library loaded, which is missing if it is not installed.
fn check_loaded(library: &str, package: &str) -> Result<()> {
    let path = "/proc/self/maps";
    let maps = fs::read_to_string(path).map_err(Error::io("reading", path))?;
    let is_loaded =
        maps.lines().any(|line| line.rsplit('/').next().is_some_and(|name| name.starts_with(library)));
    let missing =
        || Error::Unavailable(format!("{library} is not loaded; the distribution's package is {package}"));
    if is_loaded { Ok(()) } else { Err(missing()) }
}

impl Malloc {
    /// The process's malloc, which must be that of `library` if one is named: file name and package.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if it is another one.
    pub fn new(library: Option<(&str, &str)>) -> Result<Self> {
        if let Some((library, package)) = library {
            check_loaded(library, package)?;
        }
        Ok(Self { baseline_bytes: Resident::now()?.rss_bytes })
    }
}

impl Store for Malloc {
    fn allocate(&mut self, sizes: &[u32], made: &mut Vec<Object>) -> Result<()> {
        for &bytes in sizes {
            // SAFETY: asks for memory; what comes back is looked at.
            let at = unsafe { libc::malloc(bytes as usize) };
            if at.is_null() {
                return Err(Error::Unavailable(format!("malloc had no {bytes} bytes")));
            }
            // SAFETY: so many bytes were just allocated.
            unsafe { ptr::write_bytes(at.cast::<u8>(), bytes as u8, bytes as usize) };
            made.push(Object { home: at.expose_provenance() as u64, bytes });
        }
        Ok(())
    }

    fn free(&mut self, objects: &[Object]) -> Result<()> {
        for object in objects {
            let at = ptr::with_exposed_provenance_mut(object.home as usize);
            // SAFETY: it came from malloc, and its only entry in the books was removed.
            unsafe { libc::free(at) };
        }
        Ok(())
    }

    fn footprint(&mut self) -> Result<Footprint> {
        let resident_bytes = Resident::now()?.rss_bytes.saturating_sub(self.baseline_bytes);
        Ok(Footprint { resident_bytes, ..Footprint::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_is_not_there_is_named() {
        let refused = Malloc::new(Some(("libnothing.so.1", "libnothing1"))).expect_err("there is none");
        assert!(refused.to_string().contains("libnothing1"), "{refused}");
        Malloc::new(Some(("libc.so.6", "libc6"))).expect("every process has it");
    }

    #[test]
    fn every_byte_is_written() {
        let mut malloc = Malloc::new(None).expect("on Linux");
        let mut made = Vec::new();
        malloc.allocate(&[100, 5000], &mut made).expect("memory");
        for object in &made {
            let at = ptr::with_exposed_provenance::<u8>(object.home as usize);
            // SAFETY: so many bytes were allocated there and written.
            let bytes = unsafe { std::slice::from_raw_parts(at, object.bytes as usize) };
            assert!(bytes.iter().all(|&byte| byte == object.bytes as u8), "{object:?}");
        }
        malloc.free(&made).expect("malloc's");
    }
}
