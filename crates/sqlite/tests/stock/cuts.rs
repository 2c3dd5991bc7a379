//! The power goes in the middle of transactions, and again once the database was opened: what was committed is there, and the database is whole.
//!
//! The volume is in a file whose bytes are those of a device in this process, through FUSE. The device forgets what was not synced.
//! `AQUIFER_CRASHES=n` makes n cuts of each mode: 101 of them come to each of the first operations.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread::JoinHandle;

use aquifer_block::fuse::{FILE_NAME, FuseError, Mounted, Options, Unmounter};
use aquifer_device::{Device, Forgetful, Kept};
use aquifer_volume::Volume;
use aquifer_volume::medium::DeviceMedium;
use tempfile::TempDir;

use crate::common::{have_python, library};

const DEVICE_BYTES: u64 = 8 << 20;
const SEGMENT_PAGES: u32 = 16;
const CUTS: u64 = 5;
/// Operations of a device in which the power goes; a prime, so that a few cuts come to places far from each other.
const OPERATIONS: u64 = 101;

/// Commits transactions until one fails, and says the last number of each after it was committed.
const WRITER: &str = r#"
import sqlite3, sys
mode, synchronous = sys.argv[1:]
connection = sqlite3.connect("x.db", isolation_level=None)
connection.execute("PRAGMA journal_mode=" + mode)
connection.execute("PRAGMA synchronous=" + synchronous)
connection.execute("PRAGMA cache_size=5")
connection.execute("CREATE TABLE IF NOT EXISTS t(n INTEGER PRIMARY KEY, filler)")
n = connection.execute("SELECT coalesce(max(n), 0) FROM t").fetchone()[0]
for _ in range(25):
    connection.execute("BEGIN")
    for _ in range(10):
        n += 1
        connection.execute("INSERT INTO t VALUES(?, randomblob(1500))", (n,))
    connection.execute("UPDATE t SET filler=randomblob(1200) WHERE n % 7 = ?", (n // 10 % 7,))
    connection.execute("DELETE FROM t WHERE n <= ?", (n - 50,))
    connection.execute("COMMIT")
    print(n, flush=True)
"#;

/// Says the last number, whether the database is whole, and whether only whole transactions are there.
const CHECKER: &str = r#"
import sqlite3
connection = sqlite3.connect("x.db")
verdict = connection.execute("PRAGMA integrity_check").fetchone()[0]
if not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
    print(0, verdict, 1)
else:
    n, count = connection.execute("SELECT coalesce(max(n), 0), count(*) FROM t").fetchone()
    print(n, verdict, int(n % 10 == 0 and count == min(n, 50)))
"#;

/// A device with a volume, as a file.
struct Machine {
    device: Arc<Forgetful>,
    unmounter: Unmounter,
    _thread: JoinHandle<Result<(), FuseError>>,
    mount: TempDir,
    folder: TempDir,
}

impl Machine {
    /// `None` where nothing can be mounted, which is said.
    fn new() -> Option<Self> {
        let (mount, folder) =
            (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
        let device = Arc::new(Forgetful::new(DEVICE_BYTES, 512));
        let medium = DeviceMedium::new(Arc::clone(&device), SEGMENT_PAGES).expect("a medium");
        Volume::create(Box::new(medium), (0, 0)).expect("created");
        let shared: Arc<dyn Device> = Arc::<Forgetful>::clone(&device);
        match Mounted::new(shared, mount.path(), &Options { source: "a test, of cuts".into(), threads: 3 }) {
            Ok(mounted) => {
                let unmounter = mounted.unmounter();
                let _thread = std::thread::spawn(|| mounted.serve());
                Some(Machine { device, unmounter, _thread, mount, folder })
            }
            Err(error) => {
                println!("SKIP fuse: {error}");
                None
            }
        }
    }

    /// What a program in Python prints until it ends.
    fn python(&self, program: &str, arguments: &[&str]) -> (bool, String) {
        let mut command = Command::new("timeout");
        command.args(["120", "python3", "-c", program]).args(arguments).current_dir(self.folder.path());
        command.env("AQUIFER_VOLUME", self.mount.path().join(FILE_NAME)).env("LD_PRELOAD", library());
        let output = command.stdin(Stdio::null()).output().expect("python3");
        let printed = String::from_utf8(output.stdout).expect("text");
        if !output.status.success() && !self.device.is_cut() {
            panic!("{printed}{}", String::from_utf8_lossy(&output.stderr));
        }
        (output.status.success(), printed)
    }

    /// The last number in a database that is whole.
    fn find(&self, what: &str) -> u64 {
        let (_, printed) = self.python(CHECKER, &[]);
        let (number, verdict) = printed.trim().split_once(' ').expect("a number and a verdict");
        assert_eq!(verdict, "ok 1", "{what}");
        number.parse().expect("a number")
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.device.revive();
        // A test that failed may have it open.
        let _ = self.unmounter.leave();
    }
}

fn cuts(mode: &str, synchronous: &str) {
    if !have_python() {
        return;
    }
    let number = |name: &str| std::env::var(name).ok().and_then(|value| value.parse().ok());
    let cuts = number("AQUIFER_CRASHES").unwrap_or(CUTS);
    let Some(mut machine) = Machine::new() else { return };
    let (mut before, mut acknowledged) = (0, 0);
    for cut in 0..cuts {
        let cut_after = cut * 37 % OPERATIONS;
        let what = format!("{mode}, {synchronous}, cut {cut} after {cut_after} operations");
        machine.device.cut_after(cut_after);
        let (_, printed) = machine.python(WRITER, &[mode, synchronous]);
        let last = printed.lines().next_back().map_or(before, |line| line.parse().expect("a number"));
        acknowledged += (last - before) / 10;
        machine.device.restore_power(if cut % 3 == 0 { Kept::Nothing } else { Kept::Some(cut) });
        let shown = machine.find(&what);
        assert!(shown >= last, "{what}: {shown} of {last} acknowledged");
        machine.device.restore_power(Kept::Nothing);
        let again = machine.find(&what);
        assert!(again >= shown, "{what}: {shown} was shown, and is {again} now");
        before = again;
        // Every now and then an empty database.
        if cut % 8 == 7 {
            let Some(new) = Machine::new() else { return };
            (machine, before) = (new, 0);
        }
    }
    assert!(acknowledged > 0, "{mode}, {synchronous}: no transaction was acknowledged");
}

#[test]
fn a_rollback_journal_brings_back_what_was_committed() {
    cuts("delete", "full");
}

#[test]
fn and_so_it_does_with_an_extra_sync() {
    cuts("delete", "extra");
}

#[test]
fn a_write_ahead_log_brings_back_what_was_committed() {
    cuts("wal", "full");
}
