//! What a client learns before its first request. The rest is in the unit tests of the negotiation.

use crate::client::Client;
use crate::served::{DEVICE_BYTES, Served};

const UNSUPPORTED: u32 = (1 << 31) + 1;
const UNKNOWN: u32 = (1 << 31) + 6;

#[test]
fn go_tells_what_is_served() {
    let served = Served::memory();
    let client = Client::begun(served.address);
    assert_eq!(client.size_bytes, DEVICE_BYTES);
    assert_eq!(client.block_sizes, [512, 4096, 32 << 20]);
    // Flags, flush, FUA, trim, zeros, several connections.
    assert_eq!(client.flags, 1 | 4 | 8 | 32 | 64 | 256);
    client.leave();
}

#[test]
fn export_name_begins_too() {
    let served = Served::memory();
    let mut client = Client::greeted(served.address);
    client.option(1, b"aquifer");
    assert_eq!(client.take(10)[..8], DEVICE_BYTES.to_be_bytes());
    assert_eq!(client.write(0, 0, &[9; 512]), 0);
    client.leave();
}

#[test]
fn a_client_may_ask_list_be_refused_and_begin() {
    let served = Served::memory();
    let mut client = Client::greeted(served.address);
    client.option(8, b"");
    assert_eq!(client.option_reply(8).0, UNSUPPORTED);
    client.option(3, b"");
    assert_eq!(client.option_reply(3), (2, b"\0\0\0\x07aquifer".to_vec()));
    assert_eq!(client.option_reply(3).0, 1);
    client.option(6, b"\0\0\0\x05other\0\0");
    assert_eq!(client.option_reply(6).0, UNKNOWN);
    client.option(7, b"\0\0\0\x07aquifer\0\0");
    while client.option_reply(7).0 != 1 {}
    assert_eq!(client.read(0, 512), Ok(vec![0; 512]));
}

#[test]
fn abort_is_acknowledged_and_closed() {
    let served = Served::memory();
    let mut client = Client::greeted(served.address);
    client.option(2, b"");
    assert_eq!(client.option_reply(2), (1, vec![]));
    assert!(client.is_left());
}
