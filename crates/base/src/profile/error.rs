//! What can be wrong with a profile.

use thiserror::Error;

use super::{FORMAT, PROFILE_BYTES_MAX, Setting, VERSION};

/// Why a profile could not be read.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("line {line}: {fault}")]
pub struct ProfileError {
    /// The line, counted from 1.
    pub line: usize,
    /// What is wrong there.
    pub fault: Fault,
}

/// What is wrong.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum Fault {
    /// More than [`PROFILE_BYTES_MAX`].
    #[error(
        "this is longer than any device profile ({PROFILE_BYTES_MAX} bytes); `aquifer advise REPORT --write-profile FILE` makes one"
    )]
    TooLong,
    /// Not UTF-8.
    #[error("this is not text")]
    NotText,
    /// The first setting is not the version.
    #[error(
        "this is not a device profile, which begins with '{FORMAT} = {VERSION}'; `aquifer advise REPORT --write-profile FILE` makes one"
    )]
    NotAProfile,
    /// A version that this program does not read.
    #[error(
        "this profile has version '{0}', and this program reads version {VERSION}; make it again with `aquifer advise REPORT --write-profile FILE`"
    )]
    OtherVersion(String),
    /// No `=`.
    #[error("'{0}' is neither 'key = value' nor a comment, which begins with #")]
    NoValue(String),
    /// A key that is not known.
    #[error("there is no setting '{0}'; there are {keys}", keys = keys())]
    UnknownKey(String),
    /// A key that has stood before.
    #[error("{key} stands here for the second time", key = .0.key())]
    Twice(Setting),
    /// Not a number.
    #[error("{key} is '{1}', which is no {unit}", key = .0.key(), unit = unit(*.0))]
    NotANumber(Setting, String),
    /// A number that the setting may not be.
    #[error("{key} is {1}; it may be {min} to {max}", key = .0.key(), min = .0.range().start(), max = .0.range().end())]
    OutOfRange(Setting, u64),
    /// A size of blocks that is not a power of two.
    #[error("{key} is {1}; it must be a power of two", key = .0.key())]
    NotAPowerOfTwo(Setting, u64),
}

fn keys() -> String {
    Setting::ALL.map(Setting::key).join(", ")
}

fn unit(setting: Setting) -> &'static str {
    match setting {
        Setting::WriteBytes | Setting::SegmentBytes => "size: write bytes, or a number with K, M or G",
        Setting::Depth | Setting::ReadAheadPages | Setting::WriteDepth => "number",
    }
}
