//! Settings for the flash: where they come from, and what they come to in a heap of a given size.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use aquifer_base::profile::{PROFILE_BYTES_MAX, Profile, Setting};
use aquifer_log::Geometry;
use aquifer_vm::Budget;
use aquifer_vm::WINDOW_MAX_DEFAULT;

use crate::error::Error;

/// Fewest blocks that the flash is divided into when a profile asks for large ones.
const BLOCKS_OF_ASKED_MIN: u64 = 128;

/// The profile in a file.
pub(crate) fn read(path: &Path) -> Result<Profile, Error> {
    let invalid = |problem: &dyn std::fmt::Display| {
        Error::Invalid(format!("device profile {}: {problem}", path.display()))
    };
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(PROFILE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes))
        .map_err(|error| {
            invalid(&format_args!("{error}; `aquifer advise --write-profile FILE` makes one"))
        })?;
    Profile::parse(&bytes).map_err(|error| invalid(&error))
}

/// Transfers of batches that are under way at once, if that is said.
pub(crate) fn depth(profile: &Profile) -> Option<usize> {
    profile.get(Setting::Depth).map(|depth| depth as usize)
}

/// Most pages that are read ahead of a walk.
pub(crate) fn read_ahead_pages(profile: &Profile) -> u32 {
    profile.get(Setting::ReadAheadPages).map_or(WINDOW_MAX_DEFAULT, |pages| pages as u32)
}

/// Parts in which a block of the log is written at once.
pub(crate) fn write_depth(profile: &Profile) -> usize {
    profile.get(Setting::WriteDepth).unwrap_or(1) as usize
}

/// Bytes of a block of the log. It never needs more flash or RAM than a small part.
pub(crate) fn block_bytes(profile: &Profile, ram: u64, flash: u64) -> usize {
    let asked = profile.get(Setting::WriteBytes).map(|bytes| bytes.min(flash / BLOCKS_OF_ASKED_MIN));
    Budget::block_bytes(ram as usize, asked.map(|bytes| bytes as usize))
}

/// How the flash is divided.
pub(crate) fn geometry(profile: &Profile, flash: u64, block_bytes: usize) -> Option<Geometry> {
    match profile.get(Setting::SegmentBytes) {
        Some(segment_bytes) => Geometry::choose_with_segments(flash, block_bytes, segment_bytes),
        None => Geometry::choose(flash, block_bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(setting: Setting, value: u64) -> Profile {
        let mut profile = Profile::default();
        profile.set(setting, value).expect("in range");
        profile
    }

    #[test]
    fn without_settings_everything_is_as_ever() {
        let none = Profile::default();
        assert_eq!((depth(&none), read_ahead_pages(&none), write_depth(&none)), (None, 128, 1));
        assert_eq!(block_bytes(&none, 256 << 20, 8 << 30), 512 << 10);
        assert_eq!(geometry(&none, 8 << 30, 512 << 10), Geometry::choose(8 << 30, 512 << 10));
    }

    #[test]
    fn a_profile_never_makes_a_heap_impossible() {
        let large = with(Setting::WriteBytes, 1 << 20);
        assert_eq!(block_bytes(&large, 1 << 30, 8 << 30), 1 << 20);
        assert_eq!(block_bytes(&large, 1 << 30, 16 << 20), 128 << 10);
        assert_eq!(block_bytes(&large, 8 << 20, 2 << 20), 64 << 10);
        let segments = with(Setting::SegmentBytes, 1 << 30);
        let geometry = geometry(&segments, 2 << 20, 64 << 10).expect("as without a profile");
        assert_eq!(Some(geometry), Geometry::choose(2 << 20, 64 << 10));
    }
}
