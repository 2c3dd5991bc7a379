//! How a borrower works.

use crate::control::Security;
use crate::transport::LinkOptions;

/// How a borrower works.
#[derive(Clone, Debug)]
pub struct BorrowerOptions {
    /// Host and port of each donor.
    pub donors: Vec<String>,
    /// Whom it believes.
    pub security: Security,
    /// For people at the donors: program and process.
    pub name: String,
    /// Of its connections.
    pub link: LinkOptions,
}

impl Default for BorrowerOptions {
    fn default() -> Self {
        BorrowerOptions {
            donors: Vec::new(),
            security: Security::Loopback,
            name: format!("process {}", std::process::id()),
            link: LinkOptions::default(),
        }
    }
}
