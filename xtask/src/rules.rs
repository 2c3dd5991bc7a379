//! The rules as a table: crates in layer order, and which of them may hold unsafe code.

/// Whether a crate may hold unsafe code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsafe {
    /// Its root has `#![forbid(unsafe_code)]`.
    Forbidden,
    /// For the reason given.
    For(&'static str),
}

use Unsafe::{For, Forbidden};

/// One crate of the workspace.
pub struct Rule {
    /// The package's name.
    pub package: &'static str,
    /// Its right to unsafe code.
    pub unsafe_code: Unsafe,
}

const fn rule(package: &'static str, unsafe_code: Unsafe) -> Rule {
    Rule { package, unsafe_code }
}

/// A crate may depend only on crates above it.
pub const LAYERS: &[Rule] = &[
    rule("aquifer-base", Forbidden),
    rule("aquifer-sys", For("system calls and signal handlers")),
    rule("aquifer-device", For("buffers that the kernel fills")),
    rule("aquifer-status", Forbidden),
    rule("aquifer-log", Forbidden),
    rule("aquifer-map", For("entries and leaves in mapped memory")),
    rule("aquifer-cache", For("slabs in mapped memory")),
    rule("aquifer-vm", For("pages that others change, fault handlers")),
    rule("aquifer-heap", Forbidden),
    rule("aquifer-durable", For("objects behind raw pointers")),
    rule("aquifer-volume", For("mapped files, which other processes change")),
    rule("aquifer-mount", Forbidden),
    rule("aquifer-remote", For("libfabric, and memory that others change")),
    rule("aquifer-gossip", Forbidden),
    rule("aquifer-block", For("requests that the kernel writes, and buffers that it fills")),
    rule("aquifer-nbdkit", For("pointers of nbdkit")),
    rule("aquifer-probe", Forbidden),
    rule("aquifer", For("batches, and objects as values of Rust types")),
    rule("aquifer-capi", For("pointers of C callers")),
    rule("aquifer-preload", For("pointers of C callers")),
    rule("aquifer-python", For("memory of NumPy arrays")),
    rule("aquifer-sqlite", For("pointers of SQLite")),
    rule("aquifer-cli", Forbidden),
    rule("aquifer-bench", For("peers are C libraries and raw mappings")),
    rule("aquifer-soak", For("objects that threads write and compare in place")),
    rule("aquifer-sim", Forbidden),
    rule("xtask", Forbidden),
];

/// Lines of a Rust file outside tests from which it is reported, and over which it is refused.
pub const LINES_REPORTED: usize = 400;
/// See [`LINES_REPORTED`].
pub const LINES_MAX: usize = 500;

/// Position of a package in [`LAYERS`].
pub fn layer(package: &str) -> Option<usize> {
    LAYERS.iter().position(|rule| rule.package == package)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_crate_has_one_layer() {
        let names: HashSet<_> = LAYERS.iter().map(|rule| rule.package).collect();
        assert_eq!(names.len(), LAYERS.len());
    }
}
