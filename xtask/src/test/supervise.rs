//! Runs one job: in a process group of its own, with a limit, its output in a file; and afterwards nothing of it is left.
//!
//! A process that a job has started is known by a variable in its environment, also after its parent has
//! changed.

use super::job::Job;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, waitid};
use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The variable by which processes of a job are known.
const MARK: &str = "AQUIFER_TEST_JOB";
/// Between two looks at a job, at most.
const LOOK: Duration = Duration::from_millis(50);
/// What a job has started may take so long to end after it.
const GRACE: Duration = Duration::from_secs(5);
/// Looks that must find nothing, one after the other: a process that replaces itself has no environment for a moment.
const EMPTY_LOOKS: u32 = 3;

/// With this status a script says that a package or a right is missing; its output has the reason.
const CANNOT_RUN: i32 = 77;

/// How a job ended.
#[derive(Debug)]
pub enum Ending {
    /// With this status.
    Status(ExitStatus),
    /// It did not end within its limit.
    Hung,
    /// It could not be started.
    NotStarted(io::Error),
}

/// What is known of a job that has ended.
#[derive(Debug)]
pub struct Ended {
    /// How.
    pub ending: Ending,
    /// From start to end.
    pub took: Duration,
    /// Processor time of its processes, but for those that it did not wait for; nothing of one that hung.
    pub processor: Duration,
    /// What it has printed; of a job that hung, what its processes waited for.
    pub output: String,
    /// Processes that outlived it, ended here, as `number command`.
    pub left: Vec<String>,
}

impl Ended {
    /// Whether it ended well, or said that it cannot run here, and left nothing.
    pub fn success(&self) -> bool {
        let good = |status: ExitStatus| status.success() || status.code() == Some(CANNOT_RUN);
        matches!(self.ending, Ending::Status(status) if good(status)) && self.left.is_empty()
    }

    /// Why it has failed, in a few words.
    pub fn why(&self) -> String {
        match &self.ending {
            Ending::NotStarted(error) => format!("does not start: {error}"),
            Ending::Hung => format!("hangs: ended after {:.0} s", self.took.as_secs_f64()),
            Ending::Status(status) if !status.success() => status.to_string(),
            Ending::Status(_) if !self.left.is_empty() => {
                format!("leaves processes behind: {}", self.left.join(", "))
            }
            Ending::Status(_) => "its output has a failure, or no result at all".to_owned(),
        }
    }
}

/// Runs `job` to its end, with its output in the file `log`. `started` is told the number of its process group.
pub fn run(job: &Job, log: &Path, number: usize, started: &dyn Fn(Pid)) -> Ended {
    let begin = Instant::now();
    // Closed by a letter, so that no mark is the beginning of another.
    let mark = format!("{}-{number}x", std::process::id());
    let mut processor = Duration::ZERO;
    let ending = start(job, log, &mark).map(|mut child| {
        let group = Pid::from_child(&child);
        started(group);
        if ends_within(group, job.limit, begin) {
            processor = processor_time(group);
            return child.wait().map_or_else(Ending::NotStarted, Ending::Status);
        }
        tell(log, &mark);
        let _gone = kill_process_group(group, Signal::KILL);
        let _status = child.wait();
        Ending::Hung
    });
    let ending = ending.unwrap_or_else(Ending::NotStarted);
    let took = begin.elapsed();
    let left = end_all(&mark, if matches!(ending, Ending::Hung) { Duration::ZERO } else { GRACE });
    let output = fs::read(log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    Ended { ending, took, processor, output, left }
}

fn start(job: &Job, log: &Path, mark: &str) -> io::Result<Child> {
    use std::os::unix::process::CommandExt;
    let file = File::create(log)?;
    Command::new(&job.command[0])
        .args(&job.command[1..])
        .current_dir(&job.directory)
        .envs(job.environment.iter().map(|(name, value)| (name, value)))
        .env(MARK, mark)
        .stdin(Stdio::null())
        .stdout(file.try_clone()?)
        .stderr(file)
        .process_group(0)
        .spawn()
}

/// Whether the process ends in time. It is still there then, as a zombie that can be asked.
fn ends_within(process: Pid, limit: Duration, begin: Instant) -> bool {
    let mut look = Duration::from_millis(1);
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    while begin.elapsed() < limit {
        if !matches!(waitid(WaitId::Pid(process), options), Ok(None)) {
            return true;
        }
        sleep(look);
        look = (look * 2).min(LOOK);
    }
    false
}

/// Processor time of a process and of those that it has waited for.
pub fn processor_time(process: Pid) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{}/stat", process.as_raw_pid())).unwrap_or_default();
    // Behind the name, which may hold anything: the state is the first field; utime, stime, cutime and cstime are the 12th to the 15th.
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields).split_whitespace().skip(11).take(4);
    let ticks: u64 = fields.filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// Adds to the log what each thread of a job waits for, as far as the kernel tells this user.
