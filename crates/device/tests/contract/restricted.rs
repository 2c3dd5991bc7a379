//! Devices in processes that may do less than usual: other users, seccomp filters, forked children.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::thread;

use aquifer_device::{AlignedBuffer, Device, DeviceError, FileDevice, OpenError, ReadRequest};
use tempfile::tempdir;

use crate::fixture::{DEVICE_BYTES, pattern, with_a_child};

/// A user that owns nothing.
const NOBODY: libc::uid_t = 65534;

#[test]
fn a_file_of_somebody_else_is_refused() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("device");
    fs::write(&path, b"").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o400)).unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o555)).unwrap();
    let results = thread::scope(|scope| scope.spawn(|| open_as_nobody(dir.path())).join().unwrap());
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    for result in results {
        let error = result.unwrap_err();
        assert!(matches!(error, OpenError::PermissionDenied { .. }), "{error}");
    }
}

/// Tries an old file, a new one and an unnamed one, without the rights of root if the test has them.
fn open_as_nobody(dir: &Path) -> [Result<FileDevice, OpenError>; 3] {
    // SAFETY: changes the user for file access of this thread only, which ends soon; without the right to do
    // so nothing happens, and the test runs as the ordinary user that it then is.
    unsafe { libc::setfsuid(NOBODY) };
    [
        FileDevice::create(dir.join("device"), 4096),
        FileDevice::create(dir.join("new"), 4096),
        FileDevice::unnamed_in(dir, 4096),
    ]
}

/// Runs `make` in a thread that is refused rings; `None` where that cannot be done.
pub fn without_rings<T: Send>(make: impl FnOnce() -> T + Send) -> Option<T> {
    thread::scope(|scope| scope.spawn(|| forbid_rings().then(make)).join().unwrap())
}

#[test]
fn batches_are_the_same_where_rings_are_forbidden() {
    let dir = tempdir().unwrap();
    let open = || FileDevice::unnamed_in(dir.path(), DEVICE_BYTES).unwrap();
    let Some(mut shared) = without_rings(open) else {
        println!("SKIPPED batches_are_the_same_where_rings_are_forbidden: cannot install a seccomp filter");
        return;
    };
    assert!(!shared.is_uring());
    assert_eq!((shared.depth(), FileDevice::threads()), (Some(9), if open().is_uring() { 0 } else { 8 }));
    assert_eq!(without_rings(FileDevice::threads), Some(8));
    let (rings, mut alone) = (open(), open());
    alone.disable_uring();
    assert_eq!(alone.depth(), None);
    for device in [&rings, &shared, &alone] {
        device.write_at(0, &pattern(3, DEVICE_BYTES as usize)).unwrap();
    }
    let outcomes = [batch_of_all_kinds(&rings), batch_of_all_kinds(&shared), batch_of_all_kinds(&alone)];
    assert_eq!(outcomes[0], outcomes[1]);
    assert_eq!(outcomes[0], outcomes[2]);
    shared.set_depth(3);
    assert_eq!((shared.depth(), shared.in_flight_max()), (Some(3), Some(0)));
    assert_eq!(batch_of_all_kinds(&shared), outcomes[0]);
    assert!((1..=3).contains(&shared.in_flight_max().unwrap()));
    shared.disable_uring();
    assert_eq!((shared.depth(), batch_of_all_kinds(&shared)), (None, outcomes[0].clone()));
}

/// The outcome and the bytes of each of many reads, of which some are refused.
fn batch_of_all_kinds(device: &FileDevice) -> Vec<(Result<(), DeviceError>, Vec<u8>)> {
    let mut memory: Vec<_> = (0..100).map(|at| AlignedBuffer::new(4096 * (1 + at % 3))).collect();
    let offsets = (0..100).map(|at| match at % 10 {
        7 => DEVICE_BYTES,
        8 => at * 4096 + 1,
        _ => at * 4096,
    });
    let mut reads: Vec<_> = offsets.zip(&mut memory).map(|(at, buf)| ReadRequest::new(at, buf)).collect();
    device.read_batch(&mut reads);
    reads.iter().map(|read| (read.result, read.buf.to_vec())).collect()
}

/// Makes `io_uring_setup` fail with EPERM in this thread, as containers do.
fn forbid_rings() -> bool {
    const LOAD_NUMBER: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const JUMP_IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let mut filter = [
        step(LOAD_NUMBER, 0, 0, 0),
        step(JUMP_IF_EQUAL, 0, 1, libc::SYS_io_uring_setup as u32),
        step(RETURN, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
        step(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: both calls change this thread only; the program and its filter live until the second returns.
    unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) == 0
    }
}

/// A child must not touch the rings, whose memory it shares with its parent.
#[test]
fn a_forked_child_reads_batches_without_the_rings() {
    let dir = tempdir().unwrap();
    reads_batches_in_child(&FileDevice::unnamed_in(dir.path(), DEVICE_BYTES).unwrap());
}

/// A child has none of the threads, and must not wait for them.
#[test]
fn a_forked_child_reads_batches_without_the_threads() {
    let dir = tempdir().unwrap();
    match without_rings(|| FileDevice::unnamed_in(dir.path(), DEVICE_BYTES).unwrap()) {
        Some(device) => reads_batches_in_child(&device),
        None => println!(
            "SKIPPED a_forked_child_reads_batches_without_the_threads: cannot install a seccomp filter"
        ),
    }
}

fn reads_batches_in_child(device: &FileDevice) {
    device.write_at(0, &pattern(1, 8192)).unwrap();
    let expected = pattern(1, 8192);
    let mut memory = AlignedBuffer::new(8192);
    let _child = with_a_child();
    // SAFETY: the child only reads, compares and exits; it takes no lock that another thread may hold and
    // does not allocate.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let same = both_halves(device, &mut memory) && *memory == *expected;
        // SAFETY: leaves without running anything of the parent's.
        unsafe { libc::_exit(if same { 0 } else { 1 }) };
    }
    let mut status = 0;
    // SAFETY: waits for the child from above; `status` is an int.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "status {status:#x}");
    assert!(both_halves(device, &mut memory) && *memory == *expected, "the parent's still work");
}

fn both_halves(device: &FileDevice, memory: &mut [u8]) -> bool {
    let (first, second) = memory.split_at_mut(4096);
    let mut batch = [ReadRequest::new(0, first), ReadRequest::new(4096, second)];
    device.read_batch(&mut batch);
    batch.iter().all(|request| request.result.is_ok())
}
