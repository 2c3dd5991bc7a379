//! The packages of the workspace, as `cargo metadata` sees them.

use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What the checks need of `cargo metadata`.
#[derive(Deserialize)]
pub struct Workspace {
    /// The workspace's directory.
    #[serde(rename = "workspace_root")]
    pub root: PathBuf,
    /// Where cargo puts what it builds.
    #[serde(rename = "target_directory")]
    pub target: PathBuf,
    /// Its members; `--no-deps` leaves out everything else.
    pub packages: Vec<Package>,
}

/// A member of the workspace.
#[derive(Deserialize)]
pub struct Package {
    /// As in its manifest.
    pub name: String,
    /// Of every kind, for every target.
    pub dependencies: Vec<Dependency>,
    /// Library, binaries, tests, benches, build script.
    pub targets: Vec<Target>,
}

/// A dependency as declared.
#[derive(Deserialize)]
pub struct Dependency {
    /// The package depended on.
    pub name: String,
    /// `None` for normal ones, else `dev` or `build`.
    pub kind: Option<String>,
    /// Where it is, if it is in this workspace.
    pub path: Option<PathBuf>,
}

/// Something that cargo builds from a package.
#[derive(Deserialize)]
pub struct Target {
    /// `lib`, `bin`, `test`, ...
    pub kind: Vec<String>,
    /// Its root file.
    pub src_path: PathBuf,
}

impl Target {
    /// Whether it is shipped, unlike tests, benches, examples and build scripts.
    pub fn is_product(&self) -> bool {
        let other = ["test", "bench", "example", "custom-build"];
        !self.kind.iter().any(|kind| other.contains(&kind.as_str()))
    }
}

/// Asks cargo for the workspace that has `folder`.
///
/// # Errors
/// What cargo says, if it does not run or its answer makes no sense.
pub fn load(folder: &Path) -> Result<Workspace, String> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let output = Command::new(&cargo)
        .current_dir(folder)
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .output()
        .map_err(|error| format!("{cargo} metadata does not run: {error}"))?;
    if !output.status.success() {
        return Err(format!("{cargo} metadata: {}", String::from_utf8_lossy(&output.stderr)));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| format!("{cargo} metadata: {error}"))
}
