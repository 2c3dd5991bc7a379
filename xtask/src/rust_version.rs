//! The oldest Rust that the project says it needs is one with which all of it builds, and is said in one way everywhere.
//!
//! Functions of the standard library that are younger are found by clippy (`incompatible_msrv`).

use crate::Finding;
use serde::Deserialize;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Places that name the version, and what stands before it there.
const NAMED: [(&str, &str); 5] = [
    ("Cargo.toml", "rust-version = \"1."),
    ("research/Cargo.toml", "rust-version = \"1."),
    ("scripts/env.sh", "RUST_MINOR_MIN="),
    ("CONTRIBUTING.md", "Rust 1."),
    ("docs/reference/manual.md", "Rust 1."),
];

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

/// Any crate that is built from, from outside too.
#[derive(Deserialize)]
struct Package {
    name: String,
    version: String,
    rust_version: Option<String>,
}

/// Compares what is said with what the crates say that they need.
///
/// # Errors
/// If a file cannot be read, or cargo does not answer.
pub fn check(root: &Path) -> Result<Vec<Finding>, String> {
    let mut findings = Vec::new();
    let mut said = Vec::new();
    for (path, before) in NAMED {
        let text = fs::read_to_string(root.join(path)).map_err(|error| format!("{path}: {error}"))?;
        match minor_after(&text, before) {
            Some(minor) => said.push((path, minor)),
            None => findings
                .push(Finding::Broken(format!("{path} does not say which Rust is needed ('{before}NN')"))),
        }
    }
    let Some(&(_, minor)) = said.first() else { return Ok(findings) };
    let others = said.iter().filter(|(_, other)| *other != minor);
    findings.extend(others.map(|(path, other)| {
        Finding::Broken(format!("{path} says Rust 1.{other}, and Cargo.toml says 1.{minor}"))
    }));
    findings.extend(younger(&packages()?, minor));
    Ok(findings)
}

fn packages() -> Result<Vec<Package>, String> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    // Crates for other systems are not built, and need not be there.
    let arguments =
        ["metadata", "--locked", "--format-version", "1", "--filter-platform", "x86_64-unknown-linux-gnu"];
    let output =
        Command::new(&cargo).args(arguments).output().map_err(|error| format!("{cargo}: {error}"))?;
    if !output.status.success() {
        return Err(format!("{cargo} metadata: {}", String::from_utf8_lossy(&output.stderr)));
    }
    let metadata: Metadata =
        serde_json::from_slice(&output.stdout).map_err(|error| format!("{cargo} metadata: {error}"))?;
    Ok(metadata.packages)
}

fn younger(packages: &[Package], minor: u32) -> Vec<Finding> {
    let needs = |package: &Package| minor_after(package.rust_version.as_deref()?, "1.");
    packages
        .iter()
        .filter_map(|package| Some((package, needs(package)?)))
        .filter(|(_, needed)| *needed > minor)
        .map(|(Package { name, version, .. }, needed)| {
            Finding::Broken(format!(
                "{name} {version} needs Rust 1.{needed}, and Cargo.toml says that 1.{minor} is enough"
            ))
        })
        .collect()
}

/// The number behind the first place where `before` is followed by one.
fn minor_after(text: &str, before: &str) -> Option<u32> {
    text.match_indices(before).find_map(|(at, _)| {
        let digits: String = text[at + before.len()..].chars().take_while(char::is_ascii_digit).collect();
        digits.parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_is_found() {
        assert_eq!(minor_after("# Rust 1.\nrust-version = \"1.90\"\n", "rust-version = \"1."), Some(90));
        assert_eq!(minor_after("Rust 1.x or Rust 1.91.2", "Rust 1."), Some(91));
        assert_eq!(minor_after("nothing", "1."), None);
    }

    #[test]
    fn a_crate_that_needs_more_is_broken() {
        let package = |rust_version: Option<&str>| Package {
            name: "a".into(),
            version: "1.0.0".into(),
            rust_version: rust_version.map(str::to_owned),
        };
        let packages = [package(None), package(Some("1.88")), package(Some("1.90.0")), package(Some("1.91"))];
        assert_eq!(younger(&packages, 91), vec![]);
        assert_eq!(younger(&packages, 90).len(), 1);
        assert_eq!(younger(&packages, 88).len(), 2);
    }
}
