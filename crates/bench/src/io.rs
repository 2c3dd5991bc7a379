//! Bytes that this process asked the kernel for, and bytes that a device had to move for it.

use std::fs;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

const PATH: &str = "/proc/self/io";

/// Totals of the process; subtract two of them.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct Io {
    /// Bytes given by read system calls, from the page cache or not.
    pub asked_read_bytes: u64,
    /// Bytes taken by write system calls.
    pub asked_written_bytes: u64,
    /// Bytes fetched from a device.
    pub read_bytes: u64,
    /// Bytes sent to a device, or made dirty in the page cache, which is where they go from there.
    pub written_bytes: u64,
}

impl Io {
    /// The calling process now.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Input`] if the kernel does not count.
    pub fn now() -> Result<Self> {
        let text = fs::read_to_string(PATH).map_err(Error::io("reading", PATH))?;
        Self::parse(&text).ok_or_else(|| Error::Input(format!("{PATH} lacks a counter")))
    }

    /// What happened since `before`.
    pub fn since(self, before: Self) -> Self {
        Self {
            asked_read_bytes: self.asked_read_bytes - before.asked_read_bytes,
            asked_written_bytes: self.asked_written_bytes - before.asked_written_bytes,
            read_bytes: self.read_bytes - before.read_bytes,
            written_bytes: self.written_bytes - before.written_bytes,
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name))?.trim().parse().ok();
        Some(Self {
            asked_read_bytes: field("rchar:")?,
            asked_written_bytes: field("wchar:")?,
            read_bytes: field("read_bytes:")?,
            written_bytes: field("write_bytes:")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_kernels_counters() {
        let text = "rchar: 10\nwchar: 20\nsyscr: 1\nsyscw: 1\nread_bytes: 4096\nwrite_bytes: 8192\n\
                    cancelled_write_bytes: 1\n";
        let io = Io::parse(text).expect("all fields");
        let expected =
            Io { asked_read_bytes: 10, asked_written_bytes: 20, read_bytes: 4096, written_bytes: 8192 };
        assert_eq!(io, expected);
        assert_eq!(io.since(io), Io::default());
        assert_eq!(Io::parse("rchar: 10\n"), None);
    }
}
