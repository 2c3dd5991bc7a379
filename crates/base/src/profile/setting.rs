//! What a profile can say.

use std::ops::RangeInclusive;

use super::error::Fault;
use super::excerpt;
use crate::units::parse_size;

/// One setting.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(usize)]
pub enum Setting {
    /// Transfers of batches that are under way at once: 1 to 256.
    Depth,
    /// Most pages that are read ahead of a walk through memory: 8 to 256.
    ReadAheadPages,
    /// Bytes that the log writes together: a power of two, 64 KiB to 1 MiB.
    WriteBytes,
    /// Parts in which these are written at once: 1 to 16.
    WriteDepth,
    /// Bytes that the log cleans and overwrites together: 64 KiB to 1 GiB.
    SegmentBytes,
}

impl Setting {
    /// All of them, as they stand in a file.
    pub const ALL: [Self; 5] =
        [Self::Depth, Self::ReadAheadPages, Self::WriteBytes, Self::WriteDepth, Self::SegmentBytes];

    /// Its name in a file.
    #[must_use]
    pub const fn key(self) -> &'static str {
        match self {
            Self::Depth => "depth",
            Self::ReadAheadPages => "read_ahead_pages",
            Self::WriteBytes => "write_bytes",
            Self::WriteDepth => "write_depth",
            Self::SegmentBytes => "segment_bytes",
        }
    }

    /// The values that it may have.
    #[must_use]
    pub const fn range(self) -> RangeInclusive<u64> {
        match self {
            Self::Depth => 1..=256,
            Self::ReadAheadPages => 8..=256,
            Self::WriteBytes => 64 << 10..=1 << 20,
            Self::WriteDepth => 1..=16,
            Self::SegmentBytes => 64 << 10..=1 << 30,
        }
    }

    /// The setting with this name.
    #[must_use]
    pub fn of_key(key: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|setting| setting.key() == key)
    }

    /// Whether it may have this value.
    ///
    /// # Errors
    /// [`Fault::OutOfRange`] or [`Fault::NotAPowerOfTwo`].
    pub fn check(self, value: u64) -> Result<(), Fault> {
        if !self.range().contains(&value) {
            return Err(Fault::OutOfRange(self, value));
        }
        if self == Self::WriteBytes && !value.is_power_of_two() {
            return Err(Fault::NotAPowerOfTwo(self, value));
        }
        Ok(())
    }

    /// The number in `text`: bytes as people write them, or a count.
    pub(super) fn parse(self, text: &str) -> Result<u64, Fault> {
        match self {
            Self::WriteBytes | Self::SegmentBytes => parse_size(text).ok(),
            Self::Depth | Self::ReadAheadPages | Self::WriteDepth => Some(text)
                .filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))
                .and_then(|text| text.parse().ok()),
        }
        .ok_or_else(|| Fault::NotANumber(self, excerpt(text)))
    }
}
