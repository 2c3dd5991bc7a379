//! The end of a server.

use aquifer_block::nbdkit::NbdkitError;

use std::io::Read;

use crate::client::{Client, ESHUTDOWN, READ};
use crate::served::{Served, Wishes};

#[test]
fn it_ends_with_and_without_clients() {
    let Some(served) = Served::new() else { return };
    served.end().unwrap();
    let served = Served::new().unwrap();
    let mut begun = Client::begun(served.address);
    // nbdkit would wait for both for ever.
    let mut greeted = Client::greeted(served.address);
    assert_eq!(begun.write(0, 4096, &[1; 4096]), 0);
    assert_eq!(served.end().unwrap()[4096..8192], [1; 4096]);
    assert!(begun.is_left() && greeted.is_left());
}

#[test]
fn what_has_begun_is_answered() {
    let slow = Wishes { filters: &["delay"], settings: &["rdelay=300ms"], ..Wishes::default() };
    let Some(served) = Served::with(slow) else { return };
    let mut client = Client::begun(served.address);
    client.request(READ, 0, 7, 0, 4096);
    served.end().unwrap();
    // The server may have ended before the request came, and a delay ends early.
    let mut reply = [0; 16];
    if client.stream.read_exact(&mut reply).is_ok() {
        let error = u32::from_be_bytes(reply[4..8].try_into().unwrap());
        assert!([0, ESHUTDOWN].contains(&error), "{error}");
        assert_eq!(reply[8..], 7u64.to_be_bytes());
    }
}

#[test]
fn a_device_that_is_not_there_is_said() {
    let nowhere = Wishes { flash: Some("/nowhere/device"), ..Wishes::default() };
    match Served::try_with(nowhere) {
        Some(Err(NbdkitError::Plugin(said))) => assert!(said.contains("/nowhere"), "{said}"),
        None => {}
        _ => panic!("it is not served"),
    }
    let odd = Wishes { settings: &["buffers=0"], ..Wishes::default() };
    assert!(matches!(Served::try_with(odd), None | Some(Err(NbdkitError::Ended))));
}

#[test]
fn a_server_that_is_killed_has_lost_what_was_not_flushed() {
    let Some(served) = Served::new() else { return };
    let mut client = Client::begun(served.address);
    assert_eq!(client.write(0, 0, &[1; 4096]), 0);
    served.kill();
    assert!(matches!(served.end(), Err(NbdkitError::Killed(_))));
    assert!(client.is_cut_off());
}
