//! Bytes from a socket, whatever they are.

mod datagram;
#[path = "../../../../fuzz/mutations.rs"]
mod mutations;

use aquifer_gossip::seal::Seal;
use datagram::{KEY, NOW};

/// A donor in a message, by its beginning and address.
fn donor() -> Vec<u8> {
    let mut bytes = vec![0; 2];
    bytes.extend(1_764_000_000_000_u64.to_le_bytes());
    bytes.extend([4, 127, 0, 0, 1, 0x17, 0x1d]);
    bytes
}

/// The first of a round: which donors are known, and up to where.
fn syn() -> Vec<u8> {
    let numbers = [2_u64, 0, 4].map(u64::to_le_bytes).concat();
    [b"\x53\xb0\0\0", &b"\x01\0"[..], &donor(), &numbers, b"\x10\0aquifer gossip 1"].concat()
}

/// The last of a round: what a donor told.
fn ack() -> Vec<u8> {
    let mut told = [&[0][..], &donor(), &[0; 16]].concat();
    for (nth, word) in
        ["address 127.0.0.1:7447", "domain rack-7", "offer 3/16", "version 2"].iter().enumerate()
    {
        let (name, word) = word.split_once(' ').expect("a word");
        told.push(1);
        for text in [name, word] {
            told.extend((text.len() as u16).to_le_bytes());
            told.extend(text.bytes());
        }
        told.extend((nth as u64 + 1).to_le_bytes());
        told.push(0);
    }
    [b"\x53\xb0\0\x02\x02", &(told.len() as u16).to_le_bytes()[..], &told, &[0]].concat()
}

#[test]
fn datagrams() {
    let messages = [syn(), ack(), b"\x53\xb0\0\x03".to_vec()];
    assert!(messages.iter().all(|message| aquifer_gossip::message::parse(message).is_some()));
    let mut samples = messages.to_vec();
    for key in [None, Some(KEY)] {
        let mut seal = Seal::new(key).expect("random");
        samples.extend(messages.each_ref().map(|message| seal.seal(message, NOW)));
    }
    mutations::drive(&samples, 20_000, datagram::property);
}

#[test]
fn words() {
    let samples = [
        &b"127.0.0.1:7447\nrack 7\n3/16\n2"[..],
        b"[fe80::1]:7447\n\n0/0\n1",
        b"10.0.0.7:1\nx\n18446744073709551615/18446744073709551615\n4294967295",
    ];
    mutations::drive(&samples.map(<[u8]>::to_vec), 20_000, datagram::property);
}
