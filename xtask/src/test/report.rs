//! What people read: a line for each group of tests when it is through, and at the end where the time went.

use super::job::{Job, Results};
use super::supervise::Ended;
use super::tally::{Tally, is_skip};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// A job that took longer is named at the end.
const SLOW: Duration = Duration::from_secs(10);
/// Lines that are shown of a job that has failed.
const SHOWN_LINES: usize = 200;

/// What has happened so far.
#[derive(Debug)]
pub struct Report {
    begin: Instant,
    steps: BTreeMap<&'static str, Step>,
    /// Jobs that still run or wait, and results, by step and group.
    groups: BTreeMap<(&'static str, String), Group>,
    slow: Vec<(Duration, Duration, String)>,
    failures: Vec<String>,
    skips: Vec<String>,
}

#[derive(Default, Debug)]
struct Step {
    tally: Tally,
    /// Since the run began.
    first_start: Option<Duration>,
    last_end: Duration,
    /// Of all its jobs.
    job_time: Duration,
    processor: Duration,
}

#[derive(Default, Debug)]
struct Group {
    left: usize,
    tally: Tally,
    took: Duration,
}

impl Default for Report {
    fn default() -> Self {
        Self {
            begin: Instant::now(),
            steps: BTreeMap::new(),
            groups: BTreeMap::new(),
            slow: Vec::new(),
            failures: Vec::new(),
            skips: Vec::new(),
        }
    }
}

impl Report {
    /// These jobs will run.
    pub fn expect(&mut self, jobs: &[Job]) {
        for job in jobs {
            self.groups.entry((job.step, job.group.clone())).or_default().left += 1;
        }
    }

    /// Tests of a step that their authors have switched off.
    pub fn ignored(&mut self, step: &'static str, count: usize) {
        self.steps.entry(step).or_default().tally.skipped += count;
    }

    /// A job starts now.
    pub fn starts(&mut self, job: &Job) {
        let now = self.begin.elapsed();
        self.steps.entry(job.step).or_default().first_start.get_or_insert(now);
        if job.results != Results::Status {
            println!("[{:6.1} s] {}: {}", now.as_secs_f64(), job.step, job.name);
        }
    }

    /// A job has ended.
    pub fn ended(&mut self, job: &Job, ended: &Ended, tally: Tally) {
        let now = self.begin.elapsed();
        let step = self.steps.entry(job.step).or_default();
        step.tally += tally;
        step.last_end = now;
        step.job_time += ended.took;
        step.processor += ended.processor;
        if ended.took > SLOW {
            self.slow.push((ended.took, ended.processor, format!("{}: {}", job.step, job.name)));
        }
        if tally.failed > 0 {
            self.failures.push(format!("{}: {}", job.step, job.name));
            println!("[{:6.1} s] FAILED {}: {}: {}", now.as_secs_f64(), job.step, job.name, ended.why());
            print!("{}", last_lines(&ended.output));
        } else if job.results != Results::Status && job.results != Results::Nothing {
            print!("{}", results(&ended.output));
        }
        for line in ended.output.lines().filter(|line| is_skip(line) && job.results != Results::Nothing) {
            self.skips.push(format!("{}: {}", job.name, line[5..].trim()));
        }
        self.group_ended(job, ended, tally, now);
    }

    /// A build has succeeded, but what it has made is of no use.
    pub fn broken(&mut self, job: &Job, why: &str) {
        println!("FAILED {}: {}: {why}", job.step, job.name);
        self.failures.push(format!("{}: {}", job.step, job.name));
        self.steps.entry(job.step).or_default().tally.failed += 1;
    }

    /// Processes that were found when all jobs had ended.
    pub fn stragglers(&mut self, processes: &[String]) {
        for process in processes {
            println!("FAILED: a test has left a process behind: {process}");
            self.failures.push(format!("a process left behind: {process}"));
            self.steps.entry("end").or_default().tally.failed += 1;
        }
    }

