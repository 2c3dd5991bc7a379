//! What a comparison goes on without.

use crate::error::{Error, Result};

/// Remembers whether something that was left out had failed.
#[derive(Debug, Default)]
pub struct Omissions {
    failed: Option<Error>,
}

impl Omissions {
    /// Leaves something out because of `error`. Returns the reason, to be recorded.
    ///
    /// # Errors
    /// `error` itself if it is [`Error::WrongData`], which nothing goes on after.
    pub fn reason(&mut self, error: Error) -> Result<String> {
        let reason = error.to_string();
        match error {
            Error::WrongData { .. } => return Err(error),
            Error::Unavailable(_) => {}
            error => _ = self.failed.get_or_insert(error),
        }
        Ok(reason)
    }

    /// Ends the comparison.
    ///
    /// # Errors
    /// The first one that was more than a lack of the machine.
    pub fn end(self) -> Result<()> {
        self.failed.map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn child(what: &str) -> Error {
        Error::Child { peer: "x".to_owned(), what: what.to_owned() }
    }

    #[test]
    fn a_lack_is_no_failure() {
        let mut omissions = Omissions::default();
        let reason = omissions.reason(Error::Unavailable("no fio".to_owned())).expect("it can be left out");
        assert_eq!(reason, "no fio");
        omissions.end().expect("nothing failed");
    }

    #[test]
    fn the_first_failure_is_told_in_the_end() {
        let mut omissions = Omissions::default();
        for what in ["ended early", "failed"] {
            let reason = omissions.reason(child(what)).expect("it can be left out");
            assert_eq!(reason, format!("the x process {what}"));
        }
        assert_eq!(omissions.end().expect_err("two failed").to_string(), "the x process ended early");
    }

    #[test]
    fn wrong_data_is_not_left_out() {
        let mut omissions = Omissions::default();
        let wrong = Error::WrongData { peer: "x".to_owned(), what: "object 1".to_owned() };
        assert!(matches!(omissions.reason(wrong), Err(Error::WrongData { .. })));
    }
}
