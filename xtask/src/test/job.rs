//! One command whose end is a result, with everything that is needed to run it alone.

use std::path::PathBuf;
use std::time::Duration;

/// How the number of tests is told from a job's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Results {
    /// The job is one test: its exit status decides, and a line that begins with `SKIP ` skips it.
    Status,
    /// The output has a line for each test, which begins with `ok `, `FAIL ` or `SKIP `.
    Lines,
    /// The output has the summaries of `cargo test`.
    Cargo,
    /// Nothing is counted unless it fails: a build.
    Nothing,
}

/// A command of a step.
#[derive(Clone, Debug)]
pub struct Job {
    /// The step that it belongs to.
    pub step: &'static str,
    /// Its name within the step, as in `aquifer-log log: records::round_trip`.
    pub name: String,
    /// Jobs of one group are summed up in one line.
    pub group: String,
    /// Program and arguments.
    pub command: Vec<String>,
    /// Where it runs.
    pub directory: PathBuf,
    /// What its environment has more than ours.
    pub environment: Vec<(String, String)>,
    /// It is ended, and has failed, after this time.
    pub limit: Duration,
    /// How its output is counted.
    pub results: Results,
    /// Jobs with the same key never run at the same time.
    pub key: Option<&'static str>,
}

impl Job {
    /// A job of `step` that runs `command` in `directory` and is counted by its lines.
    pub fn script(
        step: &'static str,
        directory: &std::path::Path,
        command: &[&str],
        limit: Duration,
    ) -> Self {
        let command: Vec<String> = command.iter().map(|&word| word.to_owned()).collect();
        Self {
            step,
            name: command.join(" "),
            group: command.join(" "),
            command,
            directory: directory.to_owned(),
            environment: Vec::new(),
            limit,
            results: Results::Lines,
            key: None,
        }
    }

    /// The same with one variable more in its environment.
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The same, counted in another way.
    pub fn counted_by(mut self, results: Results) -> Self {
        self.results = results;
        self
    }

    /// The same, never beside another job with this key.
    pub fn alone_with(mut self, key: &'static str) -> Self {
        self.key = Some(key);
        self
    }
}
