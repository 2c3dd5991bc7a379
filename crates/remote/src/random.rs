//! Numbers that nobody can guess.

use std::fs::File;
use std::io::{self, Read};

/// Returns `N` random bytes of the kernel.
///
/// # Errors
/// `/dev/urandom` is not there.
pub fn bytes<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// Two digits a byte.
#[must_use]
pub fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What [`to_hex`] wrote, if it is that.
#[must_use]
pub fn from_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits: Vec<u8> =
        text.chars().map(|digit| digit.to_digit(16).map(|digit| digit as u8)).collect::<Option<_>>()?;
    let bytes: Vec<u8> = digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect();
    (digits.len() == 2 * N).then(|| bytes.try_into().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hexadecimal_comes_back() {
        let random: [u8; 32] = bytes().expect("random");
        assert_eq!(from_hex::<32>(&to_hex(&random)), Some(random));
        assert_eq!(from_hex::<2>("00f"), None);
        assert_eq!(from_hex::<2>("00fg"), None);
        assert_eq!(from_hex::<1>("\u{ff}\u{ff}"), None);
    }
}
