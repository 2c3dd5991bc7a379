//! The end of a server.

use std::sync::Arc;
use std::time::{Duration, Instant};

use aquifer_block::nbd::Settings;
use aquifer_device::{MemoryDevice, Throttle, Throttled};

use crate::client::{Client, READ};
use crate::served::{DEVICE_BYTES, Served};

#[test]
fn it_ends_with_and_without_clients() {
    Served::memory().end().unwrap();
    let served = Served::memory();
    let mut begun = Client::begun(served.address);
    let mut greeted = Client::greeted(served.address);
    // Both are known to the server before it ends.
    assert_eq!(begun.write(0, 0, &[1; 512]), 0);
    while served.stopper.connections() < 2 {
        std::thread::yield_now();
    }
    let began = Instant::now();
    served.end().unwrap();
    assert!(began.elapsed() < Duration::from_secs(10));
    assert!(begun.is_left() && greeted.is_left());
}

#[test]
fn what_has_begun_is_answered() {
    let slow = Throttle { read_latency: Duration::from_millis(300), ..Throttle::default() };
    let device = Throttled::new(MemoryDevice::new(DEVICE_BYTES, 512), slow);
    let served = Served::with(Arc::new(device), Settings::default());
    let mut client = Client::begun(served.address);
    client.request(READ, 0, 1, 0, 512);
    // Long enough for the request to be read, not for it to be answered.
    std::thread::sleep(Duration::from_millis(100));
    served.end().unwrap();
    assert_eq!(client.reply(), (0, 1));
    assert_eq!(client.take(512), vec![0; 512]);
    assert!(client.is_left());
}
