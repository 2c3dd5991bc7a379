//! `aquifer top` on a terminal: what it draws, and what it leaves behind; and where nobody can watch.
//!
//! `script` of util-linux makes the terminal. Where it is missing the tests say so and look at nothing.

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tempfile::TempDir;

use super::program::{Program, Told, example, socket};
use super::{command, name, run, text};

const PATIENCE: Duration = Duration::from_secs(60);
const ALTERNATE_SCREEN: &str = "\x1b[?1049h";
const ORDINARY_SCREEN: &str = "\x1b[?1049l";
const CURSOR: &str = "\x1b[?25h";

/// A terminal of 100 columns and 30 rows in which one command runs.
struct Terminal {
    script: Child,
    folder: TempDir,
    seen: Arc<Mutex<Vec<u8>>>,
    reader: JoinHandle<()>,
}

impl Terminal {
    /// Runs a command line of the shell; `None` where there is no `script`.
    fn run(line: &str) -> Option<Self> {
        let folder = TempDir::new().expect("a folder");
        let file = |file: &str| folder.path().join(file).display().to_string();
        let shell = format!(
            "stty cols 100 rows 30; stty -g > '{before}'; sh -c 'echo $$ > \"{pid}\"; exec {line}'; \
             echo $? > '{code}'; stty -g > '{after}'",
            before = file("before"),
            pid = file("pid"),
            code = file("code"),
            after = file("after"),
        );
        let script = Command::new("script")
            .args(["-q", "-c", &shell, "/dev/null"])
            .env("TERM", "xterm-256color")
            .env("SHELL", "/bin/sh")
            .env_remove("AQUIFER_SOCKET")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let Ok(mut script) = script else {
            eprintln!("skipped: there is no `script` to make a terminal");
            return None;
        };
        let mut stdout = script.stdout.take().expect("piped");
        let seen = Arc::new(Mutex::new(Vec::new()));
        let into = seen.clone();
        let reader = std::thread::spawn(move || {
            let mut chunk = [0; 4096];
            while let Ok(read @ 1..) = stdout.read(&mut chunk) {
                into.lock().expect("nobody panics").extend_from_slice(&chunk[..read]);
            }
        });
        Some(Self { script, folder, seen, reader })
    }

    fn top(path: &Path) -> Option<Self> {
        let command = env!("CARGO_BIN_EXE_aquifer");
        Self::run(&format!("{command} top --interval 0.1 --socket {}", name(path)))
    }

    fn seen(&self) -> String {
        String::from_utf8_lossy(&self.seen.lock().expect("nobody panics")).into_owned()
    }

