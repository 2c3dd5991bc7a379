//! What is measured: a block device, files in a directory, or emulated flash.

mod flash;
mod guard;
mod place;

pub use flash::FlashSpec;
pub use place::Place;
pub(crate) use place::SPAN_BYTES_MIN;

use std::path::PathBuf;

use aquifer_device::queue::Queue;

use crate::error::ProbeError;
use crate::report;

/// What was named on the command line.
#[derive(Clone, PartialEq, Debug)]
pub enum TargetSpec {
    /// `nand:` with parameters.
    Flash(FlashSpec),
    /// A path.
    Path(PathBuf),
}

impl TargetSpec {
    /// What `name` means.
    ///
    /// # Errors
    /// [`ProbeError::BadParameter`].
    pub fn parse(name: &str) -> Result<Self, ProbeError> {
        match name.strip_prefix("nand:") {
            Some(parameters) => Ok(TargetSpec::Flash(FlashSpec::parse(parameters)?)),
            None => Ok(TargetSpec::Path(name.into())),
        }
    }
}

/// A target that may be measured: it was looked at, and nothing of anybody's is in the way.
#[derive(Debug)]
pub enum Ground {
    /// Emulated flash.
    Flash(FlashSpec),
    /// A block device, a file or a directory; more of them stand beside it when stripes are measured.
    Places(Place, Vec<Place>),
}

impl Ground {
    /// Looks at a target, and at what stands beside it in a stripe, without changing anything. `erase` is what the user allows to be overwritten.
    ///
    /// # Errors
    /// [`ProbeError`].
    pub fn new(spec: TargetSpec, beside: &[PathBuf], erase: &[PathBuf]) -> Result<Self, ProbeError> {
        match spec {
            TargetSpec::Flash(flash) => {
                if let Some(path) = beside.first() {
                    let text = format!(
                        "{} cannot stand beside emulated flash; name directories or devices only",
                        path.display()
                    );
                    return Err(ProbeError::BadStripe(text));
                }
                // Checks that a device of this description can exist.
                flash.make()?;
                Ok(Ground::Flash(flash))
            }
            TargetSpec::Path(path) => {
                let is_named = |erase: &&PathBuf| **erase != path && !beside.contains(erase);
                if let Some(erase) = erase.iter().find(is_named) {
                    return Err(ProbeError::EraseOther { erase: erase.clone(), target: path });
                }
                let look = |path: &PathBuf| Place::look(path, erase.contains(path));
                Ok(Ground::Places(look(&path)?, beside.iter().map(look).collect::<Result<_, _>>()?))
            }
        }
    }

    /// What the report says of it. `tested_bytes` is not known yet.
    #[must_use]
    pub fn describe(&self) -> report::Target {
        match self {
            Ground::Flash(flash) => flash.describe(),
            Ground::Places(place, _) => place.describe(),
        }
    }

    /// Most bytes that one device can give.
    #[must_use]
    pub fn available_bytes(&self) -> u64 {
        match self {
            Ground::Flash(flash) => flash.user_bytes(),
            Ground::Places(place, beside) => {
                beside.iter().map(Place::available_bytes).fold(place.available_bytes(), u64::min)
            }
        }
    }

    /// Whether discards reach the device itself.
    #[must_use]
    pub fn can_discard(&self) -> bool {
        match self {
            Ground::Flash(_) => true,
            Ground::Places(place, _) => place.can_discard(),
        }
    }

    /// Places beside each other, or 0 for emulated ones, of which there are as many as one likes.
    #[must_use]
    pub fn places(&self) -> usize {
        match self {
            Ground::Flash(_) => 0,
            Ground::Places(_, beside) => 1 + beside.len(),
        }
    }

    /// Opens `count` devices of `bytes` each side by side, `unit_bytes` of each in turn. Emulated devices are new each time and have a size
    /// of their own.
    ///
    /// # Errors
    /// [`ProbeError`]; a block device is one device and cannot be several.
    pub fn open(&self, count: u32, unit_bytes: u32, bytes: u64) -> Result<Box<dyn Queue>, ProbeError> {
        match self {
            Ground::Flash(flash) => flash.open(count, unit_bytes),
            Ground::Places(place, beside) => place::open(place, beside, count, unit_bytes, bytes),
        }
    }
}
