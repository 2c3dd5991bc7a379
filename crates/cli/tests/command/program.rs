//! A program with a heap, made to be looked into.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

/// The running program. It ends when this is dropped.
pub struct Program {
    child: Child,
}

/// Where the program is told of its socket.
pub enum Told<'a> {
    InEnvironment(&'a Path),
    AsOption(&'a Path),
    Nowhere,
}

impl Program {
    /// Starts the program and waits until its heap is filled.
    pub fn start(told: Told<'_>) -> Self {
        Self::borrowing(told, "")
    }

    /// The same with RAM of these donors, separated by commas.
    pub fn borrowing(told: Told<'_>, donors: &str) -> Self {
        let mut command = Command::new(example("watched_program"));
        command.env_remove("AQUIFER_SOCKET").env_remove("AQUIFER_DONORS");
        if !donors.is_empty() {
            command.env("AQUIFER_DONORS", donors);
        }
        match told {
            Told::InEnvironment(path) => drop(command.env("AQUIFER_SOCKET", path)),
            Told::AsOption(path) => drop(command.arg(path)),
            Told::Nowhere => {}
        }
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the program starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("the program speaks");
        assert_eq!(line, "ready\n", "the program could not open its heap");
        Self { child }
    }

    /// Its number, as an argument.
    pub fn pid(&self) -> String {
        self.child.id().to_string()
    }

    /// Lets it close its heap and end.
    pub fn end(mut self) {
        drop(self.child.stdin.take());
        assert!(self.child.wait().expect("it ends").success());
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// A path for its socket, in a folder that goes when the test ends.
pub fn socket() -> (TempDir, PathBuf) {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("heap.sock");
    (folder, path)
}

/// An example of this package, which cargo builds beside the tests.
pub fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a test has a path");
    let folder = test.parent().and_then(Path::parent).expect("target/PROFILE/deps/TEST");
    let program = folder.join("examples").join(name);
    assert!(program.exists(), "{} is missing; `cargo test -p aquifer-cli` builds it", program.display());
    program
}
