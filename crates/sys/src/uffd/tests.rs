use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering::SeqCst};

use super::*;
use crate::errno::ErrnoGuard;
use crate::memory::{Advice, Reservation, advise, page_size};
use crate::signal::{fault_address, fault_is_write, install, restore};
use crate::testing::{ended_well, forbid, in_child, signal_turn, uffd_or_skip};

/// Pages of memory registered with `uffd`, and as many pages of ordinary memory full of `byte`.
fn registered(uffd: &Userfaultfd, pages: usize, byte: u8) -> (Reservation, Reservation) {
    let len = pages * page_size();
    let managed = Reservation::new(len, page_size()).expect("reserve");
    let source = Reservation::new(len, page_size()).expect("reserve");
    // SAFETY: both ranges are the test's.
    unsafe {
        source.base().write_bytes(byte, len);
        advise(managed.base(), len, Advice::NoHugePage).expect("no huge pages");
        uffd.register(managed.base(), len, true).expect("register");
    }
    (managed, source)
}

#[test]
fn the_kernel_lists_its_features() {
    match Userfaultfd::supported() {
        Ok(features) => assert!(features.contains(Features::SIGBUS), "{features:?}"),
        Err(error) => eprintln!("skipped: userfaultfd: {error}"),
    }
    match Userfaultfd::open_full(Features::NONE) {
        Ok(uffd) => assert!(uffd.raw_fd() >= 0),
        Err(error) => eprintln!("skipped: userfaultfd with kernel faults: {error}"),
    }
    assert!(Userfaultfd::open(Features(1 << 63)).is_err(), "an unknown feature");
}

#[test]
fn the_device_serves_where_the_call_is_refused() {
    if let Err(error) = std::fs::OpenOptions::new().read(true).write(true).open("/dev/userfaultfd") {
        eprintln!("skipped: /dev/userfaultfd: {error}");
        return;
    }
    let status = in_child(|| {
        if !forbid(libc::SYS_userfaultfd) {
            return 0;
        }
        let Ok(uffd) = Userfaultfd::open(Features::SIGBUS) else { return 1 };
        if Userfaultfd::open_full(Features::NONE).is_err() || Userfaultfd::supported().is_err() {
            return 2;
        }
        if uffd.renew_in_child(Features::SIGBUS).is_err() { 3 } else { 0 }
    });
    assert!(ended_well(status), "{status:#x}");
}

#[test]
fn copies_fill_pages_once() {
    let Some(uffd) = uffd_or_skip(Features::SIGBUS) else { return };
    let (managed, source) = registered(&uffd, 4, 0xA5);
    let (page, dst, src) = (page_size(), managed.base(), source.base());
    // SAFETY: all ranges are the test's; each page is filled before it is read.
    unsafe {
        uffd.copy(dst.add(page), src, page, false).expect("copy");
        assert_eq!(uffd.copy(dst.add(page), src, page, false), Err(Errno::EEXIST));
        // The page in front is filled before the one that exists ends the copy.
        assert_eq!(uffd.copy_as_far(dst, src, 3 * page, false), (page, Err(Errno::EEXIST)));
        uffd.zero(dst.add(2 * page), 2 * page).expect("zero");
        for (at, byte) in [(0, 0xA5), (page, 0xA5), (2 * page, 0), (4 * page - 1, 0)] {
            assert_eq!(dst.add(at).read_volatile(), byte, "offset {at}");
        }
        uffd.wake(dst, page).expect("wake");
        uffd.unregister(dst, managed.len()).expect("unregister");
        assert_eq!(uffd.copy(dst, src, page, false), Err(Errno::ENOENT));
    }
}

#[test]
fn pages_move_without_copying() {
    let wanted = Features::SIGBUS | Features::MOVE;
    let Some(uffd) = uffd_or_skip(wanted) else { return };
    let (managed, source) = registered(&uffd, 2, 0x3C);
    // SAFETY: all ranges are the test's.
    unsafe {
        uffd.move_pages(managed.base(), source.base(), managed.len()).expect("move");
        assert_eq!(managed.base().add(page_size()).read_volatile(), 0x3C);
        assert_eq!(source.base().read_volatile(), 0, "the source is empty");
    }
}

/// What the handler of the round trip works with, and what it saw.
static UFFD: AtomicPtr<Userfaultfd> = AtomicPtr::new(ptr::null_mut());
static SOURCE: AtomicPtr<u8> = AtomicPtr::new(ptr::null_mut());
static READS: AtomicUsize = AtomicUsize::new(0);
static WRITES: AtomicUsize = AtomicUsize::new(0);

/// Fills on the first fault of a page; a second one means a write to a protected page.
extern "C" fn resolve(_: i32, info: *mut libc::siginfo_t, context: *mut core::ffi::c_void) {
    let _errno = ErrnoGuard::new();
    let page = page_size();
    // SAFETY: the arguments are the handler's; the statics are set before the first fault.
    unsafe {
        let start = (fault_address(info) / page * page) as *mut u8;
        let write = fault_is_write(context);
        if write { &WRITES } else { &READS }.fetch_add(1, SeqCst);
        let uffd = &*UFFD.load(SeqCst);
        let outcome = match uffd.copy(start, SOURCE.load(SeqCst), page, !write) {
            Err(Errno::EEXIST) if write => uffd.write_protect(start, page, false),
            outcome => outcome,
        };
        if outcome.is_err() {
            libc::abort();
        }
    }
}

