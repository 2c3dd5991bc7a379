//! Locks. They are the kernel's, but must be there.

use std::fs::{File, OpenOptions};
use std::path::Path;
use std::process::Command;

use rustix::fs::{FlockOperation, fcntl_lock, flock};
use rustix::io::Errno;

use crate::ground::fails;

fn open(at: &Path) -> File {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(at.join("file"))
        .expect("it opens")
}

pub fn of_files(at: &Path) {
    let (one, other) = (open(at), open(at));
    flock(&one, FlockOperation::NonBlockingLockExclusive).expect("nobody has it");
    fails(flock(&other, FlockOperation::NonBlockingLockExclusive), Errno::WOULDBLOCK);
    fails(flock(&other, FlockOperation::NonBlockingLockShared), Errno::WOULDBLOCK);
    drop(one);
    flock(&other, FlockOperation::NonBlockingLockShared).expect("nobody has it");
    flock(open(at), FlockOperation::NonBlockingLockShared).expect("it is shared");
}

/// Locks of records are a process's, so another one looks.
pub fn of_records(at: &Path) {
    let file = open(at);
    fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive).expect("nobody has it");
    let another = |expected: &str| {
        let script = "import fcntl,sys\nf=open(sys.argv[1],'r+')\ntry:\n fcntl.lockf(f,fcntl.LOCK_EX|fcntl.LOCK_NB)\n print('free')\nexcept OSError as e:\n print(e.errno)";
        match Command::new("python3").args(["-c", script]).arg(at.join("file")).output() {
            Ok(output) => assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), expected),
            Err(error) => crate::ground::skipped("locks of records", &format!("no python3: {error}")),
        }
    };
    another("11");
    fcntl_lock(&file, FlockOperation::NonBlockingUnlock).expect("it has it");
    another("free");
}
