//! What is built, in which order, and what then runs: the steps of `make test`, and what `make test-full` has more.

use super::binaries::{self, Binary};
use super::job::{Job, Results};
use super::pool::{Build, Ready};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// All steps, in the order in which people think of them.
pub const STEPS: [&str; 17] = [
    "lint", "rust", "doc", "soak", "loom", "c", "examples", "preload", "programs", "corpus", "mount",
    "block", "sqlite", "remote", "browser", "python", "install",
];
/// A build may take so long on a slow machine that does other things.
const BUILD_LIMIT: Duration = Duration::from_secs(3600);
/// No script of the short run needs a third of it.
const SCRIPT_LIMIT: Duration = Duration::from_secs(1200);
/// The same of the full run.
const LONG_LIMIT: Duration = Duration::from_secs(4 * 3600);

/// How often tests with random faults try in the full run: power cuts, SIGKILL, donors that fail, made-up inputs.
const LONG_FORMS: [(&str, &str); 5] = [
    ("AQUIFER_LONG", "1"),
    ("AQUIFER_CRASHES", "1000"),
    ("AQUIFER_KILLS", "300"),
    ("AQUIFER_STORMS", "1000"),
    ("PROPTEST_CASES", "2000"),
];

/// Words in the names of scripts that take longest, half a minute and more beside others: they start first, so that none of them runs alone in the end.
const LONGEST: [&str; 11] = [
    "corpus/run.py",
    "preload/run.sh storm",
    "remote/run.sh",
    "examples/memcached",
    "sqlite-tests.sh",
    "c/run.sh pressure",
    "block/run.sh",
    "examples/btree",
    "preload/run.sh snapshot",
    "preload/run.sh profile",
    "programs/run.sh xz",
];

/// Ends of the names of jobs of which one at a time runs: some have the kernel swap, which is pressure on the memory of the whole machine, and the others
/// have donors, who lend nothing then.
const PRESSURE: [&str; 9] = [
    "preload/run.sh storm",
    "preload/run.sh swapped",
    "preload/run.sh shrinks",
    "preload/run.sh swapoff",
    "remote/run.sh",
    "remote/cluster.sh 1",
    "remote/cluster.sh 20",
    "block/run.sh",
    "aquifer-cli command",
];

/// The job, alone with the others of its kind.
fn apart(job: Job) -> Job {
    if PRESSURE.iter().any(|words| job.name.ends_with(words)) { job.alone_with("pressure") } else { job }
}

/// What was asked for.
pub struct Plan<'a> {
    /// The workspace.
    pub root: &'a Path,
    /// Where cargo builds.
    pub target: &'a Path,
    /// Long forms, and everything optimised as it is released.
    pub full: bool,
    /// Steps; all if it is empty.
    pub steps: &'a [String],
}

impl<'a> Plan<'a> {
    fn wants(&self, step: &str) -> bool {
        self.steps.is_empty() || self.steps.iter().any(|wanted| wanted == step)
    }

