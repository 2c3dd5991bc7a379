//! What every device must do, run over every device there is; and what only files and block devices do.

mod block;
mod fixture;
mod opening;
mod restricted;
mod suite;

use std::sync::Arc;

use aquifer_device::{Counted, Device, FaultPlan, Faulty, FileDevice, MemoryDevice, Throttle, Throttled};
use fixture::{DEVICE_BYTES, Fixture};

fn memory(block_bytes: usize) -> MemoryDevice {
    MemoryDevice::new(DEVICE_BYTES, block_bytes)
}

fn file_without_rings() -> Option<Fixture> {
    Some(Fixture::in_folder(|dir| {
        let mut device = FileDevice::create(dir.join("device"), DEVICE_BYTES).unwrap();
        device.disable_uring();
        assert!(!device.is_uring());
        Box::new(device)
    }))
}

/// A file that the page cache serves, because its file system cannot do without.
fn buffered_file() -> Option<Fixture> {
    let dir = tempfile::tempdir_in("/dev/shm").ok()?;
    let device = FileDevice::unnamed_in(dir.path(), DEVICE_BYTES).ok()?;
    (!device.is_direct()).then(|| Fixture::new(Box::new(device), dir))
}

fn bare(device: impl Device + 'static) -> Option<Fixture> {
    Some(Fixture::new(Box::new(device), ()))
}

/// The whole suite over what `$make` gives; `None` from it skips the tests.
macro_rules! contract {
    ($name:ident, $make:expr) => {
        mod $name {
            #[allow(unused_imports)]
            use super::*;

            contract!(@tests $make; sizes, round_trip, keeps_neighbours, out_of_range, misaligned,
                empty_transfers, large_batches, mixed_batches, concurrent_threads, discarded_ranges,
                agrees_with_memory);
        }
    };
    (@tests $make:expr; $($test:ident),*) => {
        $(#[test]
        fn $test() {
            match $make {
                Some(fixture) => suite::$test(fixture.device()),
                None => println!("SKIPPED {}: this system has no such device", module_path!()),
            }
        })*
    };
}

contract!(memory_512, bare(memory(512)));
contract!(memory_4096, bare(memory(4096)));
contract!(
    named_file,
    Some(Fixture::in_folder(|dir| Box::new(FileDevice::create(dir.join("device"), DEVICE_BYTES).unwrap())))
);
contract!(
    unnamed_file,
    Some(Fixture::in_folder(|dir| Box::new(FileDevice::open(dir, DEVICE_BYTES).unwrap())))
);
contract!(one_by_one, file_without_rings());
contract!(page_cache, buffered_file());
contract!(counted, bare(Counted::new(memory(512))));
contract!(throttled, bare(Throttled::new(memory(512), Throttle::default())));
contract!(faulty, bare(Faulty::new(memory(512), FaultPlan::default())));
contract!(shared_pointer, bare(Arc::new(memory(4096)) as Arc<dyn Device>));
contract!(boxed, bare(Box::new(memory(4096)) as Box<dyn Device>));
contract!(
    wrapped_thrice,
    Some(Fixture::in_folder(|dir| {
        let file = FileDevice::unnamed_in(dir, DEVICE_BYTES).unwrap();
        let faulty = Faulty::new(Throttled::new(file, Throttle::default()), FaultPlan::new(1));
        Box::new(Counted::new(Arc::new(faulty)))
    }))
);
