//! A volume in a temporary file, and the stock programs with the library in front.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use aquifer_volume::{Depth, Ino, Kind, OpenOptions, Volume, image};
use tempfile::TempDir;

/// Seconds after which a program is ended: it hangs.
const HANGS_AFTER_S: &str = "120";

/// The library that cargo built for this test.
pub fn library() -> PathBuf {
    let test = std::env::current_exe().expect("the test's own path");
    let folder = test.parent().expect("a folder");
    let library = folder.join("libaquifer_sqlite.so");
    assert!(library.exists(), "no library in {}", folder.display());
    library
}

/// Whether a program is here and does that; says that the test is skipped otherwise.
pub fn have(program: &str, arguments: &[&str]) -> bool {
    let outcome = Command::new(program).args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).status();
    let is_here = outcome.is_ok_and(|status| status.success());
    if !is_here {
        println!("SKIP no {program} that runs {arguments:?} (Debian: sqlite3, python3)");
    }
    is_here
}

/// Whether the stock command is here.
pub fn have_sqlite3() -> bool {
    have("sqlite3", &["--version"])
}

/// Whether Python is here, with SQLite in a library of its own.
pub fn have_python() -> bool {
    const PROBE: &str = "import _sqlite3, ctypes, sqlite3; ctypes.CDLL('libsqlite3.so.0')";
    have("python3", &["-c", PROBE])
}

/// A volume.
pub struct Disk {
    folder: TempDir,
    name: &'static str,
}

impl Disk {
    /// An empty one.
    pub fn new(size_bytes: u64) -> Self {
        let disk = Disk { folder: tempfile::tempdir().expect("temporary folder"), name: "disk.vol" };
        let medium = image::new_medium(&disk.path(), size_bytes, 0).expect("medium");
        Volume::create(medium, (0, 0)).expect("create");
        disk
    }

    /// Where it is.
    pub fn path(&self) -> PathBuf {
        self.folder.path().join(self.name)
    }

    /// An empty folder of the file system, beside the volume.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The volume itself; no program has it open.
    pub fn open(&self) -> Volume {
        let medium = image::open_medium(&self.path()).expect("medium");
        Volume::open(medium, OpenOptions::default()).expect("open")
    }

    /// Makes a folder in the volume's root.
    pub fn make_folder(&self, name: &str) {
        let volume = self.open();
        volume.make(Ino::ROOT_FOLDER, name.as_bytes(), Kind::Folder, 0o755, 0, 0).expect("make");
        volume.close().expect("close");
    }

    /// A program with the library in front and everything in this volume.
    pub fn preloaded(&self, program: &str) -> Command {
        let mut command = self.plain(program);
        self.with_library(&mut command);
        command
    }

    /// Puts the library in front of a program, and all of its databases into this volume.
    pub fn with_library<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.env("AQUIFER_VOLUME", self.path()).env("LD_PRELOAD", library())
    }

    /// A program as it is.
    pub fn plain(&self, program: &str) -> Command {
        let mut command = Command::new("timeout");
        command.args([HANGS_AFTER_S, program]).current_dir(self.folder()).env_remove("AQUIFER_VOLUME");
        command.stdin(Stdio::null());
        command
    }

    /// What the stock command prints for these statements, in the volume.
    pub fn sqlite3(&self, database: &str, statements: &str) -> String {
        printed(self.preloaded("sqlite3").args([database, statements]))
    }

    /// What Python prints, in the volume.
    pub fn python(&self, program: &str) -> String {
        printed(self.preloaded("python3").args(["-c", program]))
    }

    /// Proves that the volume fits together.
    pub fn check(&self) {
        let volume = self.open();
        let findings = volume.check(Depth::Contents, |_, _| ()).expect("check");
        assert!(findings.problems.is_empty(), "{:#?}", findings.problems);
        volume.close().expect("close");
    }
}

/// What a program prints that succeeds and does not complain.
pub fn printed(command: &mut Command) -> String {
    let output = command.output().expect("the program runs");
    assert!(output.status.success() && output.stderr.is_empty(), "{command:?}: {}", all(&output));
    text(&output.stdout)
}

/// What a program says that fails.
pub fn complaint(command: &mut Command) -> String {
    let output = command.output().expect("the program runs");
    assert!(!output.status.success(), "{command:?}: {}", all(&output));
    text(&output.stderr)
}

/// All that a program said.
pub fn all(output: &Output) -> String {
    format!("{}\n{}{}", output.status, text(&output.stdout), text(&output.stderr))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
