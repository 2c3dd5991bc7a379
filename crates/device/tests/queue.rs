//! Queues, real and simulated: what is submitted is done, once, and nothing else is.

use aquifer_device::ftl::{Ftl, FtlOptions};
use aquifer_device::nand::{Geometry, Nand, NandOptions, Timing};
use aquifer_device::queue::{
    Controller, Direction, Durability, Queue, QueueTransfer, RealQueue, SimulatedQueue,
};
use aquifer_device::{Device, DeviceError, FileDevice};

const MODES: [Durability; 3] = [Durability::Cached, Durability::FlushEach, Durability::Dsync];

fn flash() -> Ftl {
    let geometry = Geometry { channels: 2, ..Geometry::single_die(40, 16, 4096) };
    let options = NandOptions { timing: Timing::COMMON, ..NandOptions::new(geometry) };
    Ftl::open(Nand::new(options).unwrap(), FtlOptions { over_provisioning: 0.5, ..FtlOptions::default() })
        .unwrap()
}

fn simulated(devices: usize) -> SimulatedQueue {
    SimulatedQueue::new((0..devices).map(|_| flash()).collect(), 8192, Controller::default())
}

/// Files in memory or on disk, whatever the folder for temporary files is.
fn real(devices: usize) -> Option<RealQueue> {
    let dir = std::env::temp_dir();
    let open = |_| FileDevice::unnamed_in(&dir, 2 << 20).unwrap();
    match RealQueue::new((0..devices).map(open).collect(), 8192) {
        Ok(queue) => Some(queue),
        Err(error) => {
            println!("SKIP io_uring: {error}");
            None
        }
    }
}

fn everything_is_done_once(queue: &mut dyn Queue) {
    const SLOTS: usize = 8;
    let block = queue.block_bytes() as u64;
    queue.resize(SLOTS, 64 << 10).unwrap();
    let mut under_way = [false; SLOTS];
    let (mut submitted, mut done, mut last_ns) = (0u64, 0u64, 0);
    while done < 300 {
        while let Some(slot) = under_way.iter().position(|&taken| !taken).filter(|_| submitted < 300) {
            let len_bytes = [block, 4096, 12_288, 65_536][submitted as usize % 4].next_multiple_of(block);
            let room = (queue.len_bytes() - len_bytes) / block;
            let offset = (submitted * 7919) % room * block;
            let direction = if submitted % 3 == 0 {
                Direction::Read
            } else {
                Direction::Write(MODES[submitted as usize % 2])
            };
            queue.submit(slot, QueueTransfer { direction, offset, len_bytes: len_bytes as usize }).unwrap();
            under_way[slot] = true;
            submitted += 1;
        }
        let completion = queue.wait().unwrap();
        assert!(
            std::mem::take(&mut under_way[completion.slot]),
            "slot {} was not under way",
            completion.slot
        );
        assert_eq!(completion.result, Ok(()));
        assert!(completion.done_ns >= last_ns && completion.done_ns <= queue.now_ns());
        last_ns = completion.done_ns;
        done += 1;
    }
    queue.flush().unwrap();
    queue.discard(0, queue.len_bytes() / 2).unwrap();
    let before = queue.now_ns();
    queue.rest(1_000_000);
    assert!(queue.now_ns() >= before + 1_000_000);
    let end =
        QueueTransfer { direction: Direction::Read, offset: queue.len_bytes(), len_bytes: block as usize };
    assert!(matches!(queue.submit(0, end), Err(DeviceError::OutOfRange { .. })));
}

#[test]
fn simulated_transfers_are_done_once() {
    for devices in [1, 3] {
        everything_is_done_once(&mut simulated(devices));
    }
}

#[test]
fn real_transfers_are_done_once() {
    for devices in [1, 3] {
        let Some(mut queue) = real(devices) else { return };
        everything_is_done_once(&mut queue);
    }
}

#[test]
fn what_a_queue_writes_is_on_its_devices_and_no_two_blocks_are_alike() {
    let Some(mut queue) = real(2) else { return };
    queue.resize(2, 32 << 10).unwrap();
    let write =
        QueueTransfer { direction: Direction::Write(Durability::Dsync), offset: 0, len_bytes: 32 << 10 };
    queue.submit(0, write).unwrap();
    queue.submit(1, QueueTransfer { offset: 32 << 10, ..write }).unwrap();
    assert_eq!(queue.wait().unwrap().result.and(queue.wait().unwrap().result), Ok(()));
    let mut blocks = std::collections::HashSet::new();
    for device in queue.devices() {
        let mut buffer = aquifer_device::AlignedBuffer::new(32 << 10);
        device.read_at(0, &mut buffer).unwrap();
        blocks.extend(buffer.chunks(512).map(<[u8]>::to_vec));
    }
    assert_eq!(blocks.len(), 128, "each block of 512 bytes is written, and is like no other");
}

#[test]
fn a_queue_may_go_while_transfers_are_under_way() {
    let Some(mut queue) = real(1) else { return };
    queue.resize(4, 64 << 10).unwrap();
    for slot in 0..4 {
        let direction = Direction::Read;
        queue
            .submit(slot, QueueTransfer { direction, offset: slot as u64 * 65_536, len_bytes: 65_536 })
            .unwrap();
    }
}

/// A write of one page at a time: how long one takes with and without a cache.
fn write_ns(controller: Controller, durability: Durability) -> u64 {
    let mut queue = SimulatedQueue::new(vec![flash()], 4096, controller);
    queue.resize(1, 4096).unwrap();
    let start_ns = queue.now_ns();
    for page in 0..8 {
        let direction = Direction::Write(durability);
        queue.submit(0, QueueTransfer { direction, offset: page * 4096, len_bytes: 4096 }).unwrap();
        queue.wait().unwrap().result.unwrap();
    }
    (queue.now_ns() - start_ns) / 8
}

#[test]
fn a_write_cache_hides_the_program_until_it_is_full() {
    let with_cache = Controller { cache_pages: 64, cache_ns: 10_000, ..Controller::default() };
    // 5.12 us on the bus and 200 us in the array.
    assert_eq!(write_ns(Controller::default(), Durability::Cached), 205_120);
    assert_eq!(write_ns(with_cache, Durability::Cached), 10_000);
    assert_eq!(write_ns(with_cache, Durability::Dsync), 205_120);
    assert!(write_ns(with_cache, Durability::FlushEach) >= 205_120);
    let small = Controller { cache_pages: 2, ..with_cache };
    assert!(write_ns(small, Durability::Cached) > 60_000, "two dies program 8 pages");
}

#[test]
fn a_controller_limits_any_number_of_devices() {
    let controller = Controller { transfer_ns: 50_000, ..Controller::default() };
    let mut queue = SimulatedQueue::new((0..4).map(|_| flash()).collect(), 8192, controller);
    queue.resize(64, 4096).unwrap();
    for slot in 0..64 {
        let offset = slot as u64 * 8192;
        queue.submit(slot, QueueTransfer { direction: Direction::Read, offset, len_bytes: 4096 }).unwrap();
    }
    let last = (0..64).map(|_| queue.wait().unwrap().done_ns).max();
    assert_eq!(last, Some(64 * 50_000), "nothing was ever written there, so the controller alone takes time");
}
