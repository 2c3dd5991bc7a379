//! What a donor did of late, for those who look at it.

use std::fmt;

use super::lending::BorrowerId;
use crate::control::SlabId;
use crate::words::Words;

/// What a donor did with a slab or a borrower.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    /// A borrower has come.
    Came,
    /// A slab was lent.
    Lent,
    /// A borrower gave a slab back.
    GivenBack,
    /// A borrower was asked to leave a slab.
    AskedBack,
    /// A borrower did not leave a slab in time, and its connection was ended.
    Forced,
    /// A slab of a borrower that is gone was taken back.
    TakenBack,
    /// A borrower is gone.
    Gone,
}

/// Something that a donor did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Deed {
    /// What.
    pub what: What,
    /// With which slab, if with one.
    pub slab: Option<SlabId>,
    /// With whom.
    pub borrower: BorrowerId,
    /// As the borrower calls itself: any characters.
    pub name: Words,
}

impl fmt::Display for Deed {
    /// A sentence without an end. The name is as the borrower sent it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let who = format_args!("borrower {} ({})", self.borrower.0, self.name.as_str());
        let slab = self.slab.map_or(0, |slab| slab.0);
        match self.what {
            What::Came => write!(f, "{who} has come"),
            What::Lent => write!(f, "slab {slab} lent to {who}"),
            What::GivenBack => write!(f, "slab {slab} given back by {who}"),
            What::AskedBack => write!(f, "slab {slab} asked back from {who}"),
            What::Forced => write!(f, "slab {slab} not left in time: connection of {who} ended"),
            What::TakenBack => write!(f, "slab {slab} taken back, its borrower is gone: {who}"),
            What::Gone => write!(f, "{who} is gone"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deeds_are_sentences() {
        let deed = |what, slab| Deed { what, slab, borrower: BorrowerId(3), name: Words::of("process 7") };
        assert_eq!(deed(What::Lent, Some(SlabId(9))).to_string(), "slab 9 lent to borrower 3 (process 7)");
        assert_eq!(deed(What::Gone, None).to_string(), "borrower 3 (process 7) is gone");
    }
}