    /// Builds and what follows from them, those first that most waits for.
    ///
    /// # Errors
    /// A sentence if a script does not list its tests.
    pub fn builds(&self) -> Result<Vec<Build<'a>>, String> {
        let mut builds = Vec::new();
        let on_the_library = self.on_the_library()?;
        if self.wants("rust") || !(self.full || on_the_library.is_empty()) {
            builds.push(self.all_targets());
        }
        if !on_the_library.is_empty() {
            builds.push(Build::then(self.library(), on_the_library));
        }
        let cargo: [(&str, Vec<Job>); 4] = [
            ("doc", vec![self.cargo("doc", &["test", "--workspace", "--doc"], Results::Cargo)]),
            ("loom", self.loom()),
            ("lint", self.lint()),
            ("soak", if self.full { self.soak() } else { Vec::new() }),
        ];
        for (step, jobs) in cargo {
            if self.wants(step) {
                builds.extend(jobs.into_iter().map(Build::alone));
            }
        }
        Ok(builds)
    }

    /// Scripts test what was built with the Rust tests; in the full run, what is released.
    fn job(&self, step: &'static str, command: &[&str], limit: Duration) -> Job {
        let job = Job::script(step, self.root, command, limit);
        if self.full {
            job.with("AQUIFER_LONG", "1")
        } else {
            job.with("AQUIFER_BUILT", &self.built().display().to_string())
        }
    }

    /// Where cargo puts what tests are built of.
    fn built(&self) -> PathBuf {
        self.target.join("debug")
    }

    fn script(&self, step: &'static str, command: &[&str]) -> Job {
        self.job(step, command, if self.full { LONG_LIMIT } else { SCRIPT_LIMIT })
    }

    fn cargo(&self, step: &'static str, arguments: &[&str], results: Results) -> Job {
        let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
        let command: Vec<&str> = std::iter::once(cargo.as_str()).chain(arguments.iter().copied()).collect();
        self.job(step, &command, BUILD_LIMIT).counted_by(results)
    }

    fn library(&self) -> Job {
        self.job("build", &["scripts/build-lib.sh"], BUILD_LIMIT).counted_by(Results::Nothing)
    }

    // ---- Rust ---------------------------------------------------------------

    /// Everything in one call, so that crates which tests, library and command share are built once.
    fn all_targets(&self) -> Build<'a> {
        let arguments = ["build", "--workspace", "--all-targets", "--message-format=json-render-diagnostics"];
        let job = self.cargo("build", &arguments, Results::Nothing);
        if !self.wants("rust") {
            return Build::alone(job);
        }
        let mut more = vec![("AQUIFER_BUILT", self.built().display().to_string())];
        if self.full {
            more.extend(LONG_FORMS.map(|(name, value)| (name, value.to_owned())));
        }
        let limit = self.full.then_some(LONG_LIMIT);
        Build { job, yields: Box::new(move |output| tests_of(&binaries::named_in(output), &more, limit)) }
    }

    /// Long tests of what is released, and simulations that need optimisation.
    fn soak(&self) -> Vec<Job> {
        let tests = ["--test", "soak", "--test", "soak_amplification", "--test", "soak_time"];
        let arguments = ["test", "--profile", "soak", "-p", "aquifer-soak", "-p", "aquifer-device"];
        vec![self.cargo("soak", &[&arguments[..], &tests, &["--", "--show-output"]].concat(), Results::Cargo)]
    }

    /// Model-checks the atomic protocols, and the locks of a volume's pages.
    fn loom(&self) -> Vec<Job> {
        let target = self.target.join("loom");
        let map = ["test", "--profile", "soak", "-p", "aquifer-map", "--lib", "loom"];
        let volume = ["test", "-p", "aquifer-volume", "--features", "loom", "--lib", "loom"];
        let job = self.cargo("loom", &map, Results::Cargo);
        vec![
            job.with("RUSTFLAGS", "--cfg loom").with("CARGO_TARGET_DIR", &target.display().to_string()),
            self.cargo("loom-volume", &volume, Results::Cargo),
        ]
    }

    fn lint(&self) -> Vec<Job> {
        let what: &[&str] = if self.full { &["scripts/lint.sh", "--full"] } else { &["scripts/lint.sh"] };
        vec![self.job("lint", what, BUILD_LIMIT)]
    }

    // ---- Scripts ------------------------------------------------------------

    /// What needs the library and the command in `build`; the longest first.
    fn on_the_library(&self) -> Result<Vec<Job>, String> {
        let mut jobs = Vec::new();
        let mut add = |step: &'static str, made: Vec<Job>| {
            if self.wants(step) {
                jobs.extend(made.into_iter().map(apart));
            }
        };
        add("sqlite", self.sqlite());
        add("examples", self.examples());
        add("remote", self.remote());
        add("preload", self.each("preload", "tests/preload/run.sh")?);
        add("block", vec![self.script("block", &["tests/block/run.sh"])]);
        let seconds = if self.full { "60" } else { "10" };
        add("mount", vec![self.script("mount", &["tests/mount/postgres.sh", "-T", seconds])]);
        let rounds = if self.full { "60" } else { "5" };
        add("mount", vec![self.script("mount", &["tests/mount/kills.sh"]).with("ROUNDS", rounds)]);
        if self.full {
            add("mount", vec![self.script("mount", &["tests/mount/suites.sh"])]);
        }
        add("programs", self.programs()?);
        // One job: its programs are installed into one place, and their memory is measured.
        let corpus: &[&str] =
            if self.full { &["tests/corpus/run.py"] } else { &["tests/corpus/run.py", "--short"] };
        add("corpus", vec![self.script("corpus", corpus).counted_by(Results::Lines)]);
        add("c", self.each("c", "tests/c/run.sh")?);
        add("c", self.each("c", "tests/cpp/run.sh")?);
        add("python", self.each("python", "tests/python/run.sh")?);
        add("browser", vec![self.script("browser", &["tests/browser/run.sh"])]);
        add("install", vec![self.script("install", &["tests/install.sh"])]);
        if self.full {
            add("install", vec![self.script("install", &["tests/packages/run.sh"])]);
        }
        jobs.sort_by_key(|job| {
            LONGEST.iter().position(|long| job.name.contains(long)).unwrap_or(LONGEST.len())
        });
        Ok(jobs)
    }

    /// A job for each name that a script lists.
    fn each(&self, step: &'static str, script: &str) -> Result<Vec<Job>, String> {
        let output = Command::new(self.root.join(script)).arg("--list").output();
        let output = output.map_err(|error| format!("{script} --list: {error}"))?;
        let names = String::from_utf8_lossy(&output.stdout);
        let jobs: Vec<Job> = names.lines().map(|name| self.script(step, &[script, name])).collect();
        if jobs.is_empty() { Err(format!("{script} --list names nothing")) } else { Ok(jobs) }
    }

    fn programs(&self) -> Result<Vec<Job>, String> {
        let jobs = self.each("programs", "tests/programs/run.sh")?;
        Ok(if self.full {
            jobs
        } else {
            jobs.into_iter().map(|job| job.with("PROGRAMS_SMALL", "1")).collect()
        })
    }

    fn sqlite(&self) -> Vec<Job> {
        let form: &[&str] =
            if self.full { &["scripts/sqlite-tests.sh"] } else { &["scripts/sqlite-tests.sh", "--short"] };
        let on = |place| {
            let mut job = self.script("sqlite", form).with("SQLITE_TESTS_ON", place).alone_with("sqlite");
            job.name = format!("{} ({place})", job.name);
            if self.full { job } else { job.with("SQLITE_TESTS_BUILDS", "plain") }
        };
        vec![on("vfs"), on("mount")]
    }

    fn examples(&self) -> Vec<Job> {
        let memcached =
            ["sh", "-c", "examples/memcached/build.sh || [ $? = 77 ] && examples/memcached/test.sh"];
        let mut jobs = vec![self.script("examples", &memcached)];
        let directories = [
            "examples/sessions",
            "examples/btree",
            "examples/packetcache",
            "examples/hashcache",
            "examples/durable-kv",
            "examples/kv",
        ];
        jobs.extend(
            directories
                .map(|directory| self.script("examples", &["make", "--quiet", "-C", directory, "test"])),
        );
        jobs
    }

    fn remote(&self) -> Vec<Job> {
        let seeds = if self.full { "20" } else { "1" };
        let programs = self.script("remote", &["tests/remote/run.sh"]);
        vec![programs, self.script("remote", &["tests/remote/cluster.sh", seeds])]
    }
}

