//! A task in its control group, from its start to the line that it prints.

use std::io::Read;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::answer::Answer;
use crate::cgroup::Cgroup;
use crate::cleanup;
use crate::error::{Error, Result};
use crate::spawn::{Said, dies_with_parent, end_of, has_ended, kill};
use crate::workdir::unnamed_file;

const STEP: Duration = Duration::from_millis(5);

/// Runs `command` in `cgroup` for at most so long.
///
/// # Errors
/// [`Error::Child`] with its last words if it fails or dies, [`Error::Killed`] if the kernel kills it; [`Error::Unavailable`] if it is not finished in time; [`Error::WrongData`] if it says so.
pub fn run(name: &str, mut command: Command, cgroup: Option<&Cgroup>, limit: Duration) -> Result<Answer> {
    let log = format!("aquifer-bench-{}-task.log", std::process::id());
    let mut log = unnamed_file(&std::env::temp_dir().join(log))?;
    let copy = log.try_clone().map_err(Error::io("copying the descriptor of", "a log"))?;
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(copy);
    if let Some(cgroup) = cgroup {
        cgroup.joined_by(&mut command);
    }
    let mut child =
        dies_with_parent(&mut command).spawn().map_err(Error::io("starting", command.get_program()))?;
    let pid = child.id();
    let killed_on_drop = cleanup::register(move || kill(pid));
    let started = Instant::now();
    while !has_ended(pid) && started.elapsed() < limit {
        if let Some(cgroup) = cgroup {
            cgroup.nudge();
        }
        thread::sleep(STEP);
    }
    let is_late = !has_ended(pid);
    drop(killed_on_drop);
    let status = child.wait().map_err(Error::io("waiting for", name))?;
    cleanup::stop_if_interrupted();
    // What it prints is short, so that it never waited for us to read.
    let mut text = String::new();
    let mut stdout = child.stdout.take().expect("was piped");
    stdout.read_to_string(&mut text).map_err(Error::io("reading from", name))?;
    if let Some(answer) = text.lines().find_map(|line| serde_json::from_str(line).ok())
        && status.success()
    {
        return Ok(answer);
    }
    let said = Said::in_log(&mut log);
    if let Some(error) = said.wrong_data(name) {
        return Err(error);
    }
    // Nothing that would be better at the next try.
    if is_late {
        return Err(Error::Unavailable(format!("it was not finished after {} s", limit.as_secs())));
    }
    Err(end_of(name, Some(status), &said.last_line()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spawn::WRONG_DATA;

    fn shell(script: &str) -> Result<Answer> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        run("test", command, None, Duration::from_millis(500))
    }

    #[test]
    fn answers_failures_and_lateness_are_told_apart() {
        let line = r#"{"rounds":3,"ops":10,"seconds":2.0,"setup_s":1.0,"digest":7,"memory":{"rss_bytes":1,"vm_pte_bytes":1}}"#;
        let answer = shell(&format!("echo '{line}'")).expect("a line");
        assert_eq!((answer.rounds, answer.digest, answer.ops_per_s()), (Some(3), Some(7), 5.0));
        let said = |script: &str| shell(script).expect_err("no line").to_string();
        assert!(said("echo no room >&2; exit 1").contains("ended early: no room"));
        assert!(said("exec sleep 60").contains("not finished"));
        assert!(said(&format!("echo '{line}'; kill -9 $$")).contains("memory limit"));
        let wrong = shell(&format!("echo '{WRONG_DATA} from x: y' >&2; exit 1"));
        assert!(matches!(wrong, Err(Error::WrongData { .. })));
        let error = Error::WrongData { peer: "a".to_owned(), what: "b".to_owned() };
        assert!(error.to_string().starts_with(WRONG_DATA));
    }
}