    /// Waits for a word. Blanks are not always written, so that several words may not be found.
    fn wait_for(&self, word: &str) {
        let deadline = Instant::now() + PATIENCE;
        while !self.seen().contains(word) {
            assert!(Instant::now() < deadline, "{word} is not to be seen in {:?}", self.seen());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn press(&mut self, keys: &str) {
        let stdin = self.script.stdin.as_mut().expect("piped");
        stdin.write_all(keys.as_bytes()).and_then(|()| stdin.flush()).expect("it reads");
    }

    fn file(&self, name: &str) -> String {
        fs::read_to_string(self.folder.path().join(name)).unwrap_or_default()
    }

    fn signal(&self, signal: Signal) {
        crate::send(signal, self.file("pid").trim().parse().expect("its number"));
    }

    /// Waits until the command has ended, and looks at the terminal: its status and what was said last.
    fn left_behind(mut self) -> (String, String) {
        let deadline = Instant::now() + PATIENCE;
        while self.script.try_wait().expect("it can be waited for").is_none() {
            assert!(Instant::now() < deadline, "it does not end: {:?}", self.seen());
            std::thread::sleep(Duration::from_millis(10));
        }
        let (code, before, after) = (self.file("code"), self.file("before"), self.file("after"));
        let seen = Arc::clone(&self.seen);
        self.reader.join().expect("it ends");
        let seen = String::from_utf8_lossy(&seen.lock().expect("nobody panics")).into_owned();
        assert!(!before.is_empty() && before == after, "the terminal's settings are as before");
        let (_, drawn) = seen.split_once(ALTERNATE_SCREEN).expect("a screen of its own");
        let (drawn, last) = drawn.split_once(ORDINARY_SCREEN).expect("the screen is given back");
        assert!(drawn.contains("metadata") && last.contains(CURSOR), "{last:?}");
        (code.trim().to_owned(), last.to_owned())
    }
}

#[test]
fn keys_are_obeyed_and_q_ends() {
    let (_folder, path) = socket();
    let _program = Program::start(Told::AsOption(&path));
    let Some(mut terminal) = Terminal::top(&path) else { return };
    terminal.wait_for("Cleaner");
    terminal.wait_for("0.1");
    terminal.press("h");
    terminal.wait_for("quit");
    terminal.press("p");
    terminal.wait_for("paused");
    terminal.press("q");
    assert_eq!(terminal.left_behind().0, "0");
}

#[test]
fn control_c_and_escape_end() {
    let (_folder, path) = socket();
    let _program = Program::start(Told::AsOption(&path));
    for key in ["\x03", "\x1b"] {
        let Some(mut terminal) = Terminal::top(&path) else { return };
        terminal.wait_for("metadata");
        terminal.press(key);
        assert_eq!(terminal.left_behind().0, "0");
    }
}

#[test]
fn signals_give_the_terminal_back() {
    let (_folder, path) = socket();
    let _program = Program::start(Told::AsOption(&path));
    for signal in [Signal::TERM, Signal::INT] {
        let Some(terminal) = Terminal::top(&path) else { return };
        terminal.wait_for("metadata");
        terminal.signal(signal);
        assert_eq!(terminal.left_behind().0, "0");
    }
}

#[test]
fn the_end_of_the_program_is_said() {
    let (_folder, path) = socket();
    let program = Program::start(Told::AsOption(&path));
    let Some(terminal) = Terminal::top(&path) else { return };
    terminal.wait_for("metadata");
    let said = format!("process {} has closed its heap", program.pid());
    program.end();
    let (code, last) = terminal.left_behind();
    assert!(code == "0" && last.contains(&said), "{code}: {last}");
}

#[test]
fn a_panic_gives_the_terminal_back_before_it_is_told() {
    let program: PathBuf = example("panicking_screen");
    let Some(terminal) = Terminal::run(name(&program)) else { return };
    let (code, last) = terminal.left_behind();
    assert!(code != "0" && last.contains("in the middle of it"), "{code}: {last}");
}

#[test]
fn without_a_terminal_there_is_one_snapshot() {
    let (_folder, path) = socket();
    let program = Program::start(Told::AsOption(&path));
    for arguments in [&["--once"][..], &[]] {
        let arguments = [&["top", "--socket", name(&path), "--interval", "0.1"], arguments].concat();
        let output = run(&arguments);
        let shown = text(&output.stdout);
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert_eq!(text(&output.stderr), "");
        assert!(shown.starts_with(&format!(
            "heap of process {}, aquifer {}\n",
            program.pid(),
            aquifer::VERSION
        )));
        for part in ["RAM used", "8.00 MiB", "found in RAM", "0/s", "write amplification", "Latency of reads"]
        {
            assert!(shown.contains(part), "{part} is not in\n{shown}");
        }
        assert!(!shown.contains('\x1b'), "{shown:?}");
    }
}

#[test]
fn the_process_is_found_by_its_number() {
    let (_folder, path) = socket();
    let program = Program::start(Told::InEnvironment(&path));
    let output = run(&["top", "--pid", &program.pid(), "--interval", "0.01"]);
    assert!(text(&output.stdout).contains("RAM used"), "{output:?}");
}

#[test]
fn the_interval_is_kept() {
    let (_folder, path) = socket();
    let _program = Program::start(Told::AsOption(&path));
    let began = Instant::now();
    let output =
        command(&["top", "--interval", "0.5"]).env("AQUIFER_SOCKET", &path).output().expect("it runs");
    assert!(output.status.success());
    assert!(began.elapsed().as_millis() >= 500);
}
