//! A program in its control group, from its start to its end, while its output is held against that of another run.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::slots::Slots;
use super::{Answer, STEP};
use crate::cgroup::Cgroup;
use crate::cleanup;
use crate::error::{Error, Result};
use crate::process::Memory;
use crate::spawn::{Said, dies_with_parent, end_of, has_ended, kill};
use crate::workdir::unnamed_file;

/// How often the places in the swap area are counted, which stops the program for a moment.
const SLOTS_EVERY: Duration = Duration::from_secs(1);
/// Bytes of a line that an error shows.
const SHOWN_BYTES: usize = 100;

/// One run of a program.
pub struct Run<'a> {
    /// Program, share and peer, for errors.
    pub name: &'a str,
    /// Whose memory it has.
    pub peer: &'a str,
    /// The group in which it runs, where it has one.
    pub group: Option<&'a Cgroup>,
    /// Whether the kernel swaps, so that there are places in a swap area.
    pub swaps: bool,
    /// Longest time that it may take.
    pub limit: Duration,
}

/// What becomes of the output.
#[derive(Clone, Copy)]
pub enum Output<'a> {
    /// It is written to a file, for comparison.
    Kept(&'a Path),
    /// It must be what the file at `path` has, and is not if a bit of its first byte `is_flipped`.
    Compared {
        /// That of another run.
        path: &'a Path,
        /// To see that a wrong byte is noticed.
        is_flipped: bool,
    },
}

impl Run<'_> {
    /// Runs `command`, of whose lines the parts count that `compared` returns. Of the other lines the last one may say how many seconds counted.
    ///
    /// # Errors
    /// [`Error::WrongData`] if the output differs; [`Error::Child`] with its last words if it fails or dies, [`Error::Killed`] if the kernel kills it;
    /// [`Error::Unavailable`] if it is not finished in time.
    pub fn finish(
        &self,
        mut command: Command,
        compared: impl Fn(&[u8]) -> Option<&[u8]> + Send,
        output: Output<'_>,
    ) -> Result<Answer> {
        let log = format!("aquifer-bench-{}-job.log", std::process::id());
        let mut log = unnamed_file(&std::env::temp_dir().join(log))?;
        let copy = log.try_clone().map_err(Error::io("copying the descriptor of", "a log"))?;
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(copy);
        if let Some(group) = self.group {
            group.joined_by(&mut command);
        }
        let started = Instant::now();
        let child = dies_with_parent(&mut command).spawn();
        let mut child = child.map_err(Error::io("starting", command.get_program()))?;
        let pid = child.id();
        let killed_on_drop = cleanup::register(move || kill(pid));
        let stdout = child.stdout.take().expect("was piped");
        let (watched, heard) = thread::scope(|scope| {
            let reader = scope.spawn(|| listen(stdout, compared, output));
            let watched = self.watch(pid, started);
            drop(killed_on_drop);
            (watched, reader.join().expect("it does not panic"))
        });
        let status = child.wait().map_err(Error::io("waiting for", self.name))?;
        cleanup::stop_if_interrupted();
        let heard = heard.map_err(Error::io("comparing the output of", self.name))?;
        let (mut answer, is_late) = watched;
        let differs = heard.difference.filter(|difference| difference.is_whole || status.success());
        if let Some(Difference { line, wanted, found, .. }) = differs {
            let what = format!("{}, line {line}: wanted {wanted}, found {found}", self.name);
            return Err(Error::WrongData { peer: self.peer.to_owned(), what });
        }
        if status.success() && !is_late {
            let told = heard.seconds.unwrap_or(answer.seconds);
            answer.setup_s = answer.seconds - told;
            answer.seconds = told;
            return Ok(answer);
        }
        let said = Said::in_log(&mut log);
        if let Some(error) = said.wrong_data(self.peer) {
            return Err(error);
        }
        // Nothing that would be better at the next try.
        if is_late {
            let seconds = self.limit.as_secs();
            return Err(Error::Unavailable(format!("{} was not finished after {seconds} s", self.name)));
        }
        Err(end_of(self.name, Some(status), &said.last_line()))
    }

    /// The group, if its pages may go to a swap area.
    pub fn swapping(&self) -> Option<&Cgroup> {
        self.group.filter(|_| self.swaps)
    }

    /// Looks at the process until it has ended, or it is too late for that.
    fn watch(&self, pid: u32, started: Instant) -> (Answer, bool) {
        let mut answer = Answer::default();
        let mut slots_at = SLOTS_EVERY;
        while !has_ended(pid) && started.elapsed() < self.limit {
            // A process that is about to end has no memory any more, and what was seen before counts.
            answer.memory = Memory::peak_of(pid).unwrap_or(answer.memory);
            if let Some(group) = self.swapping().filter(|_| started.elapsed() >= slots_at) {
                answer.slots = Slots::of_group(group.path()).unwrap_or(answer.slots);
                slots_at = started.elapsed() + SLOTS_EVERY;
            }
            thread::sleep(STEP);
        }
        answer.seconds = started.elapsed().as_secs_f64();
        (answer, !has_ended(pid))
    }
}

/// What the lines of a program came to.
#[derive(Default)]
struct Heard {
    seconds: Option<f64>,
    difference: Option<Difference>,
}

/// The first line that differs.
struct Difference {
    line: u64,
    wanted: String,
    found: String,
    /// It is there to its end, so that it counts also if the program ended early.
    is_whole: bool,
}

