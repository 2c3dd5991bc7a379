//! Objects that cannot be read, touched through plain pointers: the program ends as a bus error ends it, or
//! its own handler decides. Each test kills a child.

mod common;

use std::os::unix::process::ExitStatusExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use aquifer::device::{FaultKind, FaultPlan, Faulty, MemoryDevice, Operation};
use aquifer::{Faults, Flash, Heap, Options};
use common::{is_child, run_child};

const OBJECTS: usize = 8000;
const OBJECT_BYTES: usize = 4000;
/// Exit code of a child whose handler got the signal for the right address.
const HANDLED: i32 = 42;

/// An object that the handler of the program expects to be told about: first byte.
static TOUCHED: AtomicUsize = AtomicUsize::new(0);

/// Fills a heap with four times its RAM, breaks its device, and reads until something is not in RAM.
fn touch_what_cannot_be_read(faults: Faults) -> ! {
    let plan = FaultPlan::new(0).from_nth(Operation::Read, 1, FaultKind::Eio);
    let device = Arc::new(Faulty::new(MemoryDevice::new(64 << 20, 4096), plan));
    device.disarm();
    let options = Options::new().ram_bytes(8 << 20).flash(Flash::Device(device.clone())).faults(faults);
    let heap = Heap::open(options).unwrap();
    let objects: Vec<*mut u8> = (0..OBJECTS).map(|_| heap.allocate(OBJECT_BYTES).unwrap()).collect();
    for &object in &objects {
        // SAFETY: the object has that many bytes.
        unsafe { object.write_bytes(7, OBJECT_BYTES) };
    }
    device.arm();
    for &object in &objects {
        TOUCHED.store(object as usize, Ordering::Relaxed);
        // SAFETY: the object was written above.
        assert_eq!(unsafe { object.read_volatile() }, 7);
    }
    unreachable!("four times as much as fits cannot all be in RAM");
}

#[test]
fn ends_by_sigbus_and_says_why() {
    if is_child("ends_by_sigbus_and_says_why") {
        touch_what_cannot_be_read(Faults::Signal);
    }
    let output = run_child("ends_by_sigbus_and_says_why");
    assert_eq!(output.status.signal(), Some(libc::SIGBUS), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("aquifer: flash could not be read"), "{said}");
}

#[test]
fn ends_by_sigbus_with_fault_threads() {
    if is_child("ends_by_sigbus_with_fault_threads") {
        touch_what_cannot_be_read(Faults::Thread);
    }
    let output = run_child("ends_by_sigbus_with_fault_threads");
    assert_eq!(output.status.signal(), Some(libc::SIGBUS), "{output:?}");
}

#[test]
fn ends_by_sigbus_with_faults_by_protection() {
    if is_child("ends_by_sigbus_with_faults_by_protection") {
        touch_what_cannot_be_read(Faults::Fence);
    }
    let output = run_child("ends_by_sigbus_with_faults_by_protection");
    assert_eq!(output.status.signal(), Some(libc::SIGBUS), "{output:?}");
}

#[test]
fn what_is_nobodys_still_ends_by_sigsegv() {
    if is_child("what_is_nobodys_still_ends_by_sigsegv") {
        let heap = Heap::open(Options::new().ram_bytes(8 << 20).flash_bytes(64 << 20).faults(Faults::Fence));
        let object = heap.as_ref().unwrap().allocate(OBJECT_BYTES).unwrap();
        // SAFETY: the object is this test's. The other address is nobody's: reading there ends the child, which is the point.
        unsafe {
            object.write_volatile(1);
            std::ptr::without_provenance::<u8>(64).read_volatile();
        }
    }
    let output = run_child("what_is_nobodys_still_ends_by_sigsegv");
    assert_eq!(output.status.signal(), Some(libc::SIGSEGV), "{output:?}");
}

extern "C" fn on_sigbus(_: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel's information about a fault has its address; `_exit` may be called anywhere.
    unsafe {
        let right = (*info).si_addr() as usize == TOUCHED.load(Ordering::Relaxed);
        libc::_exit(if right { HANDLED } else { HANDLED + 1 });
    }
}

#[test]
fn the_handler_of_the_program_gets_it() {
    if is_child("the_handler_of_the_program_gets_it") {
        // SAFETY: the structure is plain, and the handler does only what it may.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_sigbus as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO;
            assert_eq!(libc::sigaction(libc::SIGBUS, &action, std::ptr::null_mut()), 0);
        }
        touch_what_cannot_be_read(Faults::Signal);
    }
    let output = run_child("the_handler_of_the_program_gets_it");
    assert_eq!(output.status.code(), Some(HANDLED), "{output:?}");
}

/// Memory of a heap that was never given out is no memory.
#[test]
fn what_is_not_allocated_is_a_bus_error() {
    if is_child("what_is_not_allocated_is_a_bus_error") {
        let heap = Heap::open(Options::new().ram_bytes(8 << 20).flash_bytes(64 << 20)).unwrap();
        let object = heap.allocate(100).unwrap();
        // SAFETY: not at all; that is the test.
        unsafe { object.add(1 << 30).read_volatile() };
        return;
    }
    let output = run_child("what_is_not_allocated_is_a_bus_error");
    assert_eq!(output.status.signal(), Some(libc::SIGBUS), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("not allocated"), "{output:?}");
}
