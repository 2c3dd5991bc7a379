//! What happens to a donor, and the donor to which it happens: from the signal on, or from when its RAM is needed.

use std::thread;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::press::{Press, Pressed};
use crate::cleanup::Guard;
use crate::donors::{LEAVE_WITHIN, Slabs};
use crate::error::{Error, Result};
use crate::service::Service;

/// Longest wait for the end of a donor that leaves, once the program has ended.
const LEAVE_MAX: Duration = Duration::from_secs(30);
/// How often it is looked at.
pub const STEP: Duration = Duration::from_millis(2);

/// Length of [`Failure::Stop`]: some deadlines of a transfer.
pub const STOP: Duration = Duration::from_secs(3);

/// Longest time that a donor may take to give back what programs of its machine need: then it ends the borrower's connection, and looks every 100 ms.
pub const GIVE_BACK_MAX: Duration = LEAVE_WITHIN.saturating_add(Duration::from_secs(2));

/// The end of a donor, or of what it lends.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Failure {
    /// It is killed (SIGKILL): the kernel closes its connections
    Kill,
    /// It hangs for 3 seconds (SIGSTOP, SIGCONT): nobody says that it does
    Stop,
    /// It is told to end (SIGTERM), and its RAM is free when it has
    Leave,
    /// Programs of its machine take RAM until it needs back all that it lent
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

/// What fails, and since when. Ended when dropped, after it was let go on.
#[derive(Debug)]
pub struct Failing {
    stopped: Option<Guard>,
    press: Option<Press>,
    donor: Service,
    failure: Failure,
    since: Instant,
    left_after: Option<Duration>,
}

/// A donor before it fails.
#[derive(Debug)]
pub struct Victim {
    /// Its process.
    pub donor: Service,
    /// What it has.
    pub slabs: Slabs,
    /// What it keeps for programs of its machine.
    pub headroom_bytes: u64,
}

/// What can be said of the donor afterwards.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct Outcome {
    /// How long one that leaves took until its process had ended and the kernel had its RAM.
    pub left_after: Option<Duration>,
    /// How one gave back RAM that programs of its machine needed.
    pub pressed: Option<Pressed>,
}

impl Failing {
    /// Lets `failure` happen to `victim`.
    ///
    /// # Errors
    /// Those of [`Press::begin`].
    pub fn begin(failure: Failure, victim: Victim) -> Result<Self> {
        let Victim { donor, slabs, headroom_bytes } = victim;
        let since = Instant::now();
        let (mut stopped, mut press) = (None, None);
        match failure {
            Failure::Kill => donor.signal(libc::SIGKILL),
            Failure::Stop => stopped = Some(donor.stop()),
            Failure::Leave => donor.signal(libc::SIGTERM),
            Failure::Press => press = Some(Press::begin(donor.pid(), slabs, headroom_bytes)?),
        }
        Ok(Self { stopped, press, donor, failure, since, left_after: None })
    }

    /// Looks whether it is time for something: to be called every [`STEP`].
    pub fn look(&mut self) {
        let elapsed = self.since.elapsed();
        if elapsed >= STOP {
            self.stopped = None;
        }
        if self.failure == Failure::Leave && self.left_after.is_none() && self.donor.has_ended() {
            self.left_after = Some(elapsed);
        }
        if let Some(press) = &mut self.press {
            press.look();
        }
    }

    /// What became of it. To be called when the program has ended.
    ///
    /// # Errors
    /// [`Error::Child`] if it does not end, or not as it should, or has not given back what it had to.
    pub fn end(mut self) -> Result<Outcome> {
        if let Some(press) = self.press.take() {
            return self.end_press(press);
        }
        if self.failure != Failure::Leave {
            return Ok(Outcome::default());
        }
        let started = Instant::now();
        while self.left_after.is_none() && started.elapsed() < LEAVE_MAX {
            thread::sleep(STEP);
            self.look();
        }
        if self.left_after.is_none() {
            let what =
                format!("was told to leave and has not ended after {} s", self.since.elapsed().as_secs());
            return Err(Error::Child { peer: "donor".to_owned(), what });
        }
        self.donor.finish()?;
        Ok(Outcome { left_after: self.left_after, pressed: None })
    }

    fn end_press(mut self, press: Press) -> Result<Outcome> {
        if self.donor.has_ended() {
            self.donor.finish()?;
            let what = "ended when programs needed its RAM".to_owned();
            return Err(Error::Child { peer: "donor".to_owned(), what });
        }
        let forced_slabs = self.donor.last_of(Slabs::told_by).map_or(0, |slabs| slabs.forced);
        let pressed = press.end(forced_slabs)?;
        Ok(Outcome { left_after: None, pressed: Some(pressed) })
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn donor(script: &str) -> Victim {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        let mut donor = Service::start("donor", command).expect("a shell");
        donor.wait_for(|line| (line == "ready").then_some(())).expect("it says so");
        Victim { donor, slabs: Slabs { all: 1, lent: 1, forced: 0 }, headroom_bytes: u64::MAX }
    }

    fn begin(failure: Failure, script: &str) -> Failing {
        Failing::begin(failure, donor(script)).expect("nothing is needed for it")
    }

    #[test]
    fn the_time_until_it_has_left_is_told() {
        let leaves = "trap 'sleep 0.2; exit 0' TERM; echo ready; while :; do sleep 0.01; done";
        let outcome = begin(Failure::Leave, leaves).end().expect("it leaves");
        let left_after = outcome.left_after.expect("and when");
        assert!(left_after >= Duration::from_millis(200), "{left_after:?}");
        let breaks = "trap 'exit 1' TERM; echo ready; while :; do sleep 0.01; done";
        assert!(matches!(begin(Failure::Leave, breaks).end(), Err(Error::Child { .. })));
    }

    #[test]
    fn others_are_not_waited_for() {
        let killed = begin(Failure::Kill, "echo ready; exec sleep 600");
        assert_eq!(killed.end().expect("nothing to say"), Outcome::default());
        let mut stopped = begin(Failure::Stop, "echo ready; exec sleep 600");
        stopped.look();
        assert!(stopped.stopped.is_some() && !stopped.donor.has_ended());
        assert_eq!(stopped.end().expect("nothing to say"), Outcome::default());
    }

    #[test]
    fn a_donor_without_its_slabs_in_ram_cannot_give_them_back() {
        let refused = Failing::begin(Failure::Press, donor("echo ready; exec sleep 600"));
        assert!(matches!(refused, Err(Error::Unavailable(what)) if what.contains("1 slabs")));
    }
}
