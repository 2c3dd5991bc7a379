//! Waiting until a process rests: what its threads still do for work that is over belongs to that work.

use std::fs;
use std::thread;
use std::time::Duration;

use crate::error::{Error, Result};

const TASKS: &str = "/proc/self/task";
const LOOK_EVERY: Duration = Duration::from_millis(2);
/// Looks in a row that find nothing in a process at rest: a thread that hands work to another is never seen between the two.
const QUIET_LOOKS: u32 = 5;
/// Looks before it counts as restless: half a minute.
const LOOKS_MAX: u32 = 15_000;

/// Returns when all other threads of this process have slept for a while.
///
/// # Errors
/// [`Error::Io`] if the kernel does not tell; [`Error::Child`] if they never do.
pub fn wait() -> Result<()> {
    let mut quiet = 0;
    for _ in 0..LOOKS_MAX {
        quiet = if others_run()? { 0 } else { quiet + 1 };
        if quiet == QUIET_LOOKS {
            return Ok(());
        }
        thread::sleep(LOOK_EVERY);
    }
    let seconds = (LOOKS_MAX * LOOK_EVERY).as_secs();
    let what = format!("is still busy {seconds} s after its work was done");
    Err(Error::Child { peer: "measured".to_owned(), what })
}

/// Whether another thread of this process runs, wants to, or waits for a disk.
///
/// # Errors
/// [`Error::Io`] if the kernel does not tell.
pub fn others_run() -> Result<bool> {
    // SAFETY: a plain question.
    let own = unsafe { libc::gettid() }.to_string();
    let tasks = fs::read_dir(TASKS).map_err(Error::io("reading", TASKS))?;
    let others = tasks.flatten().filter(|task| *task.file_name() != *own);
    // A thread that is gone meanwhile does not run.
    let stats = others.filter_map(|task| fs::read_to_string(task.path().join("stat")).ok());
    Ok(stats.into_iter().any(|stat| is_busy(&stat)))
}

/// The state in a stat file comes after the thread's name, which may hold anything.
fn is_busy(stat: &str) -> bool {
    let state = stat.rsplit_once(')').and_then(|(_, rest)| rest.trim_start().chars().next());
    matches!(state, Some('R' | 'D'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_read() {
        assert!(is_busy("17 (a) R) S) R 1 17 17 0") && is_busy("17 (a) D 1"));
        assert!(!is_busy("17 (R) S 1") && !is_busy("17 (R") && !is_busy(""));
    }
}