/// Reads `stdout` to its end.
fn listen(
    stdout: impl Read,
    compared: impl Fn(&[u8]) -> Option<&[u8]>,
    output: Output<'_>,
) -> io::Result<Heard> {
    let mut heard = Heard::default();
    let (mut kept, mut wanted_lines, flip) = match output {
        Output::Kept(path) => (Some(io::BufWriter::new(File::create(path)?)), None, 0),
        Output::Compared { path, is_flipped } => {
            (None, Some(BufReader::new(File::open(path)?)), u8::from(is_flipped))
        }
    };
    let mut stdout = BufReader::with_capacity(1 << 16, stdout);
    let (mut line, mut wanted, mut number) = (Vec::new(), Vec::new(), 0);
    while next_line(&mut stdout, &mut line)? {
        let is_whole = line.pop_if(|byte| *byte == b'\n').is_some();
        let Some(part) = compared(&line) else {
            heard.seconds = seconds_of(&line).or(heard.seconds);
            continue;
        };
        number += 1;
        if let Some(kept) = &mut kept {
            kept.write_all(part)?;
            kept.write_all(b"\n")?;
        }
        let Some(lines) = wanted_lines.as_mut().filter(|_| heard.difference.is_none()) else { continue };
        let is_there = next_line(lines, &mut wanted)?;
        wanted.pop_if(|byte| *byte == b'\n');
        let mut part = part.to_vec();
        part[..usize::from(number == 1)].iter_mut().for_each(|byte| *byte ^= flip);
        if !is_there || part != wanted {
            let wanted = if is_there { shown(&wanted) } else { "the end".to_owned() };
            heard.difference = Some(Difference { line: number, wanted, found: shown(&part), is_whole });
        }
    }
    if let Some(lines) = wanted_lines.as_mut().filter(|_| heard.difference.is_none())
        && next_line(lines, &mut wanted)?
    {
        let (wanted, found) = (shown(wanted.trim_ascii_end()), "the end".to_owned());
        heard.difference = Some(Difference { line: number + 1, wanted, found, is_whole: false });
    }
    kept.map_or(Ok(()), |mut kept| kept.flush()).map(|()| heard)
}

/// Reads one line into `line`; false at the end.
fn next_line(from: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    line.clear();
    Ok(from.read_until(b'\n', line)? > 0)
}

/// The last word of a line, as "0.5" or "0.5s".
fn seconds_of(line: &[u8]) -> Option<f64> {
    let line = String::from_utf8_lossy(line);
    line.split_whitespace().last()?.trim_end_matches('s').parse().ok()
}

fn shown(line: &[u8]) -> String {
    format!("{:?}", String::from_utf8_lossy(&line[..line.len().min(SHOWN_BYTES)]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spawn::WRONG_DATA;

    /// What a script comes to whose lines must be `wanted`.
    fn compare(script: &str, wanted: &str, is_flipped: bool) -> Result<Answer> {
        let nth = std::thread::current().name().unwrap_or_default().replace(':', "-");
        let path = std::env::temp_dir().join(format!("aquifer-bench-job-{}-{nth}", std::process::id()));
        std::fs::write(&path, wanted).expect("a temporary file");
        let ended = run(script, Output::Compared { path: &path, is_flipped });
        std::fs::remove_file(&path).expect("was made");
        ended
    }

    fn run(script: &str, output: Output<'_>) -> Result<Answer> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        let run = Run { name: "job", peer: "swap", group: None, swaps: false, limit: Duration::from_secs(2) };
        run.finish(command, |line| (!line.starts_with(b"seconds")).then_some(line), output)
    }

    #[test]
    fn the_first_line_that_differs_is_named() {
        let answer = compare("echo a; echo seconds 0.25; echo b", "a\nb\n", false).expect("the same");
        assert_eq!(answer.seconds, 0.25);
        let wrong = |script, wanted, flips| match compare(script, wanted, flips) {
            Err(error @ Error::WrongData { .. }) => error.to_string(),
            other => panic!("{other:?}"),
        };
        let differs = wrong("echo a; echo c; echo d", "a\nb\n", false);
        assert_eq!(differs, "WRONG DATA from swap: job, line 2: wanted \"b\", found \"c\"");
        assert!(wrong("echo a", "a\nb\n", false).ends_with("line 2: wanted \"b\", found the end"));
        assert!(wrong("echo a; echo b", "a\n", false).ends_with("line 2: wanted the end, found \"b\""));
        assert!(wrong("echo a", "a\n", true).ends_with("line 1: wanted \"a\", found \"`\""));
    }

    #[test]
    fn ends_are_told_apart() {
        let end = |script: &str| compare(script, "a\nb\n", false).expect_err("no good end");
        assert!(matches!(end("echo a; kill -9 $$"), Error::Killed { .. }));
        assert!(matches!(end("printf a; printf x; kill -9 $$"), Error::Killed { .. }));
        assert!(matches!(end("echo x; kill -9 $$"), Error::WrongData { .. }));
        assert!(
            matches!(end("echo a; echo no room >&2; exit 1"), Error::Child { what, .. } if what.contains("no room"))
        );
        assert!(matches!(
            end(&format!("echo '{WRONG_DATA} from x: y' >&2; exit 1")),
            Error::WrongData { .. }
        ));
        assert!(matches!(end("exec sleep 60"), Error::Unavailable(what) if what.contains("not finished")));
    }
}
