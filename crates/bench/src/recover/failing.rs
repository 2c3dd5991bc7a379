//! A donor that fails, from the signal on.

use std::thread;
use std::time::{Duration, Instant};

use super::failure::{Failure, STOP};
use crate::cleanup::Guard;
use crate::error::{Error, Result};
use crate::service::Service;

/// Longest wait for the end of a donor that leaves, once the program has ended.
const LEAVE_MAX: Duration = Duration::from_secs(30);
/// How often it is looked at.
pub const STEP: Duration = Duration::from_millis(2);

/// What fails, and since when. Ended when dropped, after it was let go on.
#[derive(Debug)]
pub struct Failing {
    stopped: Option<Guard>,
    donor: Service,
    failure: Failure,
    since: Instant,
    left_after: Option<Duration>,
}

impl Failing {
    /// Lets it happen.
    pub fn begin(failure: Failure, donor: Service) -> Self {
        let since = Instant::now();
        let mut stopped = None;
        match failure {
            Failure::Kill => donor.signal(libc::SIGKILL),
            Failure::Stop => stopped = Some(donor.stop()),
            Failure::Leave => donor.signal(libc::SIGTERM),
        }
        Self { stopped, donor, failure, since, left_after: None }
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
    }

    /// How long a donor that leaves took until its process had ended and the kernel had its RAM; none of other failures.
    ///
    /// # Errors
    /// [`Error::Child`] if it does not end, or not as it should.
    pub fn end(mut self) -> Result<Option<Duration>> {
        if self.failure != Failure::Leave {
            return Ok(None);
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
        Ok(self.left_after)
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn donor(script: &str) -> Service {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        let mut donor = Service::start("donor", command).expect("a shell");
        donor.wait_for(|line| (line == "ready").then_some(())).expect("it says so");
        donor
    }

    #[test]
    fn the_time_until_it_has_left_is_told() {
        let leaves = donor("trap 'sleep 0.2; exit 0' TERM; echo ready; while :; do sleep 0.01; done");
        let left_after = Failing::begin(Failure::Leave, leaves).end().expect("it leaves").expect("and when");
        assert!(left_after >= Duration::from_millis(200), "{left_after:?}");
        let breaks = donor("trap 'exit 1' TERM; echo ready; while :; do sleep 0.01; done");
        assert!(matches!(Failing::begin(Failure::Leave, breaks).end(), Err(Error::Child { .. })));
    }

    #[test]
    fn others_are_not_waited_for() {
        let killed = Failing::begin(Failure::Kill, donor("echo ready; exec sleep 600"));
        assert_eq!(killed.end().expect("nothing to say"), None);
        let mut stopped = Failing::begin(Failure::Stop, donor("echo ready; exec sleep 600"));
        stopped.look();
        assert!(stopped.stopped.is_some() && !stopped.donor.has_ended());
        assert_eq!(stopped.end().expect("nothing to say"), None);
    }
}
