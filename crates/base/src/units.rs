//! Sizes as people write them.

use thiserror::Error;

/// Why a size could not be understood.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SizeError {
    /// Not a number with an optional unit.
    #[error("'{0}' is not a size; write bytes or a number with K, M, G or T, as in 256M or 4G")]
    Malformed(String),
    /// More than 2^64 - 1 bytes.
    #[error("'{0}' is more bytes than 64 bits can count")]
    TooLarge(String),
}

/// Bytes in `text`: a decimal number, optionally followed by `K`, `M`, `G` or `T` (powers of
/// 1024), optionally followed by `iB` or `B`; case does not matter.
///
/// # Errors
/// [`SizeError`] with the text as given.
pub fn parse_size(text: &str) -> Result<u64, SizeError> {
    let malformed = || SizeError::Malformed(text.to_owned());
    let trimmed = text.trim();
    let digits_end = trimmed.find(|c: char| !c.is_ascii_digit()).unwrap_or(trimmed.len());
    let (digits, unit) = trimmed.split_at(digits_end);
    if digits.is_empty() {
        return Err(malformed());
    }
    let shift = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return Err(malformed()),
    };
    digits
        .parse::<u64>()
        .ok()
        .and_then(|number| number.checked_mul(1 << shift))
        .ok_or_else(|| SizeError::TooLarge(text.to_owned()))
}

/// `bytes` with the largest binary unit that keeps it at or above 1, as in `1.5 GiB`.
pub fn format_size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if value.fract() == 0.0 {
        format!("{value:.0} {}", UNITS[unit])
    } else {
        format!("{value:.1} {}", UNITS[unit])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_people_write() {
        assert_eq!(parse_size("4096"), Ok(4096));
        assert_eq!(parse_size("256M"), Ok(256 << 20));
        assert_eq!(parse_size(" 4 GiB "), Ok(4 << 30));
        assert_eq!(parse_size("1t"), Ok(1 << 40));
    }

    #[test]
    fn refuses_what_makes_no_sense() {
        for text in ["", "M", "-1", "1.5G", "4X"] {
            assert!(matches!(parse_size(text), Err(SizeError::Malformed(_))), "{text}");
        }
        assert!(matches!(parse_size("99999999999999999999"), Err(SizeError::TooLarge(_))));
        assert!(matches!(parse_size("17179869184G"), Err(SizeError::TooLarge(_))));
    }

    #[test]
    fn writes_round_numbers_without_a_fraction() {
        assert_eq!(format_size(256 << 20), "256 MiB");
        assert_eq!(format_size(1536), "1.5 KiB");
    }
}
