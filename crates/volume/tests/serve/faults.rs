//! Clients whose faults, views and userfaultfds are not as the server would have them.

use std::os::unix::process::ExitStatusExt;

use aquifer_sys::memory::MappedRange;
use aquifer_sys::uffd::Features;
use aquifer_volume::serve::protocol::Operation;
use rustix::mm::Advice;

use super::raw::{Raw, descriptor_of, faults, faults_with};
use super::victim::Victim;
use super::*;

const READ_WRITE: u64 = open::READ | open::WRITE;

/// Waits until a child says that it is ready.
fn wait_until_ready(child: &mut Child) {
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().expect("stdout")));
    assert!(lines.any(|line| line.expect("line").contains("READY")));
}

fn end(mut child: Child) {
    child.kill().expect("kill");
    assert!(child.wait().expect("wait").signal().is_some());
}

/// Stores to one byte of each page of a range, from `threads` threads, until the process ends.
fn store_for_ever(range: &MappedRange, threads: usize) {
    let (base, pages) = (range.base() as usize, range.len() / PAGE_BYTES);
    for nth in 0..threads {
        std::thread::spawn(move || {
            for round in 0u64.. {
                for page in (nth..pages).step_by(threads) {
                    let address = std::ptr::with_exposed_provenance_mut::<u8>(base + page * PAGE_BYTES + 9);
                    // SAFETY: the range is mapped until the process ends, and nobody has a reference into it.
                    unsafe { address.write_volatile(round as u8) };
                }
            }
        });
    }
}

/// A client that has its descriptor wait for faults, where the server asks for those that are there.
#[test]
fn a_userfaultfd_that_waits_keeps_no_server_from_ending() {
    let rig = Rig::new();
    rig.file("file", 0o666, 0, 0);
    let mut victim = Victim::new(&rig);
    let (raw, faults) = (Raw::connect(&rig.socket), faults());
    let handle = raw.open("file", READ_WRITE);
    let (range, view) = raw.map(handle, 20, Protection::Write, &faults, true);
    rustix::fs::fcntl_setfl(descriptor_of(&faults), rustix::fs::OFlags::empty()).expect("flags");
    // All threads of the server that wait for faults wake, and there is one fault: it is resolved, or its thread waits until the descriptor is closed.
    store_for_ever(&range, 1);
    std::mem::forget(range);
    std::thread::sleep(Duration::from_millis(100));
    victim.go_on();
    assert_eq!(raw.errno_of(Operation::Detach, view), 0);
    victim.end(&rig);
    drop(rig);
    drop((raw, faults));
}

/// A client that has messages sent for each page that it gives up: until one is read, the kernel changes nothing of its memory for the server.
#[test]
fn messages_that_nobody_reads_stop_no_commit() {
    let rig = Rig::new();
    rig.file("file", 0o666, 0, 0);
    let mut victim = Victim::new(&rig);
    let mut child = rig.child((1001, 1001), "give up", &["file"]);
    wait_until_ready(&mut child);
    for _ in 0..100 {
        victim.go_on();
    }
    end(child);
    victim.end(&rig);
}

/// Stores from many threads, and gives pages up meanwhile.
pub fn give_up(socket: &Path, path: &str) -> String {
    let raw = Raw::connect(socket);
    let handle = raw.open(path, READ_WRITE);
    let faults = faults_with(Features::EVENT_REMOVE | Features::EVENT_UNMAP | Features::EVENT_REMAP);
    let (range, _) = raw.map(handle, 64, Protection::Write, &faults, true);
    store_for_ever(&range, 16);
    println!("READY");
    loop {
        // SAFETY: what is given up comes back by a fault.
        let _ = unsafe { rustix::mm::madvise(range.base().cast(), range.len(), Advice::LinuxDontNeed) };
    }
}

/// A reader whose addresses are other memory, to which it stores: its faults say so, and the file stays as it is.
#[test]
fn stores_of_a_reader_change_nothing_of_a_file() {
    let rig = Rig::new();
    let ino = rig.file("file", 0o644, 0, 0);
    let victim = Victim::new(&rig);
    rig.volume.sync().expect("sync");
    let before = rig.volume.inode(ino).expect("inode");
    rig.child((1001, 1001), "write by faults", &["file"]).wait().expect("a child");
    rig.volume.sync().expect("sync");
    assert_eq!(rig.volume.inode(ino).expect("inode"), before);
    victim.end(&rig);
}

/// A view that is attached twice, others that overlap it, and all of them come and go while faults are under way.
#[test]
fn views_that_come_and_go_in_faults_stop_nobody() {
    let rig = Rig::new();
    rig.file("file", 0o666, 0, 0);
    let mut victim = Victim::new(&rig);
    let mut children: Vec<Child> =
        (0..2).map(|_| rig.child((1001, 1001), "come and go", &["file"])).collect();
    children.iter_mut().for_each(wait_until_ready);
    for _ in 0..20 {
        victim.go_on();
    }
    children.into_iter().for_each(end);
    victim.end(&rig);
}

/// Attaches and detaches views of the same addresses while threads store there.
pub fn come_and_go(socket: &Path, path: &str) -> String {
    let (raw, faults) = (Raw::connect(socket), faults());
    let handle = raw.open(path, READ_WRITE);
    let (range, view) = raw.map(handle, 64, Protection::Write, &faults, true);
    store_for_ever(&range, 8);
    println!("READY");
    let mut views = vec![view];
    for round in 0u64.. {
        let base = range.base() as u64 + round % 8 * PAGE_BYTES as u64;
        let answer = raw.attach(handle, base, 50, round % 3, None);
        assert_eq!(answer.errno, 0, "{}", String::from_utf8_lossy(&answer.bytes));
        views.push(answer.handle);
        if views.len() > 5 {
            for view in views.drain(..4) {
                assert_eq!(raw.errno_of(Operation::Detach, view), 0);
                assert_eq!(raw.errno_of(Operation::Detach, view), libc::EBADF);
            }
        }
        faults.wake(range.base(), range.len()).expect("woken");
    }
    "never".into()
}