fn tell(log: &Path, mark: &str) {
    use std::fmt::Write;
    let mut text = String::from("\n-- it hangs; its threads:\n");
    for process in marked(mark) {
        let Ok(tasks) = fs::read_dir(format!("/proc/{process}/task")) else { continue };
        for task in tasks.flatten().map(|task| task.path()) {
            let read = |name| fs::read_to_string(task.join(name)).unwrap_or_default();
            let _written = writeln!(
                text,
                "{} {}: waits in {}, system call {}\n{}",
                task.display(),
                read("comm").trim(),
                read("wchan").trim(),
                read("syscall").trim(),
                read("stack"),
            );
        }
    }
    let file = File::options().append(true).open(log);
    let _told = file.and_then(|mut file| io::Write::write_all(&mut file, text.as_bytes()));
}

/// Ends what any job of this process has left, and names it. What is found here has escaped [`run`].
pub fn end_stragglers() -> Vec<String> {
    marked(&format!("{}-", std::process::id())).into_iter().map(end).collect()
}

/// The numbers of all processes whose mark begins with `mark`.
fn marked(mark: &str) -> Vec<i32> {
    let wanted = format!("{MARK}={mark}");
    let Ok(processes) = fs::read_dir("/proc") else { return Vec::new() };
    let numbers = processes.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    numbers
        .filter(|number| {
            let environment = fs::read(format!("/proc/{number}/environ")).unwrap_or_default();
            environment.split(|&byte| byte == 0).any(|variable| variable.starts_with(wanted.as_bytes()))
        })
        .collect()
}

/// Waits until no process of a job is left, and ends those that stay; they are named.
fn end_all(mark: &str, grace: Duration) -> Vec<String> {
    let begin = Instant::now();
    let (mut look, mut empty) = (Duration::from_millis(2), 0);
    loop {
        let processes = marked(mark);
        if processes.is_empty() {
            empty += 1;
            if empty == EMPTY_LOOKS {
                return Vec::new();
            }
        } else if begin.elapsed() >= grace {
            return processes.into_iter().map(end).collect();
        } else {
            empty = 0;
            look = (look * 2).min(LOOK);
        }
        sleep(look);
    }
}

/// Ends a process and waits until it runs no more: the kernel ends it at its next chance.
fn end(number: i32) -> String {
    let command = fs::read(format!("/proc/{number}/cmdline")).unwrap_or_default();
    let command = String::from_utf8_lossy(&command).replace('\0', " ");
    if let Some(pid) = Pid::from_raw(number) {
        let _gone = kill_process(pid, Signal::KILL);
    }
    let begin = Instant::now();
    while fs::read(format!("/proc/{number}/environ")).is_ok_and(|bytes| !bytes.is_empty())
        && begin.elapsed() < GRACE
    {
        sleep(Duration::from_millis(1));
    }
    format!("{number} {}", command.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(script: &str, limit: Duration) -> Job {
        Job::script("a step", Path::new("/"), &["sh", "-c", script], limit)
    }

    fn ended(script: &str, limit: Duration) -> Ended {
        let name = format!("aquifer-supervise.{}.{:?}", std::process::id(), std::thread::current().id());
        let log = std::env::temp_dir().join(name);
        // The mark of this test apart from that of the job that runs it.
        let number = script.len();
        let ended = run(&job(script, limit), &log, number, &|_| {});
        let _removed = fs::remove_file(&log);
        ended
    }

    #[test]
    fn processor_time_is_that_of_children_too() {
        let busy = ended("sh -c 'i=0; while [ $i -lt 200000 ]; do i=$((i + 1)); done'; true", LONG);
        assert!(busy.success() && busy.processor > Duration::ZERO, "{busy:?}");
    }

    const LONG: Duration = Duration::from_secs(600);

    #[test]
    fn status_and_output_are_kept() {
        let good = ended("echo out; echo err >&2", LONG);
        assert!(good.success(), "{good:?}");
        assert_eq!(good.output, "out\nerr\n");
        assert!(ended("echo SKIP all: no tcl.h; exit 77", LONG).success());
        let bad = ended("exit 3", LONG);
        assert!(!bad.success());
        assert!(bad.why().contains('3'), "{}", bad.why());
    }

    #[test]
    fn what_hangs_is_ended_with_its_children_and_told() {
        let hung = ended("sleep 1000 & echo $!; sleep 1000", Duration::from_millis(300));
        assert!(hung.why().starts_with("hangs"), "{hung:?}");
        assert!(hung.output.contains("its threads"), "{}", hung.output);
        let child = hung.output.lines().next().expect("its number");
        let status = fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
        assert!(status.is_empty() || status.contains(") Z "), "{status}");
    }

    #[test]
    fn what_is_left_behind_is_ended_and_named() {
        // In a session of its own, so that the process group does not tell.
        let leaving = ended("setsid sleep 1000 & exit 0", LONG);
        assert!(!leaving.success());
        assert!(leaving.why().contains("sleep 1000"), "{leaving:?}");
    }
}
