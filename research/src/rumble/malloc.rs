//! The C library's malloc, or the one that stands in front of it in this process.

use std::fs::{self, File};
use std::io::Read;
use std::ptr;

use super::books::Object;
use super::store::{Footprint, Store};
use aquifer_bench::error::{Error, Result};

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
            // SAFETY: `bytes` bytes were just allocated.
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

const SMAPS: &str = "/proc/self/smaps_rollup";
const SMAPS_BYTES_MAX: usize = 4096;

/// Memory of a process, found without allocating any: what the kernel counts by walking the page tables: exact, unlike the counters in /proc/self/status.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Resident {
    /// All pages.
    pub rss_bytes: u64,
    /// Pages of no file.
    pub anonymous_bytes: u64,
}

impl Resident {
    /// The calling process now.
    ///
    /// # Errors
    /// [`Error::Io`] if /proc cannot be read, [`Error::Input`] if it lacks the fields.
    pub fn now() -> Result<Self> {
        let mut bytes = [0; SMAPS_BYTES_MAX];
        let mut file = File::open(SMAPS).map_err(Error::io("opening", SMAPS))?;
        let mut len = 0;
        loop {
            match file.read(&mut bytes[len..]).map_err(Error::io("reading", SMAPS))? {
                0 => break,
                more => len += more,
            }
        }
        let parsed = std::str::from_utf8(&bytes[..len]).ok().and_then(Self::parse);
        parsed.ok_or_else(|| Error::Input(format!("{SMAPS} has no Rss or no Anonymous")))
    }

    fn parse(text: &str) -> Option<Self> {
        let field = |name: &str| {
            let value = text.lines().find_map(|line| line.strip_prefix(name))?;
            let kib: u64 = value.trim().strip_suffix("kB")?.trim().parse().ok()?;
            Some(kib << 10)
        };
        Some(Self { rss_bytes: field("Rss:")?, anonymous_bytes: field("Anonymous:")? })
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
            // SAFETY: the bytes of `object` were allocated there and written.
            let bytes = unsafe { std::slice::from_raw_parts(at, object.bytes as usize) };
            assert!(bytes.iter().all(|&byte| byte == object.bytes as u8), "{object:?}");
        }
        malloc.free(&made).expect("malloc's");
    }

    #[test]
    fn fields_are_found() {
        let text = "00400000-7ff0 ---p 00000000 00:00 0    [rollup]\nRss:       12 kB\nPss:  5 kB\nAnonymous:    8 kB\n";
        let resident = Resident { rss_bytes: 12 << 10, anonymous_bytes: 8 << 10 };
        assert_eq!(Resident::parse(text), Some(resident));
        assert_eq!(Resident::parse("Rss: 12 kB\n"), None);
    }
}
