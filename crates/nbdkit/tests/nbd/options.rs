//! What a client learns before its first request.

use crate::client::Client;
use crate::served::{DEVICE_BYTES, Served};

const UNKNOWN: u32 = (1 << 31) + 6;

#[test]
fn go_tells_what_is_served() {
    let Some(served) = Served::new() else { return };
    let client = Client::begun(served.address);
    assert_eq!(client.size_bytes, DEVICE_BYTES);
    let [least, preferred, most] = client.block_sizes;
    assert!([512, 4096].contains(&least), "{least}");
    assert_eq!((preferred, most), (4096, 32 << 20));
    // Flags, flush, FUA, trim, zeros, several connections; and what nbdkit adds of its own.
    let ours = 1 | 4 | 8 | 32 | 64 | 256;
    assert_eq!(client.flags & ours, ours);
    // Not read only, not rotational.
    assert_eq!(client.flags & (2 | 16), 0);
    client.leave();
}

#[test]
fn export_name_begins_too() {
    let Some(served) = Served::new() else { return };
    let mut client = Client::greeted(served.address);
    client.option(1, b"aquifer");
    assert_eq!(client.take(10)[..8], DEVICE_BYTES.to_be_bytes());
    assert_eq!(client.write(0, 0, &[9; 4096]), 0);
    client.leave();
}

#[test]
fn a_client_may_list_be_refused_and_begin() {
    let Some(served) = Served::new() else { return };
    let mut client = Client::greeted(served.address);
    client.option(3, b"");
    assert_eq!(client.option_reply(3), (2, b"\0\0\0\x07aquifer".to_vec()));
    assert_eq!(client.option_reply(3).0, 1);
    client.option(6, b"\0\0\0\x05other\0\0");
    assert_eq!(client.option_reply(6).0, UNKNOWN);
    client.option(7, b"\0\0\0\x07aquifer\0\0");
    while client.option_reply(7).0 != 1 {}
    assert_eq!(client.read(0, 4096), Ok(vec![0; 4096]));
}

#[test]
fn abort_is_acknowledged_and_closed() {
    let Some(served) = Served::new() else { return };
    let mut client = Client::greeted(served.address);
    client.option(2, b"");
    assert_eq!(client.option_reply(2), (1, vec![]));
    assert!(client.is_left());
}
