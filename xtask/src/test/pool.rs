//! Runs jobs: builds one after the other in one lane, and beside them, in other lanes, what they have built.
//!
//! As many lanes as there are processors take Rust tests first, which mostly compute, and two more take scripts first, which mostly wait for a disk, a
//! server or a deadline. While something is built, one of each kind is open.

use super::job::{Job, Results};
use super::report::Report;
use super::supervise;
use super::tally::Tally;
use rustix::process::{Pid, Signal, kill_process_group};
use std::cell::Cell;
use std::collections::{BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

/// What becomes ready when a build has succeeded, from what the build has printed.
pub type Yields<'a> = Box<dyn Fn(&str) -> Result<Ready, String> + 'a>;

/// Jobs that can run, and tests that are known not to.
#[derive(Default)]
pub struct Ready {
    /// In the order in which they start.
    pub jobs: Vec<Job>,
    /// Tests that their authors have marked as ignored.
    pub ignored: usize,
}

impl From<Vec<Job>> for Ready {
    fn from(jobs: Vec<Job>) -> Self {
        Self { jobs, ignored: 0 }
    }
}

/// A job of the lane that builds.
pub struct Build<'a> {
    /// The command.
    pub job: Job,
    /// What follows from it.
    pub yields: Yields<'a>,
}

impl<'a> Build<'a> {
    /// A build after which `jobs` can run.
    pub fn then(job: Job, jobs: Vec<Job>) -> Self {
        Self { job, yields: Box::new(move |_| Ok(jobs.clone().into())) }
    }

    /// A command from which nothing follows.
    pub fn alone(job: Job) -> Self {
        Self::then(job, Vec::new())
    }
}

/// The lanes and what they have done so far.
pub struct Pool {
    logs: PathBuf,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    ready: VecDeque<Job>,
    building: bool,
    running: Vec<Pid>,
    keys: BTreeSet<&'static str>,
    number: usize,
    interrupted: bool,
    report: Report,
}

/// What one thread runs.
#[derive(Clone, Copy)]
struct Lane {
    /// Jobs of this kind first.
    first: Results,
    /// Whether it is open while something is built.
    beside_builds: bool,
}

impl Lane {
    /// The place of the job that this lane takes next, if there is one that may run now.
    fn next(self, state: &State) -> Option<usize> {
        if state.building && !self.beside_builds {
            return None;
        }
        let free = |job: &Job| job.key.is_none_or(|key| !state.keys.contains(key));
        let preferred = state.ready.iter().position(|job| job.results == self.first && free(job));
        preferred.or_else(|| state.ready.iter().position(free))
    }
}

impl Pool {
    /// Lanes that keep the output of each job in the folder `logs`.
    pub fn new(logs: &Path) -> Self {
        Self { logs: logs.to_owned(), state: Mutex::default(), changed: Condvar::new() }
    }

