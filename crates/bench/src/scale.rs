//! Disks that are large enough, and counts as options.

use std::path::Path;

use aquifer_base::units::{SizeError, format_size};

use crate::error::{Error, Result};
use crate::peer::{Kind, Setup};
use crate::workdir::free_bytes;

/// Fails early when the disk cannot hold the files of `peers` and `swap_bytes`.
///
/// # Errors
/// [`Error::Input`] with both numbers.
pub fn check_disk(dir: &Path, setup: &Setup, peers: &[Kind], swap_bytes: u64) -> Result<()> {
    let needed = swap_bytes + peers.iter().map(|peer| peer.disk_bytes(setup)).sum::<u64>();
    let free = free_bytes(dir)?;
    if needed <= free {
        return Ok(());
    }
    Err(Error::Input(format!(
        "{} need {} of disk in {}, {} are free; use smaller --data, fewer --peer, or another --dir",
        peers.iter().map(|peer| peer.name()).collect::<Vec<_>>().join(", "),
        format_size(needed),
        dir.display(),
        format_size(free),
    )))
}

/// A count such as `40M`: decimal, with K, M or G for powers of 1000.
///
/// # Errors
/// [`SizeError`].
pub fn parse_count(text: &str) -> std::result::Result<u64, SizeError> {
    let (digits, factor) = match text.char_indices().last() {
        Some((end, 'k' | 'K')) => (&text[..end], 1000),
        Some((end, 'm' | 'M')) => (&text[..end], 1_000_000),
        Some((end, 'g' | 'G')) => (&text[..end], 1_000_000_000),
        _ => (text, 1),
    };
    let number: u64 = digits.parse().map_err(|_| SizeError::Malformed(text.to_owned()))?;
    number.checked_mul(factor).ok_or_else(|| SizeError::TooLarge(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::payload::Payload;

    #[test]
    fn counts_are_decimal() {
        assert_eq!(parse_count("40M"), Ok(40_000_000));
        assert_eq!(parse_count("12"), Ok(12));
        assert!(parse_count("M").is_err() && parse_count("").is_err() && parse_count("1x").is_err());
        assert!(matches!(parse_count("99999999999G"), Err(SizeError::TooLarge(_))));
    }

    #[test]
    fn a_full_disk_is_noticed_before_the_work() {
        let setup = Setup {
            dir: std::env::temp_dir(),
            data_bytes: 1 << 60,
            object_bytes: 128,
            ram_bytes: 1 << 20,
            flash_bytes: 1 << 60,
            payload: Payload::Random,
        };
        let refused = check_disk(&std::env::temp_dir(), &setup, &[Kind::Mmap, Kind::Fio], 0);
        assert!(matches!(refused, Err(Error::Input(reason)) if reason.starts_with("mmap, fio need")));
    }
}
