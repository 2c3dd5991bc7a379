//! The process that serves a mount is killed. What was synced is there when it is mounted again.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::ground::{Mount, VOLUME_BYTES, cannot_mount, skipped};

/// Writers at once.
const WRITERS: u32 = 3;
/// How often the process is killed.
const ROUNDS: u32 = 4;

/// Names a writer in a process of its own: writers that wait for a process that was killed must not be in the process that checks.
const WRITER: &str = "AQUIFER_TEST_WRITER";

/// Appends lines, syncs, and says which are durable; every tenth it renames the file away and begins another.
fn write_lines(folder: &Path, writer: &str) -> std::io::Result<()> {
    let mut said = std::io::stdout();
    let mut text = String::new();
    let path = folder.join(writer);
    OpenOptions::new().create(true).append(true).read(true).open(&path)?.read_to_string(&mut text)?;
    let first = text.lines().filter_map(|line| line.parse::<u64>().ok()).max().map_or(0, |last| last + 1);
    for line in first.. {
        let mut file = OpenOptions::new().create(true).append(true).open(&path)?;
        // One write: of two, a crash may leave the first.
        file.write_all(format!("{line}\n").as_bytes())?;
        if line % 10 == 9 {
            // As programs replace their files: write another, sync, rename.
            let next = folder.join(format!("{writer}.new"));
            let mut copy = File::create(&next)?;
            copy.write_all(&fs::read(&path)?)?;
            copy.sync_all()?;
            fs::rename(&next, &path)?;
            File::open(folder)?.sync_all()?;
        } else {
            file.sync_all()?;
        }
        writeln!(said, "durable {line}")?;
    }
    Ok(())
}

/// Is a writer if it was started as one, else nothing.
#[test]
fn writes_when_it_is_told_to() {
    if let Ok(told) = std::env::var(WRITER) {
        let (writer, folder) = told.split_once(' ').expect("a number and a folder");
        // It ends by an error when the server is killed.
        let _ = write_lines(Path::new(folder), writer);
    }
}

fn start_writer(folder: &Path, writer: u32) -> Child {
    let program = std::env::current_exe().expect("this program");
    let mut command = Command::new(program);
    command.args(["--exact", "crash::writes_when_it_is_told_to", "--nocapture"]);
    command.env(WRITER, format!("writer-{writer} {}", folder.display()));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("it starts")
}

/// The last line that a writer said is durable, and whether it said any.
fn last_durable(said: &str) -> Option<u64> {
    said.lines().filter_map(|line| line.rsplit_once("durable ")?.1.parse().ok()).next_back()
}

#[test]
fn what_was_synced_is_there() {
    if let Some(reason) = cannot_mount() {
        return skipped("what_was_synced_is_there", &reason);
    }
    let mut mount = Mount::unmounted(VOLUME_BYTES);
    let mut durable = vec![None; WRITERS as usize];
    for round in 0..ROUNDS {
        mount.start(&[]);
        let mut writers: Vec<_> = (0..WRITERS).map(|writer| start_writer(&mount.folder, writer)).collect();
        // Each has come some way; where the others are, nobody knows.
        let mut first = writers[0].stdout.take().expect("it is piped");
        let mut said = Vec::new();
        let mut piece = [0; 256];
        while said.iter().filter(|&&byte| byte == b'\n').count() < 20 + 13 * round as usize {
            let len = first.read(&mut piece).expect("it says something");
            assert!(len > 0, "the writer ended: {}", String::from_utf8_lossy(&said));
            said.extend_from_slice(&piece[..len]);
        }
        mount.crash();
        first.read_to_end(&mut said).expect("it ends");
        for (number, mut writer) in writers.drain(..).enumerate() {
            if let Some(mut output) = writer.stdout.take() {
                said.clear();
                output.read_to_end(&mut said).expect("it ends");
            }
            // A writer that waits for the folder is not waited for.
            let _ = kill_process(Pid::from_child(&writer), Signal::KILL);
            writer.wait().expect("it ends");
            durable[number] = last_durable(&String::from_utf8_lossy(&said)).or(durable[number]);
        }
        assert!(durable[0].is_some());
        mount.start(&[]);
        for (number, &durable) in durable.iter().enumerate() {
            let Some(durable) = durable else { continue };
            let text =
                fs::read_to_string(mount.folder.join(format!("writer-{number}"))).expect("it is there");
            let lines: Vec<&str> = text.lines().collect();
            let wrong = lines.iter().enumerate().find(|(number, line)| line.parse() != Ok(*number));
            assert_eq!(wrong, None, "round {round}: {} lines, {durable} was durable", lines.len());
            assert!(
                lines.len() as u64 > durable,
                "round {round}: {} lines, {durable} was durable",
                lines.len()
            );
        }
        mount.stop();
        mount.check();
    }
}