/// The tests of `binaries`, with `more` in their environment, and another limit if there is one.
fn tests_of(binaries: &[Binary], more: &[(&str, String)], limit: Option<Duration>) -> Result<Ready, String> {
    if binaries.is_empty() {
        return Err("cargo has named no test binary".to_owned());
    }
    let mut ready = Ready::default();
    for binary in binaries {
        let (jobs, ignored) = binary.jobs("rust")?;
        ready.ignored += ignored;
        ready.jobs.extend(jobs.into_iter().map(|mut job| {
            job.limit = limit.unwrap_or(job.limit);
            job = apart(job);
            more.iter().fold(job, |job, (name, value)| job.with(name, value))
        }));
    }
    Ok(ready)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn steps(full: bool, steps: &[&str]) -> BTreeSet<&'static str> {
        let root = binaries::workspace_root();
        let steps: Vec<String> = steps.iter().map(|&step| step.to_owned()).collect();
        let target = root.join("target");
        let builds = Plan { root: &root, target: &target, full, steps: &steps }
            .builds()
            .expect("scripts list their tests");
        let jobs = builds.iter().flat_map(|build| {
            let after = if build.job.name.contains("--all-targets") { None } else { (build.yields)("").ok() };
            std::iter::once(build.job.step)
                .chain(after.into_iter().flat_map(|ready| ready.jobs).map(|job| job.step))
        });
        jobs.collect()
    }

    #[test]
    fn every_step_has_jobs() {
        let full = steps(true, &[]);
        assert!(STEPS.iter().filter(|step| **step != "rust").all(|step| full.contains(step)), "{full:?}");
    }

    #[test]
    fn only_what_is_asked_for_runs() {
        assert_eq!(steps(false, &["c"]), BTreeSet::from(["build", "c"]));
        assert_eq!(steps(false, &["lint"]), BTreeSet::from(["lint"]));
    }
}
