//! The tests of the workspace, each as a job of its own: a test that hangs, crashes or changes the process it runs in is one that fails, not all of its file.

use super::job::{Job, Results};
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// No test needs a third of it, also beside a build.
const LIMIT: Duration = Duration::from_secs(400);

/// A test binary that cargo has built.
#[derive(Debug, PartialEq, Eq)]
pub struct Binary {
    /// The package's name.
    package: String,
    /// The package's folder, in which its tests run.
    directory: PathBuf,
    /// Its version, for tests that compare it with what they find.
    version: String,
    /// Name of the target: the library's, a binary's or a file's in `tests`.
    target: String,
    /// The program.
    path: PathBuf,
}

/// One line of cargo's with `--message-format=json`.
#[derive(Deserialize)]
struct Message {
    reason: String,
    manifest_path: Option<PathBuf>,
    package_id: Option<String>,
    target: Option<MessageTarget>,
    executable: Option<PathBuf>,
    profile: Option<MessageProfile>,
}

#[derive(Deserialize)]
struct MessageTarget {
    name: String,
}

#[derive(Deserialize)]
struct MessageProfile {
    test: bool,
}

/// The test binaries that the messages of `cargo test --no-run` name; lines that are no messages are passed over.
pub fn named_in(output: &str) -> Vec<Binary> {
    let messages = output.lines().filter(|line| line.starts_with('{'));
    messages.filter_map(|line| binary(serde_json::from_str(line).ok()?)).collect()
}

fn binary(message: Message) -> Option<Binary> {
    let is_test = message.reason == "compiler-artifact" && message.profile?.test;
    let directory = message.manifest_path?.parent()?.to_owned();
    // As in `path+file:///x/crates/base#aquifer-base@0.1.0`, or without the name where the folder has it.
    let id = message.package_id?;
    let (place, what) = id.rsplit_once('#')?;
    let (package, version) = what.split_once('@').unwrap_or((place.rsplit('/').next()?, what));
    let found = Binary {
        package: package.to_owned(),
        directory,
        version: version.to_owned(),
        target: message.target?.name,
        path: message.executable?,
    };
    is_test.then_some(found)
}

impl Binary {
    /// A job for each of its tests that is not ignored, and the number of those that are.
    ///
    /// # Errors
    /// A sentence if it cannot list its tests.
    pub fn jobs(&self, step: &'static str) -> Result<(Vec<Job>, usize), String> {
        let ignored = self.list(&["--ignored"])?;
        let mut all = self.list(&[])?;
        all.retain(|name| !ignored.contains(name));
        Ok((all.iter().map(|name| self.job(step, name)).collect(), ignored.len()))
    }

    fn list(&self, more: &[&str]) -> Result<Vec<String>, String> {
        let mut command = Command::new(&self.path);
        command.args(["--list", "--format", "terse"]).args(more).current_dir(&self.directory);
        let output = command.output().map_err(|error| format!("{}: {error}", self.path.display()))?;
        if !output.status.success() {
            return Err(format!("{} does not list its tests: {}", self.path.display(), output.status));
        }
        let text = String::from_utf8_lossy(&output.stdout);
        Ok(text.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect())
    }

    fn job(&self, step: &'static str, test: &str) -> Job {
        let environment = [
            ("CARGO_MANIFEST_DIR", self.directory.display().to_string()),
            ("CARGO_PKG_NAME", self.package.clone()),
            ("CARGO_PKG_VERSION", self.version.clone()),
        ];
        let group = format!("{} {}", self.package, self.target);
        Job {
            step,
            name: format!("{group}: {test}"),
            group,
            command: [&self.path.display().to_string(), "--exact", test, "--nocapture", "--test-threads=1"]
                .map(str::to_owned)
                .to_vec(),
            directory: self.directory.clone(),
            environment: environment.map(|(name, value)| (name.to_owned(), value)).to_vec(),
            limit: LIMIT,
            results: Results::Status,
            key: None,
        }
    }
}

/// The workspace's folder, from the one of this crate.
pub fn workspace_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is in the workspace").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEST: &str = r#"{"reason":"compiler-artifact","package_id":"path+file:///w/crates/base#aquifer-base@0.1.0","manifest_path":"/w/crates/base/Cargo.toml","target":{"kind":["test"],"name":"parsers","src_path":"/w/x.rs"},"profile":{"opt_level":"1","test":true},"executable":"/w/target/debug/deps/parsers-1"}"#;

    #[test]
    fn test_binaries_are_found_among_other_lines() {
        let library = TEST.replace("\"test\":true", "\"test\":false");
        let output = format!(
            "   Compiling x\n{library}\n{TEST}\n{{\"reason\":\"build-finished\",\"success\":true}}\n"
        );
        let found = named_in(&output);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].package.as_str(), found[0].target.as_str()), ("aquifer-base", "parsers"));
        assert_eq!(found[0].version, "0.1.0");
        assert_eq!(found[0].directory, Path::new("/w/crates/base"));
    }

    #[test]
    fn a_package_named_as_its_folder_has_its_name() {
        let found = named_in(&TEST.replace("crates/base#aquifer-base@", "xtask#"));
        assert_eq!((found[0].package.as_str(), found[0].version.as_str()), ("xtask", "0.1.0"));
    }

    #[test]
    fn this_binary_lists_its_tests() {
        let binary = Binary {
            package: "xtask".into(),
            directory: workspace_root(),
            version: String::new(),
            target: "xtask".into(),
            path: std::env::current_exe().expect("this test"),
        };
        let (jobs, ignored) = binary.jobs("rust").expect("it lists");
        assert!(jobs.iter().any(|job| job.name.ends_with("this_binary_lists_its_tests")));
        assert_eq!(ignored, 0);
    }
}
