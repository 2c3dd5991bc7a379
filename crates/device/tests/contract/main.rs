//! What every device must do, run over every device there is; and what only files and block devices do.

mod block;
mod fixture;
mod opening;
mod restricted;
mod suite;

use std::sync::Arc;

use aquifer_device::Pacing;
use aquifer_device::ftl::{Ftl, FtlDevice, FtlOptions};
use aquifer_device::nand::{Geometry, Nand, NandOptions, Timing};
use aquifer_device::{
    Counted, Device, FaultPlan, Faulty, FileDevice, Forgetful, MemoryDevice, Stripe, Throttle, Throttled,
};
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

/// A file whose batches are shared by threads, as where a seccomp filter refuses rings.
fn file_with_threads() -> Option<Fixture> {
    restricted::without_rings(|| FileDevice::unnamed_in(std::env::temp_dir(), DEVICE_BYTES).unwrap())
        .map(|device| Fixture::new(Box::new(device), ()))
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

/// Fast flash, so that nobody waits long.
const FAST: Timing =
    Timing { read_ns: 1000, program_ns: 1000, erase_ns: 5000, bus_bytes_per_s: 4_000_000_000 };

/// Emulated flash in memory. Its size follows from its geometry and is near that of the others.
fn flash(page_bytes: u32, timing: Timing, pacing: Pacing) -> Option<Fixture> {
    let blocks = (4 << 20) / (4 * page_bytes);
    let geometry =
        Geometry { channels: 2, dies_per_channel: 1, ..Geometry::single_die(blocks / 2, 4, page_bytes) };
    let nand = Nand::new(NandOptions { timing, ..NandOptions::new(geometry) }).unwrap();
    let ftl = Ftl::open(nand, FtlOptions { over_provisioning: 0.4, ..FtlOptions::default() }).unwrap();
    bare(FtlDevice::new(ftl, pacing))
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
contract!(shared_by_threads, file_with_threads());
contract!(page_cache, buffered_file());
contract!(counted, bare(Counted::new(memory(512))));
contract!(throttled, bare(Throttled::new(memory(512), Throttle::default())));
contract!(faulty, bare(Faulty::new(memory(512), FaultPlan::default())));
contract!(forgetful, bare(Forgetful::new(DEVICE_BYTES, 512)));
contract!(shared_pointer, bare(Arc::new(memory(4096)) as Arc<dyn Device>));
contract!(boxed, bare(Box::new(memory(4096)) as Box<dyn Device>));
contract!(flash_of_small_pages, flash(512, Timing::COMMON, Pacing::Simulated));
contract!(flash_of_blocks, flash(4096, Timing::NONE, Pacing::Simulated));
contract!(flash_of_large_pages, flash(16384, Timing::NONE, Pacing::Simulated));
contract!(flash_in_real_time, flash(4096, FAST, Pacing::RealTime));
contract!(stripe, bare(Stripe::new(vec![memory(512), memory(512), memory(512)], 8192).unwrap()));
contract!(
    wrapped_thrice,
    Some(Fixture::in_folder(|dir| {
        let file = FileDevice::unnamed_in(dir, DEVICE_BYTES).unwrap();
        let faulty = Faulty::new(Throttled::new(file, Throttle::default()), FaultPlan::new(1));
        Box::new(Counted::new(Arc::new(faulty)))
    }))
);
