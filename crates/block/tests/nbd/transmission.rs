//! Requests.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use aquifer_block::nbd::Settings;
use aquifer_device::{
    Device, FaultKind, FaultPlan, Faulty, FileDevice, MemoryDevice, Operation, Throttle, Throttled,
};

use crate::client::{Client, EINVAL, EIO, ENOSPC, EOVERFLOW, FLUSH, FUA, READ, TRIM, WRITE, WRITE_ZEROES};
use crate::served::{DEVICE_BYTES, Served};

/// Bytes that differ everywhere.
fn pattern(len: usize, seed: u64) -> Vec<u8> {
    (0..len as u64 / 8).flat_map(|at| (at.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ seed).to_be_bytes()).collect()
}

#[test]
fn what_was_written_is_read_in_all_lengths() {
    let served = Served::memory();
    let mut client = Client::begun(served.address);
    // The last ones go in several pieces.
    for (seed, len) in [512, 4096, 1 << 20, (1 << 20) + 512, 5 << 20, 32 << 20].into_iter().enumerate() {
        let bytes = pattern(len, seed as u64);
        assert_eq!(client.write(0, 1536, &bytes), 0);
        assert!(client.read(1536, len as u32).unwrap() == bytes, "{len} bytes");
    }
    client.leave();
}

#[test]
fn many_requests_are_under_way_at_once() {
    let served = Served::memory();
    let mut client = Client::begun(served.address);
    for cookie in 0..256u64 {
        client.request(WRITE, 0, cookie, cookie * 4096, 4096);
        client.send(&pattern(4096, cookie));
    }
    let mut left: Vec<u64> = (0..256).collect();
    while !left.is_empty() {
        let (error, cookie) = client.reply();
        assert_eq!(error, 0);
        left.remove(left.iter().position(|&other| other == cookie).expect("each is answered once"));
    }
    for cookie in 0..256u64 {
        client.request(READ, 0, cookie, cookie * 4096, 4096);
    }
    let mut found = HashMap::new();
    while found.len() < 256 {
        let (error, cookie) = client.reply();
        assert_eq!(error, 0);
        found.insert(cookie, client.take(4096));
    }
    assert!(found.iter().all(|(&cookie, bytes)| *bytes == pattern(4096, cookie)));
}

#[test]
fn several_connections_see_one_device() {
    let served = Served::memory();
    let mut clients: Vec<Client> = (0..4).map(|_| Client::begun(served.address)).collect();
    for (at, client) in clients.iter_mut().enumerate() {
        assert_eq!(client.write(0, at as u64 * 4096, &pattern(4096, at as u64)), 0);
    }
    assert_eq!(clients[3].ask(FLUSH, 0, 0, 0), 0);
    for client in &mut clients {
        for at in 0..4 {
            assert_eq!(client.read(at * 4096, 4096), Ok(pattern(4096, at)));
        }
    }
}

#[test]
fn zeros_are_written_and_trims_are_taken() {
    let served = Served::memory();
    let mut client = Client::begun(served.address);
    assert_eq!(client.write(0, 0, &pattern(4 << 20, 1)), 0);
    assert_eq!(client.ask(WRITE_ZEROES, 0, 512, 2 << 20), 0);
    assert_eq!(client.ask(WRITE_ZEROES, 2 | FUA, 3 << 20, 512), 0);
    let bytes = client.read(0, 4 << 20).unwrap();
    let mut expected = pattern(4 << 20, 1);
    expected[512..][..2 << 20].fill(0);
    expected[3 << 20..][..512].fill(0);
    assert!(bytes == expected);
    // The whole device, which is longer than a transfer may be.
    assert_eq!(client.ask(TRIM, 0, 0, DEVICE_BYTES as u32), 0);
    assert_eq!(client.ask(WRITE_ZEROES, 0, 0, DEVICE_BYTES as u32), 0);
    assert!(client.read(0, 32 << 20).unwrap().iter().all(|&byte| byte == 0));
}

#[test]
fn requests_that_make_no_sense_are_refused_and_the_next_is_done() {
    let served = Served::memory();
    let mut client = Client::begun(served.address);
    for (command, offset, len, expected) in [
        (READ, 1, 512, EINVAL),
        (READ, 0, 100, EINVAL),
        (READ, 0, 0, EINVAL),
        (READ, DEVICE_BYTES, 512, EINVAL),
        (READ, u64::MAX - 511, 512, EINVAL),
        (READ, 0, (32 << 20) + 512, EOVERFLOW),
        (TRIM, DEVICE_BYTES - 512, 1024, EINVAL),
        (WRITE_ZEROES, DEVICE_BYTES - 512, 1024, ENOSPC),
        (FLUSH, 512, 0, EINVAL),
        (5, 0, 512, EINVAL),
        (7, 0, 512, EINVAL),
        (999, 0, 512, EINVAL),
    ] {
        assert_eq!(client.ask(command, 0, offset, len), expected, "{command} {offset} {len}");
    }
    assert_eq!(client.ask(WRITE_ZEROES, 16, 0, 512), EINVAL);
    // The bytes of a write come all the same.
    assert_eq!(client.write(0, 1, &[1; 512]), EINVAL);
    assert_eq!(client.write(0, 0, &[1; 700]), EINVAL);
    assert_eq!(client.write(0, DEVICE_BYTES, &pattern(3 << 20, 1)), ENOSPC);
    assert_eq!(client.write(8, 0, &[1; 512]), EINVAL);
    assert_eq!(client.write(0, 0, &[]), EINVAL);
    assert_eq!(client.write(0, 0, &[1; 512]), 0);
    assert_eq!(client.read(0, 512), Ok(vec![1; 512]));
}

