//! The sizes that every benchmark is given, as options.

use std::path::{Path, PathBuf};

use aquifer_base::units::{SizeError, format_size, parse_size};
use clap::Args;

use crate::error::{Error, Result};
use crate::peer::{Kind, Setup, flash_bytes_for};
use crate::workdir::free_bytes;

/// Least allowance on top of the RAM: the harness itself.
const SLACK_BYTES_MIN: u64 = 8 << 20;
const PAGE_BYTES: u64 = 4096;

/// Data, RAM and where the files go.
#[derive(Clone, Debug, Args)]
pub struct Scale {
    /// Bytes of all objects together
    #[arg(long, value_parser = parse_size, default_value = "4G")]
    pub data: u64,
    /// RAM for the objects and everything that manages them
    #[arg(long, value_parser = parse_size, default_value = "256M")]
    pub ram: u64,
    /// Bytes of one object, a multiple of 8 that divides 4096
    #[arg(long, value_parser = parse_size, default_value = "128")]
    pub object: u64,
    /// Directory for the files of all peers, on the disk to be measured
    #[arg(long, default_value = "/var/tmp")]
    pub dir: PathBuf,
    /// Percent of Aquifer's log that live records take
    #[arg(long, default_value_t = 67, value_parser = clap::value_parser!(u32).range(1..=95))]
    pub fill: u32,
    /// Allowance over --ram in everybody's cgroup, for the harness [default: 5 %, at least 8M]
    #[arg(long, value_parser = parse_size)]
    pub slack: Option<u64>,
    /// Append one JSON line per sample to this file [default: standard output]
    #[arg(long)]
    pub out: Option<PathBuf>,
}

impl Scale {
    /// What a peer is given.
    ///
    /// # Errors
    /// [`Error::Input`] if the sizes make no sense.
    pub fn setup(&self) -> Result<Setup> {
        let wrong = |what: String| Err(Error::Input(what));
        if self.object == 0 || !self.object.is_multiple_of(8) || !PAGE_BYTES.is_multiple_of(self.object) {
            return wrong(format!("--object {} is not a multiple of 8 that divides 4096", self.object));
        }
        if self.data < 1 << 20 || !self.data.is_multiple_of(PAGE_BYTES) {
            return wrong(format!("--data {} is not a multiple of 4096 from 1M up", self.data));
        }
        Ok(Setup {
            dir: self.dir.clone(),
            data_bytes: self.data,
            object_bytes: self.object,
            ram_bytes: self.ram,
            flash_bytes: flash_bytes_for(self.data, self.object, f64::from(self.fill) / 100.0),
        })
    }

    /// Limit of the control groups.
    pub fn limit_bytes(&self) -> u64 {
        self.ram + self.slack.unwrap_or(SLACK_BYTES_MIN.max(self.ram / 20))
    }
}

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
        peers.iter().map(Kind::to_string).collect::<Vec<_>>().join(", "),
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

    fn scale() -> Scale {
        Scale {
            data: 4 << 30,
            ram: 256 << 20,
            object: 128,
            dir: PathBuf::from("/var/tmp"),
            fill: 50,
            slack: None,
            out: None,
        }
    }

    #[test]
    fn sizes_that_make_no_sense_are_refused() {
        for (data, object) in [(4 << 30, 0), (4 << 30, 12), (4 << 30, 8192), (4096, 128), (4_000_001, 128)] {
            assert!(Scale { data, object, ..scale() }.setup().is_err(), "{data}, {object}");
        }
    }

    #[test]
    fn everybody_gets_the_same_allowance() {
        assert_eq!(scale().limit_bytes(), (256 << 20) + (256 << 20) / 20);
        assert_eq!(Scale { ram: 64 << 20, ..scale() }.limit_bytes(), 72 << 20);
        assert_eq!(Scale { slack: Some(0), ..scale() }.limit_bytes(), 256 << 20);
        assert_eq!(scale().setup().expect("valid").flash_bytes, (4 << 30) / 128 * 136 * 2);
    }

    #[test]
    fn counts_are_decimal() {
        assert_eq!(parse_count("40M"), Ok(40_000_000));
        assert_eq!(parse_count("12"), Ok(12));
        assert!(parse_count("M").is_err() && parse_count("").is_err() && parse_count("1x").is_err());
        assert!(matches!(parse_count("99999999999G"), Err(SizeError::TooLarge(_))));
    }

    #[test]
    fn a_full_disk_is_noticed_before_the_work() {
        let setup = Setup { data_bytes: 1 << 60, ..scale().setup().expect("valid") };
        let refused = check_disk(&std::env::temp_dir(), &setup, &[Kind::Mmap, Kind::Fio], 0);
        assert!(matches!(refused, Err(Error::Input(reason)) if reason.starts_with("mmap, fio need")));
    }
}
