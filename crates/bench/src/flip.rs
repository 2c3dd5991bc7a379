//! A byte that is made wrong on purpose, to see that wrong bytes end a call.

use serde::{Deserialize, Serialize};

/// A byte of an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Flip {
    /// The object.
    pub object: u64,
    /// Which of its bytes.
    pub byte: u64,
}

/// `OBJECT:BYTE`, as in `1000:5`.
///
/// # Errors
/// A sentence with the form.
pub fn parse_flip(text: &str) -> std::result::Result<Flip, String> {
    let parse = || {
        let (object, byte) = text.split_once(':')?;
        Some(Flip { object: object.parse().ok()?, byte: byte.parse().ok()? })
    };
    parse().ok_or_else(|| format!("'{text}' is not OBJECT:BYTE, as in 1000:5"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_parsed() {
        assert_eq!(parse_flip("1000:5"), Ok(Flip { object: 1000, byte: 5 }));
        assert!(["1000", "1000:", "a:1", ":"].iter().all(|text| parse_flip(text).is_err()));
    }
}