/// A client that stands still with pages that it has changed, and one that leaves its connection to a child that has none of its memory.
#[test]
fn a_client_that_stands_still_stops_nobody() {
    let rig = Rig::new();
    rig.file("file", 0o666, 0, 0);
    let mut victim = Victim::new(&rig);
    for role in ["stand still", "leave a child"] {
        let mut child = rig.child((1001, 1001), role, &["file"]);
        wait_until_ready(&mut child);
        for _ in 0..5 {
            victim.go_on();
        }
        child.kill().expect("kill");
        child.wait().expect("wait");
        victim.go_on();
    }
    victim.end(&rig);
}

/// Changes pages, and stops.
pub fn stand_still(socket: &Path, path: &str) -> String {
    let _kept = changed(socket, path);
    println!("READY");
    rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::STOP).expect("stopped");
    // This thread may be the last one to stop.
    loop {
        std::thread::sleep(TOO_LONG);
    }
}

/// Changes pages, and leaves the connection to a forked child that lives for two seconds.
pub fn leave_a_child(socket: &Path, path: &str) -> String {
    let _kept = changed(socket, path);
    // SAFETY: the child calls nothing but the kernel.
    unsafe {
        if libc::fork() == 0 {
            libc::sleep(2);
            libc::_exit(0);
        }
    }
    println!("READY");
    // Nobody hears more.
    std::process::exit(0);
}

fn changed(socket: &Path, path: &str) -> (Raw, aquifer_sys::Userfaultfd, MappedRange) {
    let (raw, faults) = (Raw::connect(socket), faults());
    let handle = raw.open(path, READ_WRITE);
    let (range, _) = raw.map(handle, 64, Protection::Write, &faults, true);
    for page in 0..64 {
        // SAFETY: the range is mapped, and nobody has a reference into it.
        unsafe { range.base().add(page * PAGE_BYTES).write_volatile(1) };
    }
    (raw, faults, range)
}

/// A file that is cut again and again while others store to it: they may get SIGBUS, and nobody else anything.
#[test]
fn cutting_a_file_in_which_others_fault_hurts_that_file_alone() {
    let rig = Rig::new();
    rig.file("file", 0o666, 0, 0);
    let mut victim = Victim::new(&rig);
    let raw = Raw::connect(&rig.socket);
    let handle = raw.open("file", READ_WRITE);
    for round in 0..6 {
        let mut child = rig.child((1001, 1001), "store", &["file"]);
        for cut in 0..40u64 {
            for size in [cut * 5000, (PAGES * PAGE_BYTES) as u64] {
                let request = aquifer_volume::serve::protocol::Request {
                    a: size,
                    ..aquifer_volume::serve::protocol::Request::new(Operation::Truncate, handle)
                };
                assert_eq!(raw.ask(&request, None).0.errno, 0, "round {round}");
            }
        }
        victim.go_on();
        child.kill().expect("kill");
        child.wait().expect("wait");
    }
    victim.end(&rig);
}

/// A userfaultfd of a process that is gone, and one that was never made ready: views of it show nothing, and stop nobody.
#[test]
fn a_userfaultfd_of_nobody_stops_nobody() {
    let rig = Rig::new();
    rig.file("file", 0o666, 0, 0);
    let mut victim = Victim::new(&rig);
    // SAFETY: plain numbers.
    let unready = unsafe { libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC | libc::O_NONBLOCK | 1) };
    // SAFETY: the descriptor is new.
    let unready = unsafe { aquifer_sys::Userfaultfd::from_raw_fd(unready as i32) };
    let raw = Raw::connect(&rig.socket);
    let handle = raw.open("file", READ_WRITE);
    raw.attach(handle, 1 << 40, 3, 1, Some(&unready));
    victim.go_on();
    raw.attach(handle, 1 << 41, 3, 1, None);
    victim.go_on();
    drop(raw);
    victim.end(&rig);
}

/// Views without number: some are there, the others refused.
#[test]
fn a_user_has_so_many_views() {
    let rig = Rig::new();
    rig.file("file", 0o666, 0, 0);
    let mut victim = Victim::new(&rig);
    let faults = faults();
    let raws: Vec<Raw> = (0..10).map(|_| Raw::connect(&rig.socket)).collect();
    let (mut attached, mut refused) = (0, 0);
    for raw in &raws {
        let handle = raw.open("file", READ_WRITE);
        for nth in 0..4000u64 {
            let given = (nth == 0).then_some(&faults);
            match raw.attach(handle, (1 << 40) + nth * PAGE_BYTES as u64, 1, 1, given).errno.cast_signed() {
                0 => attached += 1,
                errno => {
                    assert!([libc::EMFILE, libc::EDQUOT].contains(&errno), "{errno}");
                    refused += 1;
                    break;
                }
            }
        }
    }
    assert!(refused > 0 && attached <= VIEWS_OF_USER_MAX, "{attached} are attached, {refused} were refused");
    victim.go_on();
    drop(raws);
    victim.end(&rig);
}

/// What all programs of a user may have mapped.
const VIEWS_OF_USER_MAX: usize = 8 << 10;
