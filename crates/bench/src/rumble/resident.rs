//! Memory of this process, without allocating any to find out.

use std::fs::File;
use std::io::Read;

use crate::error::{Error, Result};

const PATH: &str = "/proc/self/smaps_rollup";
const FILE_BYTES_MAX: usize = 4096;

/// What the kernel counts by walking the page tables: exact, unlike the counters in /proc/self/status.
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
        let mut bytes = [0; FILE_BYTES_MAX];
        let mut file = File::open(PATH).map_err(Error::io("opening", PATH))?;
        let mut len = 0;
        loop {
            match file.read(&mut bytes[len..]).map_err(Error::io("reading", PATH))? {
                0 => break,
                more => len += more,
            }
        }
        let parsed = std::str::from_utf8(&bytes[..len]).ok().and_then(Self::parse);
        parsed.ok_or_else(|| Error::Input(format!("{PATH} has no Rss or no Anonymous")))
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
    fn fields_are_found() {
        let text = "00400000-7ff0 ---p 00000000 00:00 0    [rollup]\nRss:       12 kB\nPss:  5 kB\nAnonymous:    8 kB\n";
        let resident = Resident { rss_bytes: 12 << 10, anonymous_bytes: 8 << 10 };
        assert_eq!(Resident::parse(text), Some(resident));
        assert_eq!(Resident::parse("Rss: 12 kB\n"), None);
    }
}