#[test]
fn a_faulting_thread_fills_its_own_page() {
    let _turn = signal_turn();
    let Some(mut uffd) = uffd_or_skip(Features::SIGBUS | Features::PAGEFAULT_FLAG_WP) else { return };
    let (managed, source) = registered(&uffd, 2, 0x11);
    UFFD.store(&mut uffd, SeqCst);
    SOURCE.store(source.base(), SeqCst);
    let seen = || (READS.load(SeqCst), WRITES.load(SeqCst));
    let (first, second) = (managed.base(), managed.base().wrapping_add(page_size()));
    // SAFETY: the handler is fit, the ranges are the test's and outlive the handler.
    unsafe {
        let previous = install(libc::SIGBUS, resolve).expect("install");
        *libc::__errno_location() = libc::ENOSPC;
        assert_eq!(first.add(100).read_volatile(), 0x11);
        assert_eq!(seen(), (1, 0), "a read fault");
        assert_eq!(Errno::last(), Errno::ENOSPC, "errno survives the fault");
        first.write_volatile(0x22);
        assert_eq!(seen(), (1, 1), "a write to the clean page");
        first.write_volatile(0x33);
        second.write_volatile(0x44);
        assert_eq!(seen(), (1, 2), "a write to an absent page");
        assert_eq!((first.read_volatile(), second.add(1).read_volatile()), (0x33, 0x11));
        uffd.write_protect(second, page_size(), true).expect("protect");
        second.write_volatile(0x55);
        assert_eq!(seen(), (1, 3), "a write to the page protected again");
        restore(libc::SIGBUS, &previous).expect("restore");
    }
}

#[test]
fn a_system_call_on_an_absent_page_fails() {
    let Some(uffd) = uffd_or_skip(Features::SIGBUS) else { return };
    let (managed, _source) = registered(&uffd, 1, 0);
    // SAFETY: the kernel cannot read the page, and says so.
    let fd = unsafe { libc::memfd_create(managed.base().cast(), 0) };
    assert_eq!((fd, Errno::last()), (-1, Errno::EFAULT));
}

/// Serves faults until `stop` becomes readable; returns what it saw.
fn serve(uffd: &Userfaultfd, source: usize, stop: c_int) -> Vec<(bool, bool, bool)> {
    let page = page_size();
    let mut seen = Vec::new();
    loop {
        let ready = uffd.poll(stop, -1).expect("poll");
        while let Some(event) = uffd.read_event().expect("read") {
            let Event::PageFault { address, write, write_protected, missing, thread_id } = event else {
                panic!("{event:?}")
            };
            assert_ne!(thread_id, 0);
            seen.push((write, write_protected, missing));
            let start = (address / page * page) as *mut u8;
            // SAFETY: the page is registered, the source readable; both outlive the handler thread.
            unsafe {
                if missing {
                    uffd.copy(start, source as *const u8, page, true).expect("copy");
                } else {
                    uffd.write_protect(start, page, false).expect("unprotect");
                }
            }
        }
        if ready.woken {
            return seen;
        }
    }
}

#[test]
fn a_handler_thread_serves_faults() {
    let wanted = Features::THREAD_ID | Features::PAGEFAULT_FLAG_WP;
    let Some(uffd) = uffd_or_skip(wanted) else { return };
    let (managed, source) = registered(&uffd, 1, 0x77);
    assert_eq!(uffd.read_event(), Ok(None));
    assert_eq!(uffd.poll(-1, 0), Ok(Ready { events: false, woken: false, is_mute: false }));
    // SAFETY: a new descriptor, owned by `stop`.
    let stop = unsafe { OwnedFd::from_raw_fd(libc::eventfd(0, libc::EFD_CLOEXEC)) };
    let source_address = source.base() as usize;
    let served = std::thread::scope(|scope| {
        let handler = scope.spawn(|| serve(&uffd, source_address, stop.as_raw_fd()));
        // SAFETY: the page is the test's, and the handler thread fills it.
        unsafe {
            assert_eq!(managed.base().read_volatile(), 0x77);
            managed.base().write_volatile(0x78);
            assert_eq!(managed.base().read_volatile(), 0x78);
            libc::eventfd_write(stop.as_raw_fd(), 1);
        }
        handler.join().expect("handler thread")
    });
    assert_eq!(served, [(false, false, true), (true, true, false)]);
}

#[test]
fn short_progress_is_continued() {
    let mut calls = Vec::new();
    let outcome = until_done(10, u64::MAX, |at| {
        calls.push(at);
        match calls.len() {
            1 => (Err(Errno::EAGAIN), 4),
            2 => (Err(Errno::EAGAIN), -i64::from(libc::EAGAIN)),
            _ => (Ok(()), 6),
        }
    });
    assert_eq!((outcome, calls), ((10, Ok(())), vec![0, 4, 4]));
    assert_eq!(until_done(10, u64::MAX, |_| (Err(Errno::EFAULT), 0)), (0, Err(Errno::EFAULT)));
}

#[test]
fn attempts_that_do_nothing_have_an_end() {
    let mut calls = 0;
    let outcome = until_done(10, 3, |_| {
        calls += 1;
        (Err(Errno::EAGAIN), -i64::from(libc::EAGAIN))
    });
    assert_eq!((outcome, calls), ((0, Err(Errno::EAGAIN)), 3));
}
