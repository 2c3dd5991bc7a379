//! Noticing the end of a forked process.

use core::sync::atomic::{AtomicI32, Ordering};

use crate::descriptors;
use crate::errno::{Errno, Result};

const NONE: i32 = -1;

/// The end of a line that is held by a process and those that it forks, until the last of them ends or becomes another
/// program.
#[derive(Debug)]
pub struct Line(AtomicI32);

/// Sees whether all who held the line have let go.
#[derive(Debug)]
pub struct Watch(i32);

/// A new line, and its watch.
///
/// # Errors
/// `EMFILE` without descriptors.
pub fn lifeline() -> Result<(Line, Watch)> {
    let mut ends = [NONE; 2];
    // SAFETY: the kernel writes the two descriptors.
    let returned = unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC | libc::O_NONBLOCK) };
    Errno::check(i64::from(returned))?;
    let [watch, line] = ends.map(descriptors::own);
    Ok((Line(AtomicI32::new(line)), Watch(watch)))
}

impl Line {
    /// A line that nobody holds.
    pub const fn none() -> Line {
        Line(AtomicI32::new(NONE))
    }

    /// Takes over what `other` holds. What this one held must have been let go or kept.
    pub fn take(&self, other: Line) {
        self.0.store(other.0.swap(NONE, Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Lets go of the line in this process.
    ///
    /// # Context
    /// Signal-safe.
    pub fn let_go(&self) {
        let fd = self.0.swap(NONE, Ordering::Relaxed);
        if fd != NONE {
            descriptors::close(fd);
        }
    }

    /// Holds the line as long as this process lives. Returns whether there was one.
    pub fn keep(&self) -> bool {
        self.0.swap(NONE, Ordering::Relaxed) != NONE
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.let_go();
    }
}

impl Watch {
    /// Whether nobody holds the line any more.
    pub fn is_cut(&self) -> bool {
        let mut poll = libc::pollfd { fd: self.0, events: 0, revents: 0 };
        // SAFETY: one structure of ours; the call returns at once.
        unsafe { libc::poll(&raw mut poll, 1, 0) };
        poll.revents != 0
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        descriptors::close(self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_lives_as_long_as_its_last_holder() {
        let (line, watch) = lifeline().expect("pipe");
        let kept = Line::none();
        assert!(!watch.is_cut());
        kept.take(line);
        assert!(!watch.is_cut());
        kept.let_go();
        kept.let_go();
        assert!(watch.is_cut() && !kept.keep());
    }

    #[test]
    fn a_child_holds_it() {
        let (line, watch) = lifeline().expect("pipe");
        let (wait, go) = lifeline().expect("pipe");
        // SAFETY: the child only polls and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            go.is_cut();
            drop(wait);
            while !go.is_cut() {
                std::thread::yield_now();
            }
            // SAFETY: ends the child.
            unsafe { libc::_exit(i32::from(!line.keep())) };
        }
        drop(line);
        assert!(!watch.is_cut());
        drop(wait);
        let mut status = -1;
        // SAFETY: our child.
        unsafe { libc::waitpid(child, &raw mut status, 0) };
        assert!(status == 0 && watch.is_cut());
    }
}