    /// Runs all builds and what follows from them; what has happened is in the report.
    pub fn run(&self, builds: &[Build<'_>], processors: usize) -> Report {
        self.state().building = true;
        thread::scope(|scope| {
            for number in 0..processors {
                scope.spawn(move || self.lane(Lane { first: Results::Status, beside_builds: number == 0 }));
            }
            for number in 0..2 {
                scope.spawn(move || self.lane(Lane { first: Results::Lines, beside_builds: number == 0 }));
            }
            for build in builds {
                self.build(build);
            }
            self.state().building = false;
            self.changed.notify_all();
        });
        std::mem::take(&mut self.state().report)
    }

    /// Ends what runs and starts nothing more.
    pub fn interrupt(&self) {
        let mut state = self.state();
        state.interrupted = true;
        state.ready.clear();
        for &group in &state.running {
            let _gone = kill_process_group(group, Signal::TERM);
        }
        self.changed.notify_all();
    }

    /// Whether [`Pool::interrupt`] was called.
    pub fn interrupted(&self) -> bool {
        self.state().interrupted
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A lane that panics ends the run anyway, when its scope ends.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn build(&self, build: &Build<'_>) {
        if self.interrupted() {
            return;
        }
        let Some(output) = self.execute(&build.job) else { return };
        match (build.yields)(&output) {
            Ok(ready) => {
                let mut state = self.state();
                state.report.expect(&ready.jobs);
                state.report.ignored(build.job.step, ready.ignored);
                state.ready.extend(ready.jobs);
                self.changed.notify_all();
            }
            Err(why) => self.state().report.broken(&build.job, &why),
        }
    }

    /// Runs jobs until there will be no more.
    fn lane(&self, lane: Lane) {
        while let Some(job) = self.take(lane) {
            self.execute(&job);
            let mut state = self.state();
            if let Some(key) = job.key {
                state.keys.remove(key);
            }
            self.changed.notify_all();
        }
    }

    /// The next job that may run now; none when all have been taken.
    fn take(&self, lane: Lane) -> Option<Job> {
        let mut state = self.state();
        loop {
            if state.interrupted || (!state.building && state.ready.is_empty()) {
                return None;
            }
            if let Some(next) = lane.next(&state) {
                let job = state.ready.remove(next)?;
                state.keys.extend(job.key);
                return Some(job);
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Runs one job and reports it; its output if it has succeeded.
    fn execute(&self, job: &Job) -> Option<String> {
        let (number, log) = {
            let mut state = self.state();
            state.number += 1;
            state.report.starts(job);
            (state.number, self.logs.join(format!("{:04}.log", state.number)))
        };
        let group = Cell::new(None);
        let ended = supervise::run(job, &log, number, &|started| {
            group.set(Some(started));
            self.state().running.push(started);
        });
        let mut state = self.state();
        state.running.retain(|running| Some(*running) != group.get());
        if !state.interrupted {
            let tally = Tally::of(job.results, ended.success(), &ended.output);
            state.report.ended(job, &ended, tally);
        }
        let good = ended.success();
        // Of a test that held there is nothing to read.
        if good && job.results == Results::Status {
            let _gone = std::fs::remove_file(log);
        }
        good.then_some(ended.output)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn job(name: &str, script: &str) -> Job {
        let mut job = Job::script("rust", Path::new("/"), &["sh", "-c", script], Duration::from_secs(100));
        job.name = name.to_owned();
        job.group = name.to_owned();
        job
    }

    fn run(builds: &[Build<'_>]) -> Report {
        let logs = std::env::temp_dir().join(format!("aquifer-pool.{}.{:p}", std::process::id(), builds));
        std::fs::create_dir_all(&logs).expect("a folder");
        let report = Pool::new(&logs).run(builds, 2);
        let _removed = std::fs::remove_dir_all(&logs);
        report
    }

    #[test]
    fn what_a_build_yields_runs_and_is_counted() {
        let tests = vec![job("a", "echo ok a; echo SKIP b"), job("c", "echo ok c; echo FAIL d; exit 1")];
        let builds = [
            Build::then(job("build", "true").counted_by(Results::Nothing), tests),
            Build::alone(job("e", "echo ok e")),
        ];
        let total = run(&builds).total();
        assert_eq!((total.passed, total.failed, total.skipped), (3, 1, 1));
    }

    #[test]
    fn nothing_runs_after_a_build_that_fails_and_that_is_a_failure() {
        let builds =
            [Build::then(job("build", "exit 1").counted_by(Results::Nothing), vec![job("a", "echo ok a")])];
        let total = run(&builds).total();
        assert_eq!((total.passed, total.failed), (0, 1));
    }

    #[test]
    fn jobs_with_one_key_take_turns() {
        let dir = std::env::temp_dir().join(format!("aquifer-pool-key.{}", std::process::id()));
        let script = format!("mkdir {0} && sleep 0.05 && rmdir {0} && echo ok x", dir.display());
        let tests = (0..6).map(|at| job(&at.to_string(), &script).alone_with("key")).collect();
        let total = run(&[Build::then(job("build", "true").counted_by(Results::Nothing), tests)]).total();
        assert_eq!((total.passed, total.failed), (6, 0));
    }
}
