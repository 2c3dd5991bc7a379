//! What was left undone, while the rest was done.

use std::process::ExitCode;

use crate::error::{Error, printable};

/// Whether all was done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Outcome {
    problems: u64,
}

impl Outcome {
    /// Tells of something that was left undone.
    pub fn note(&mut self, error: Error) {
        eprintln!("aquifer: {}", printable(&error.to_string()));
        self.problems += 1;
    }

    /// Goes on after what went wrong with one file, ends at what goes wrong with all.
    ///
    /// # Errors
    /// What goes wrong with all.
    pub fn go_on<T>(&mut self, result: Result<T, Error>) -> Result<Option<T>, Error> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(error) if error.is_of_one_file() => {
                self.note(error);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// 0 if all was done, 1 if not.
    pub fn exit_code(self) -> ExitCode {
        if self.problems == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}
