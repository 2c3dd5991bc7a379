//! A short text in memory of fixed size, for those who may not allocate.

use std::ffi::{CStr, c_char};
use std::fmt;

use serde::{Serialize, Serializer};

const WORDS_BYTES: usize = 95;
/// Bytes for the longest sentence of the C library, and of libfabric.
const SENTENCE_BYTES: usize = 256;

/// The beginning of a text, in the place of a number.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Words {
    len: u8,
    bytes: [u8; WORDS_BYTES],
}

impl Words {
    /// As much of the text as there is room for.
    #[must_use]
    pub fn of(text: &str) -> Words {
        Words::said(&text)
    }

    /// As much of what it says as there is room for. Allocates nothing, unless saying it does.
    #[must_use]
    pub fn said(what: &dyn fmt::Display) -> Words {
        let mut words = Words { len: 0, bytes: [0; WORDS_BYTES] };
        // An error says that there is no more room.
        let _ = fmt::Write::write_fmt(&mut words, format_args!("{what}"));
        words
    }

    /// What `write` writes into this memory, up to the first NUL and as far as it is UTF-8.
    pub(crate) fn written(write: impl FnOnce(&mut [c_char])) -> Words {
        let mut text = [0; SENTENCE_BYTES];
        write(&mut text);
        let bytes = text.map(c_char::cast_unsigned);
        let text = CStr::from_bytes_until_nul(&bytes).map(CStr::to_str);
        Words::of(text.unwrap_or(Ok("")).unwrap_or(""))
    }

    /// What the system says of an error's number.
    pub(crate) fn of_errno(errno: i32) -> Words {
        Words::written(|text| {
            // SAFETY: the length is that of the memory; what is written ends in NUL. Of a number that it does not know it says so.
            unsafe { libc::strerror_r(errno, text.as_mut_ptr(), text.len()) };
        })
    }

    /// What is there.
    #[must_use]
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..usize::from(self.len)]).unwrap_or_default()
    }
}

impl fmt::Write for Words {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let start = usize::from(self.len);
        let most = text.len().min(WORDS_BYTES - start);
        let len = (0..=most).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        self.bytes[start..start + len].copy_from_slice(&text.as_bytes()[..len]);
        self.len += len as u8;
        if len == text.len() { Ok(()) } else { Err(fmt::Error) }
    }
}

impl fmt::Display for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
}

impl fmt::Debug for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
}

impl Serialize for Words {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_words_are_cut_between_characters() {
        assert_eq!(Words::of("gone").as_str(), "gone");
        let long = "é".repeat(100);
        assert_eq!(Words::of(&long).as_str(), "é".repeat(WORDS_BYTES / 2));
        assert_eq!(Words::of("").as_str(), "");
        assert_eq!(Words::said(&format_args!("{}{}b", "x".repeat(94), "é")).as_str(), "x".repeat(94));
    }

    #[test]
    fn errors_are_said_as_the_system_says_them() {
        assert_eq!(Words::of_errno(libc::ENOTCONN).as_str(), "Transport endpoint is not connected");
        assert!(Words::of_errno(i32::MAX).as_str().contains("Unknown"));
    }
}
