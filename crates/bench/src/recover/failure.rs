//! What happens to a donor.

use std::fmt;
use std::time::Duration;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// Length of [`Failure::Stop`]: some deadlines of a transfer.
pub const STOP: Duration = Duration::from_secs(3);

/// The end of a donor, or nearly.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Failure {
    /// It is killed (SIGKILL): the kernel closes its connections
    Kill,
    /// It hangs for 3 seconds (SIGSTOP, SIGCONT): nobody says that it does
    Stop,
    /// It is told to end (SIGTERM), and its RAM is free when it has
    Leave,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Kill => "kill",
            Self::Stop => "stop",
            Self::Leave => "leave",
        })
    }
}
