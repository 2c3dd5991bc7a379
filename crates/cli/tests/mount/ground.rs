//! Folders to check: native ones, and mounts of volumes of their own. And how outcomes are checked.

use std::fmt::Debug;
use std::fs::{self, Permissions};
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use aquifer_volume::{Depth, OpenOptions, Volume, image};
use rustix::process::{Pid, Signal, geteuid, kill_process};
use tempfile::TempDir;

/// Bytes of a volume, if a test does not say otherwise.
pub const VOLUME_BYTES: u64 = 256 << 20;

/// Says that a test looks at nothing here, and why.
pub fn skipped(test: &str, reason: &str) {
    println!("SKIP mount {test}: {reason}");
}

/// Why nothing can be mounted here.
pub fn cannot_mount() -> Option<String> {
    aquifer_mount::possible().err().map(|error| error.to_string())
}

/// Whether checks of other users can be made.
pub fn is_root() -> bool {
    geteuid().is_root()
}

/// A folder that all users can reach.
pub fn folder() -> TempDir {
    let folder = TempDir::new().expect("a folder");
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).expect("its permissions");
    folder
}

/// Runs a check on the system's own files.
pub fn native(check: fn(&Path)) {
    check(folder().path());
}

/// Runs a check on a mount; then the process that serves it ends well, and the volume is in order.
pub fn mounted(test: &str, check: fn(&Path)) {
    if let Some(reason) = cannot_mount() {
        return skipped(test, &reason);
    }
    let mount = Mount::new(VOLUME_BYTES);
    check(&mount.folder);
    mount.end();
}

/// As [`mounted`], where the kernel writes back.
pub fn written_back(test: &str, check: fn(&Path)) {
    if let Some(reason) = cannot_mount() {
        return skipped(test, &reason);
    }
    let mut mount = Mount::unmounted(VOLUME_BYTES);
    mount.start(&["--write-back"]);
    check(&mount.folder);
    mount.end();
}

/// A volume in a file, and where it is mounted.
pub struct Mount {
    /// Where it is mounted.
    pub folder: PathBuf,
    /// The volume.
    pub image: PathBuf,
    server: Option<Child>,
    around: TempDir,
}

impl Mount {
    /// A new volume, mounted.
    pub fn new(size_bytes: u64) -> Self {
        let mut mount = Self::unmounted(size_bytes);
        mount.start(&[]);
        mount
    }

    /// A new volume, and a folder for it.
    pub fn unmounted(size_bytes: u64) -> Self {
        let around = folder();
        let (image, at) = (around.path().join("volume"), around.path().join("mounted"));
        fs::create_dir(&at).expect("a folder");
        let owner = (geteuid().as_raw(), rustix::process::getegid().as_raw());
        let medium = image::new_medium(&image, size_bytes, 0).expect("a file");
        Volume::create(medium, owner).expect("a volume");
        Mount { folder: at, image, server: None, around }
    }

    /// The command that mounts it.
    pub fn command(&self, options: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_aquifer"));
        command.args(["volume", "mount", "--ram", "32M"]).args(options);
        if is_root() {
            command.arg("--allow-other");
        }
        command.arg(&self.image).arg(&self.folder).stdin(Stdio::null());
        command
    }

    /// Mounts it.
    pub fn start(&mut self, options: &[&str]) {
        let mut command = self.command(options);
        command.arg("--foreground");
        self.start_by(command);
    }

    /// Mounts it by a process that may not write files behind their first bytes.
    pub fn start_limited(&mut self, file_bytes_max: u64) {
        let mut command = Command::new("sh");
        let script = r#"trap '' XFSZ; ulimit -f "$1"; shift; exec "$@""#;
        command.args(["-c", script, "sh"]).arg((file_bytes_max / 512).to_string());
        let whole = self.command(&["--foreground"]);
        command.arg(whole.get_program()).args(whole.get_args());
        self.start_by(command);
    }

    fn start_by(&mut self, mut command: Command) {
        let mut server = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("it starts");
        let mut said = String::new();
        let output = server.stdout.take().expect("it is piped");
        BufReader::new(output).read_line(&mut said).expect("it says something");
        assert!(said.contains("is mounted at"), "{said}");
        self.server = Some(server);
    }

    /// The process that serves it.
    pub fn server(&self) -> Pid {
        Pid::from_child(self.server.as_ref().expect("it is mounted"))
    }

    /// Whether the process has not ended.
    pub fn is_running(&mut self) -> bool {
        let server = self.server.as_mut().expect("it is mounted");
        server.try_wait().expect("it is a child").is_none()
    }

    /// Waits for the end of the process.
    pub fn wait(&mut self) -> ExitStatus {
        self.server.take().expect("it is mounted").wait().expect("it ends")
    }

    /// Kills the process as a crash would; the folder is of no use then.
    pub fn crash(&mut self) {
        kill_process(self.server(), Signal::KILL).expect("it runs");
        self.wait();
    }

    /// Has the process end by a signal; it ends well.
    pub fn stop(&mut self) {
        kill_process(self.server(), Signal::TERM).expect("it runs");
        assert!(self.wait().success());
    }

    /// Unmounts, and checks the volume.
    pub fn end(mut self) {
        self.stop();
        self.check();
    }

    /// Whether all of the volume fits together.
    pub fn check(&self) {
        let options = OpenOptions { is_read_only: true, ..OpenOptions::default() };
        let medium = image::open_medium(&self.image).expect("it is there");
        let volume = Volume::open(medium, options).expect("it opens");
        let findings = volume.check(Depth::Contents, |_, _| {}).expect("it can be checked");
        assert_eq!((findings.problems, findings.damaged), (vec![], vec![]));
    }

    /// What stands around the volume and its folder.
    pub fn around(&self) -> &Path {
        self.around.path()
    }
}

impl Drop for Mount {
    /// After a check that failed.
    fn drop(&mut self) {
        if let Some(mut server) = self.server.take() {
            let _ = server.kill();
            let _ = server.wait();
        }
        // A folder whose server is gone would be in the way of removing what is around it.
        let program = if is_root() { "umount" } else { "fusermount3" };
        let option = if is_root() { "-l" } else { "-uz" };
        let _ = Command::new(program).arg(option).arg(&self.folder).stderr(Stdio::null()).status();
    }
}

/// All bytes of a file.
pub fn bytes(path: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    fs::File::open(path).and_then(|mut file| file.read_to_end(&mut bytes)).expect("it can be read");
    bytes
}

/// The number of the error that something must fail with.
#[track_caller]
pub fn fails<T: Debug, E: Into<io::Error>>(outcome: Result<T, E>, errno: rustix::io::Errno) {
    match outcome.map_err(Into::into) {
        Ok(value) => panic!("{value:?} in place of {errno}"),
        Err(error) => {
            assert_eq!(error.raw_os_error(), Some(errno.raw_os_error()), "{error} in place of {errno}")
        }
    }
}
