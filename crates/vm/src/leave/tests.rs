use std::sync::Arc;

use aquifer_base::{AllocationClass, LeafId};
use aquifer_cache::PolicyKind;
use aquifer_device::MemoryDevice;
use aquifer_log::{Geometry, Log};
use aquifer_sys::Errno;

use super::*;
use crate::{Budget, Engine, EngineOptions, TrapKind};

const RAM_BYTES: usize = 16 << 20;
const FLASH_BYTES: u64 = 64 << 20;
const PAGE_BYTES: usize = 640;

/// An engine without threads, whose faults the test resolves itself; `None` where the system refuses it.
pub(crate) fn engine_of(page_bytes: usize) -> Option<Engine> {
    let block = Budget::block_bytes(RAM_BYTES, None);
    let geometry = Geometry::choose(FLASH_BYTES, block).expect("large enough");
    let (log, _, _) = Log::new(Arc::new(MemoryDevice::new(FLASH_BYTES, 512)), geometry);
    let options = EngineOptions {
        budget: Budget::divide(RAM_BYTES, block, 0, FLASH_BYTES, page_bytes),
        leaves: 4,
        policy: PolicyKind::default(),
        compression: crate::Compression::Never,
        trap: TrapKind::Signal,
        read_ahead_pages: 8,
    };
    match Engine::new(options, log) {
        Ok(engine) => Some(engine),
        Err(errno @ (Errno::EPERM | Errno::ENOSYS)) => {
            println!("SKIP userfaultfd: {errno}");
            None
        }
        Err(errno) => panic!("{errno}"),
    }
}

/// The bytes of a page that is mapped.
fn bytes_of(engine: &Engine, page: PageId) -> &[u8] {
    // SAFETY: the page is mapped, and the test changes it only while it does not look.
    unsafe { std::slice::from_raw_parts(engine.address_of(page), PAGE_BYTES) }
}

fn write(engine: &Engine, page: PageId, byte: u8) {
    engine.resolve_in_fault(page, true).expect("resolved");
    // SAFETY: the page is mapped writable, and nothing evicts it here.
    unsafe { engine.address_of(page).write_bytes(byte, PAGE_BYTES) };
}

/// A page that belongs to no object was mapped along with one that does. While it leaves together with pages of another
/// leaf, its own leaf is taken back: its size is another one then, and the others have their bytes all the same.
#[test]
fn pages_keep_their_bytes_when_the_leaf_of_another_is_taken_back() {
    let Some(engine) = engine_of(PAGE_BYTES) else { return };
    let [gone, kept] = [LeafId(0), LeafId(1)].map(|leaf| leaf.page(0));
    let more = PageId(kept.0 + 1);
    engine.give_out_leaf(kept.leaf(), PAGE_BYTES, AllocationClass::DEFAULT);
    // What a pipe were left with would come out of it in the next round.
    for round in 1..=10 {
        engine.give_out_leaf(gone.leaf(), PAGE_BYTES, AllocationClass::DEFAULT);
        let mut batch = Batch::new(engine.pages());
        for (page, byte) in [(kept, round), (gone, 100 + round), (more, 200 + round)] {
            write(&engine, page, byte);
            assert!(batch.take_in_fault(page));
        }
        let secured = batch.secure_in_fault();
        std::thread::scope(|scope| {
            scope.spawn(|| engine.take_back_leaf(gone.leaf()).expect("nothing of it is on flash"));
            // From here on it waits for the page.
            while engine.leaves().page_bytes(gone.leaf()) != 0 {
                std::thread::yield_now();
            }
            batch.leave_secured_in_fault(secured);
        });
        for (page, byte) in [(kept, round), (more, 200 + round)] {
            engine.resolve_in_fault(page, false).expect("resolved");
            assert_eq!(bytes_of(&engine, page), [byte; PAGE_BYTES], "{page:?} in round {round}");
        }
        assert!(engine.pages().residence.find(gone).is_none(), "it left with its leaf");
    }
}