    fn group_ended(&mut self, job: &Job, ended: &Ended, tally: Tally, now: Duration) {
        let Some(group) = self.groups.get_mut(&(job.step, job.group.clone())) else { return };
        group.left -= 1;
        group.tally += tally;
        group.took += ended.took;
        if group.left == 0 {
            let Tally { passed, failed, skipped } = group.tally;
            let skipped = if skipped == 0 { String::new() } else { format!(", {skipped} skipped") };
            let failed = if failed == 0 { String::new() } else { format!(", {failed} FAILED") };
            let (now, took) = (now.as_secs_f64(), group.took.as_secs_f64());
            println!(
                "[{now:6.1} s] {}: {}: {passed} passed{failed}{skipped}, {took:.1} s",
                job.step, job.group
            );
        }
    }

    /// All tests so far.
    pub fn total(&self) -> Tally {
        let mut total = Tally::default();
        self.steps.values().for_each(|step| total += step.tally);
        total
    }

    /// Where the time went, what was skipped and what has failed; the last line sums up.
    pub fn conclude(&self, processor: Duration) {
        println!("\nstep         from s    to s  jobs' s  processor s  passed failed skipped");
        let mut steps: Vec<_> = self.steps.iter().collect();
        steps.sort_by_key(|(_, step)| step.first_start);
        for (name, step) in steps {
            println!(
                "{name:12} {:6.0}  {:6.0}  {:7.0}  {:11.0}  {:6} {:6} {:7}",
                step.first_start.unwrap_or_default().as_secs_f64(),
                step.last_end.as_secs_f64(),
                step.job_time.as_secs_f64(),
                step.processor.as_secs_f64(),
                step.tally.passed,
                step.tally.failed,
                step.tally.skipped,
            );
        }
        let mut slow = self.slow.clone();
        slow.sort_by_key(|job| std::cmp::Reverse(job.0));
        if !slow.is_empty() {
            println!("\nover {} s, beside others (processor time in brackets):", SLOW.as_secs());
        }
        for (took, processor, name) in &slow {
            println!("{:7.1} s ({:5.1})  {name}", took.as_secs_f64(), processor.as_secs_f64());
        }
        list("skipped", &self.skips);
        list("failed", &self.failures);
        let wall = self.begin.elapsed().as_secs_f64();
        let processor = processor.as_secs_f64();
        println!(
            "\ntook {:.0} min {:02.0} s, processor time {processor:.0} s",
            (wall / 60.0).floor(),
            wall % 60.0
        );
        let Tally { passed, failed, skipped } = self.total();
        println!("{passed} passed, {failed} failed, {skipped} skipped");
    }
}

fn list(what: &str, lines: &[String]) {
    if !lines.is_empty() {
        println!("\n{what}:");
    }
    lines.iter().for_each(|line| println!("  {line}"));
}

/// The end of an output, with each line moved in.
fn last_lines(output: &str) -> String {
    let lines: Vec<&str> = output.lines().filter(|line| !line.starts_with("{\"reason\":")).collect();
    let from = lines.len().saturating_sub(SHOWN_LINES);
    lines[from..].iter().map(|line| format!("    {line}\n")).collect()
}

/// The lines of an output that are results.
fn results(output: &str) -> String {
    let shown = |line: &&str| line.starts_with("ok ") || is_skip(line) || line.starts_with("test result: ");
    output.lines().filter(shown).map(|line| format!("    {line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_an_output_is_shown_without_messages() {
        let output = format!("first\n{}{{\"reason\":\"x\"}}\nlast\n", "x\n".repeat(SHOWN_LINES));
        let shown = last_lines(&output);
        assert_eq!(shown.lines().count(), SHOWN_LINES);
        assert!(!shown.contains("first") && !shown.contains("reason") && shown.ends_with("    last\n"));
    }

    #[test]
    fn results_are_told_from_noise() {
        assert_eq!(results("noise\nok a\nSKIP b: why\n"), "    ok a\n    SKIP b: why\n");
    }
}
