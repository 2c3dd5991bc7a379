//! How a borrower works.

use crate::control::Security;
use crate::transport::LinkOptions;

/// Of borrowers that say nothing of it.
const WEIGHT: u32 = 100;
/// Connections of borrowers that say nothing of it.
const DONORS_MAX: usize = 8;

/// How a borrower works.
#[derive(Clone, Debug)]
pub struct BorrowerOptions {
    /// Host and port of each donor that is named. They are always tried.
    pub donors: Vec<String>,
    /// Whether it keeps to those; else it asks them who else lends, and borrows there as well.
    pub donors_only: bool,
    /// To how many it is connected at once, if no more are named. Each takes the RAM of a link.
    pub donors_max: usize,
    /// Whom it believes.
    pub security: Security,
    /// For people at the donors: program and process.
    pub name: String,
    /// How donors divide slabs while there are too few: 1 to 1000.
    pub weight: u32,
    /// Of its connections.
    pub link: LinkOptions,
}

impl Default for BorrowerOptions {
    fn default() -> Self {
        BorrowerOptions {
            donors: Vec::new(),
            donors_only: false,
            donors_max: DONORS_MAX,
            security: Security::Loopback,
            name: format!("process {}", std::process::id()),
            weight: WEIGHT,
            link: LinkOptions::default(),
        }
    }
}

impl BorrowerOptions {
    /// To how many donors it is connected at once.
    #[must_use]
    pub fn connections_max(&self) -> usize {
        let learned = if self.donors_only { 0 } else { self.donors_max };
        self.donors.len().max(learned)
    }
}
