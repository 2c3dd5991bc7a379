//! Requests.

use std::collections::HashMap;

use crate::client::{Client, EINVAL, EIO, ENOSPC, FLUSH, FUA, READ, TRIM, WRITE, WRITE_ZEROES};
use crate::served::{DEVICE_BYTES, Served, Wishes};

/// Bytes that differ everywhere.
fn pattern(len: usize, seed: u64) -> Vec<u8> {
    (0..len as u64 / 8).flat_map(|at| (at.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ seed).to_be_bytes()).collect()
}

#[test]
fn what_was_written_is_read_in_all_lengths_and_is_in_the_file() {
    let Some(served) = Served::new() else { return };
    let mut client = Client::begun(served.address);
    // The last ones go in several pieces.
    for (seed, len) in [4096, 8192, 1 << 20, (1 << 20) + 4096, 5 << 20, 32 << 20].into_iter().enumerate() {
        let bytes = pattern(len, seed as u64);
        assert_eq!(client.write(0, 4096, &bytes), 0);
        assert!(client.read(4096, len as u32).unwrap() == bytes, "{len} bytes");
    }
    client.leave();
    assert!(served.end().unwrap()[4096..][..32 << 20] == pattern(32 << 20, 5));
}

#[test]
fn many_requests_are_under_way_at_once() {
    let Some(served) = Served::new() else { return };
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
fn zeros_are_written_and_trims_are_taken() {
    let Some(served) = Served::new() else { return };
    let mut client = Client::begun(served.address);
    assert_eq!(client.write(FUA, 0, &pattern(4 << 20, 1)), 0);
    assert_eq!(client.ask(WRITE_ZEROES, 0, 4096, 2 << 20), 0);
    assert_eq!(client.ask(WRITE_ZEROES, 2 | FUA, 3 << 20, 4096), 0);
    let bytes = client.read(0, 4 << 20).unwrap();
    let mut expected = pattern(4 << 20, 1);
    expected[4096..][..2 << 20].fill(0);
    expected[3 << 20..][..4096].fill(0);
    assert!(bytes == expected);
    // The whole device, which is longer than a transfer may be.
    assert_eq!(client.ask(TRIM, FUA, 0, DEVICE_BYTES as u32), 0);
    assert_eq!(client.ask(WRITE_ZEROES, 0, 0, DEVICE_BYTES as u32), 0);
    assert_eq!(client.ask(FLUSH, 0, 0, 0), 0);
    assert!(client.read(0, 32 << 20).unwrap().iter().all(|&byte| byte == 0));
}

#[test]
fn requests_that_make_no_sense_are_refused_and_the_next_is_done() {
    let Some(served) = Served::new() else { return };
    let mut client = Client::begun(served.address);
    for (command, offset, len, expected) in [
        (READ, 1, 512, EINVAL),
        (READ, 0, 100, EINVAL),
        (READ, DEVICE_BYTES, 4096, EINVAL),
        (READ, u64::MAX - 4095, 4096, EINVAL),
        (TRIM, DEVICE_BYTES - 4096, 8192, EINVAL),
        (WRITE_ZEROES, DEVICE_BYTES - 4096, 8192, ENOSPC),
        (WRITE_ZEROES, 0, 100, EINVAL),
        (999, 0, 4096, EINVAL),
    ] {
        assert_eq!(client.ask(command, 0, offset, len), expected, "{command} {offset} {len}");
    }
    // The bytes of a write come all the same.
    assert_eq!(client.write(0, 1, &[1; 512]), EINVAL);
    assert_eq!(client.write(0, 0, &[1; 700]), EINVAL);
    assert_eq!(client.write(0, DEVICE_BYTES, &pattern(3 << 20, 1)), ENOSPC);
    assert_eq!(client.write(0, 0, &[1; 4096]), 0);
    assert_eq!(client.read(0, 4096), Ok(vec![1; 4096]));
}

#[test]
fn faults_of_filters_reach_clients() {
    let faults = Wishes {
        filters: &["error"],
        settings: &["error-pwrite=EIO", "error-pwrite-rate=100%"],
        ..Wishes::default()
    };
    let Some(served) = Served::with(faults) else { return };
    let mut client = Client::begun(served.address);
    assert_eq!(client.write(0, 0, &[1; 4096]), EIO);
    assert_eq!(client.read(0, 4096), Ok(vec![0; 4096]));
    client.leave();
    served.end().unwrap();
}

#[test]
fn a_slow_request_does_not_hold_up_others() {
    let slow = Wishes { filters: &["delay"], settings: &["rdelay=2000ms"], ..Wishes::default() };
    let Some(served) = Served::with(slow) else { return };
    let mut client = Client::begun(served.address);
    let mut other = Client::begun(served.address);
    client.request(READ, 0, 1, 0, 4096);
    assert_eq!(other.write(0, 4096, &[1; 4096]), 0);
    if !is_parallel(&served) {
        println!("SKIP this nbdkit does requests of one connection one by one");
        return;
    }
    client.request(WRITE, 0, 2, 4096, 4096);
    client.send(&[1; 4096]);
    assert_eq!(client.reply(), (0, 2));
    assert_eq!(client.reply(), (0, 1));
}

/// nbdkit before 1.34 could abort when a client that has several requests under way left.
fn is_parallel(served: &Served) -> bool {
    !served.version().contains(" 1.32.")
}
