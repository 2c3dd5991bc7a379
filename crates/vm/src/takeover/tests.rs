use super::*;
use crate::{Budget, Engine, EngineOptions, NativeRegion, TrapKind};
use aquifer_cache::PolicyKind;
use aquifer_device::MemoryDevice;
use aquifer_log::{Geometry, Log};
use aquifer_sys::memory::{Advice, advise};
use std::io::{Read, pipe};
use std::os::fd::AsRawFd;
use std::sync::Arc;
/// An engine over ordinary memory, without threads; `None` where the system refuses it.
fn engine_over(region: &NativeRegion) -> Option<Engine> {
    const RAM_BYTES: usize = 16 << 20;
    const FLASH_BYTES: u64 = 64 << 20;
    let block = Budget::block_bytes(RAM_BYTES, None);
    let geometry = Geometry::choose(FLASH_BYTES, block).expect("large enough");
    let (log, _, _) = Log::new(Arc::new(MemoryDevice::new(FLASH_BYTES, 512)), geometry);
    let options = EngineOptions {
        budget: Budget::divide(RAM_BYTES, block, 0, FLASH_BYTES, OS_PAGE_BYTES),
        leaves: region.leaves(),
        policy: PolicyKind::default(),
        compression: crate::Compression::Never,
        trap: TrapKind::Signal,
        read_ahead_pages: 8,
    };
    match Engine::over(region.clone(), options, log) {
        Ok(engine) => Some(engine),
        Err(errno @ (Errno::EPERM | Errno::ENOSYS)) => {
            println!("SKIP userfaultfd: {errno}");
            None
        }
        Err(errno) => panic!("{errno}"),
    }
}
/// A pipe holds pages while they leave. A write to a page in the pipe must be seen in the pipe, so the page
/// must not be one that the kernel replaces on a write. Ordinary memory that was only read is the kernel's
/// zero page, until it is made the region's own. A fault of a native page that was not captured yet finds
/// that it is present when the kernel refuses to map another.
#[test]
fn a_native_page_that_a_fault_finds_does_not_change_its_place_when_it_is_written() {
    let region = NativeRegion::new(4).expect("address space");
    let Some(engine) = engine_over(&region) else { return };
    let page = PageId(3);
    let address = engine.address_of(page);
    // SAFETY: the region is ordinary memory; no byte changes.
    unsafe { advise(region.base(), 512 * OS_PAGE_BYTES, Advice::NoHugePage) }.expect("advised");
    // SAFETY: the region is ordinary memory.
    assert_eq!(unsafe { address.read_volatile() }, 0);
    engine.take_over().expect("taken over");
    engine.resolve_in_fault(page, false).expect("it is there");
    let (mut reader, writer) = pipe().expect("pipe");
    let part = libc::iovec { iov_base: address.cast(), iov_len: OS_PAGE_BYTES };
    // SAFETY: the page is mapped, and nobody evicts it.
    let held = unsafe { libc::vmsplice(writer.as_raw_fd(), &raw const part, 1, 0) };
    assert_eq!(held, OS_PAGE_BYTES as isize);
    // SAFETY: the same; its entry says that it may be written.
    unsafe { address.write_bytes(7, OS_PAGE_BYTES) };
    let mut bytes = [0; OS_PAGE_BYTES];
    reader.read_exact(&mut bytes).expect("read");
    let seen = bytes.iter().filter(|&&byte| byte == 7).count();
    assert_eq!(seen, OS_PAGE_BYTES, "bytes that the pipe has of what was written");
}
