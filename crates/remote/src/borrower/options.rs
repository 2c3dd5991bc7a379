//! How a borrower works.

use crate::control::Security;
use crate::transport::LinkOptions;

/// Of borrowers that say nothing of it.
const WEIGHT: u32 = 100;

/// How a borrower works.
#[derive(Clone, Debug)]
pub struct BorrowerOptions {
    /// Host and port of each donor.
    pub donors: Vec<String>,
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
            security: Security::Loopback,
            name: format!("process {}", std::process::id()),
            weight: WEIGHT,
            link: LinkOptions::default(),
        }
    }
}
