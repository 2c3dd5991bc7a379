//! Which nbdkit this is. Its interface does not say.

use std::env;
use std::process::Command;

/// Version of a release: 1.32 of 1.32.5.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Version(u32, u32);

/// The first release whose threads bear that the client of a connection leaves while several of them answer it. Earlier ones abort then, and every client loses
/// the server; or a reply goes to another client's socket.
const BEARS_EARLY_ENDS: Version = Version(1, 34);

impl Version {
    /// The program in which this runs, asked by its own option; `None` if it does not tell.
    ///
    /// # Context
    /// Starts a process, so: before memory is locked and clients are served.
    pub fn running() -> Option<Version> {
        let output = Command::new(env::current_exe().ok()?).arg("--version").output().ok()?;
        Version::of(std::str::from_utf8(&output.stdout).ok()?)
    }

    /// Whether several requests of a connection may be under way at once.
    pub fn bears_early_ends(self) -> bool {
        self >= BEARS_EARLY_ENDS
    }

    /// As in `nbdkit 1.36.3 (a distribution)`.
    fn of(text: &str) -> Option<Version> {
        let number = text.split_whitespace().nth(1)?;
        let mut parts = number.split('.').map(str::parse);
        Some(Version(parts.next()?.ok()?, parts.next()?.ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_releases_are_told_from_new_ones() {
        let bears = |text| Version::of(text).map(Version::bears_early_ends);
        assert_eq!(bears("nbdkit 1.32.5\n"), Some(false));
        assert_eq!(bears("nbdkit 1.34.0"), Some(true));
        assert_eq!(bears("nbdkit 1.42.2 (nbdkit-1.42.2-1.fc43)\n"), Some(true));
        assert_eq!(bears("nbdkit 2.0.1\n"), Some(true));
        for odd in ["", "nbdkit", "nbdkit x.y", "nbdkit 1"] {
            assert_eq!(bears(odd), None, "{odd}");
        }
    }
}