#[test]
fn flushes_and_fua_reach_the_device() {
    let device = Arc::new(Faulty::new(MemoryDevice::new(DEVICE_BYTES, 512), FaultPlan::default()));
    let served = Served::new(Arc::<Faulty<MemoryDevice>>::clone(&device));
    let mut client = Client::begun(served.address);
    let syncs = || device.calls(Operation::Sync);
    assert_eq!(client.write(0, 0, &[1; 512]), 0);
    assert_eq!(syncs(), 0);
    assert_eq!(client.write(FUA, 0, &[1; 512]), 0);
    assert_eq!(syncs(), 1);
    assert_eq!(client.write(FUA, 0, &pattern(3 << 20, 1)), 0);
    assert_eq!(client.ask(FLUSH, 0, 0, 0), 0);
    assert_eq!(client.ask(TRIM, FUA, 0, 512), 0);
    assert_eq!(client.ask(WRITE_ZEROES, FUA, 0, 512), 0);
    assert_eq!(syncs(), 5);
    assert_eq!(device.calls(Operation::Discard), 1);
    client.leave();
    served.end().unwrap();
    assert_eq!(syncs(), 6);
}

#[test]
fn a_device_that_fails_is_an_error_and_one_sentence() {
    let plan = FaultPlan::default()
        .on_nth(Operation::Write, 2, FaultKind::Eio)
        .on_nth(Operation::Write, 3, FaultKind::NoSpace)
        .on_nth(Operation::Read, 1, FaultKind::Eio)
        .on_nth(Operation::Sync, 1, FaultKind::Eio);
    let served = Served::new(Arc::new(Faulty::new(MemoryDevice::new(DEVICE_BYTES, 512), plan)));
    let mut client = Client::begun(served.address);
    let bytes = pattern(512, 1);
    assert_eq!(client.write(0, 0, &bytes), 0);
    assert_eq!(client.write(0, 512, &bytes), EIO);
    assert_eq!(client.write(0, 512, &bytes), ENOSPC);
    assert_eq!(client.read(0, 512), Err(EIO));
    assert_eq!(client.ask(FLUSH, 0, 0, 0), EIO);
    assert_eq!(client.read(0, 512), Ok(bytes));
    served.hear("write of 512 bytes at offset 512 failed");
    assert_eq!(served.times("failed"), 1);
}

#[test]
fn a_long_write_that_fails_half_way_is_an_error_and_the_next_is_done() {
    let plan = FaultPlan::default().on_nth(Operation::Write, 2, FaultKind::Eio);
    let served = Served::new(Arc::new(Faulty::new(MemoryDevice::new(DEVICE_BYTES, 512), plan)));
    let mut client = Client::begun(served.address);
    assert_eq!(client.write(0, 0, &pattern(5 << 20, 1)), EIO);
    assert_eq!(client.write(0, 0, &pattern(5 << 20, 2)), 0);
    assert!(client.read(0, 5 << 20).unwrap() == pattern(5 << 20, 2));
}

#[test]
fn a_long_read_that_fails_half_way_is_broken_off() {
    let plan = FaultPlan::default().on_nth(Operation::Read, 2, FaultKind::Eio);
    let served = Served::new(Arc::new(Faulty::new(MemoryDevice::new(DEVICE_BYTES, 512), plan)));
    let mut client = Client::begun(served.address);
    client.request(READ, 0, 1, 0, 2 << 20);
    assert_eq!(client.reply(), (0, 1));
    client.take(1 << 20);
    assert!(client.is_left());
    served.hear("a read failed half-way");
    assert_eq!(Client::begun(served.address).read(0, 512), Ok(vec![0; 512]));
}

#[test]
fn a_slow_request_does_not_hold_up_others() {
    let slow = Throttle { read_latency: Duration::from_millis(300), ..Throttle::default() };
    let device = Throttled::new(MemoryDevice::new(DEVICE_BYTES, 512), slow);
    let served =
        Served::with(Arc::new(device), Settings { threads: 2, connections_max: 1, ..Settings::default() });
    let mut client = Client::begun(served.address);
    client.request(READ, 0, 1, 0, 512);
    client.request(WRITE, 0, 2, 512, 512);
    client.send(&[1; 512]);
    assert_eq!(client.reply(), (0, 2));
    assert_eq!(client.reply(), (0, 1));
}

#[test]
fn a_file_holds_what_was_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("device");
    let device: Arc<dyn Device> = Arc::new(FileDevice::create(&path, 16 << 20).unwrap());
    let block = device.block_bytes() as u64;
    let served = Served::new(device);
    let mut client = Client::begun(served.address);
    assert_eq!(client.write(0, block, &pattern(3 << 20, 5)), 0);
    client.leave();
    served.end().unwrap();
    let bytes = std::fs::read(&path).unwrap();
    assert!(bytes[block as usize..][..3 << 20] == pattern(3 << 20, 5));
}
