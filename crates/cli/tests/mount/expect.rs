//! Outcomes.

use std::fmt::Debug;
use std::io;

/// The number of the error that something must fail with.
#[track_caller]
pub fn fails<T: Debug, E: Into<io::Error>>(outcome: Result<T, E>, errno: rustix::io::Errno) {
    match outcome.map_err(Into::into) {
        Ok(value) => panic!("{value:?} in place of {errno}"),
        Err(error) => {
            assert_eq!(error.raw_os_error(), Some(errno.raw_os_error()), "{error} in place of {errno}")
        }
    }
}
