//! What happens to a donor.

use std::fmt;
use std::time::Duration;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::donors::LEAVE_WITHIN;

/// Length of [`Failure::Stop`]: some deadlines of a transfer.
pub const STOP: Duration = Duration::from_secs(3);

/// Longest time that a donor may take to give back what programs of its machine need: then it ends the borrower's connection, and looks every 100 ms.
pub const GIVE_BACK_MAX: Duration = LEAVE_WITHIN.saturating_add(Duration::from_secs(2));

/// The end of a donor, or of what it lends.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Failure {
    /// It is killed (SIGKILL): the kernel closes its connections
    Kill,
    /// It hangs for 3 seconds (SIGSTOP, SIGCONT): nobody says that it does
    Stop,
    /// It is told to end (SIGTERM), and its RAM is free when it has
    Leave,
    /// Programs of its machine take so much RAM that it needs back all that it lent
    Press,
}

impl Failure {
    /// So long must be seen of what it does.
    pub fn after_min(self) -> Duration {
        match self {
            Self::Press => GIVE_BACK_MAX + Duration::from_secs(1),
            Self::Kill | Self::Stop | Self::Leave => STOP + Duration::from_secs(2),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Kill => "kill",
            Self::Stop => "stop",
            Self::Leave => "leave",
            Self::Press => "press",
        })
    }
}
