//! A datagram of gossip.

use std::time::Duration;

use aquifer_gossip::message::{self, Message};
use aquifer_gossip::node::{Node, NodeOptions};
use aquifer_gossip::seal::Seal;
use aquifer_gossip::{About, Id};
use aquifer_remote::control::Offer;

/// Of the cluster whose datagrams these are.
pub const KEY: [u8; 32] = [7; 32];
/// When they come.
pub const NOW: Duration = Duration::from_secs(1_800_000_000);
/// Where the node is that takes them, and when it began.
pub const AT: ([u8; 4], u16) = ([127, 0, 0, 1], 7447);
/// The same.
pub const BEGAN: u64 = 1_764_000_000_000;

/// Opened with a key and bare, and read as a message that a donor takes. What opens says the same when it is sealed again, and a message when it is written again.
pub fn property(input: &[u8]) {
    for key in [None, Some(KEY)] {
        let mut seal = Seal::new(key).expect("random");
        let mut datagram = input.to_vec();
        let Ok(opened) = seal.open(&mut datagram, NOW).map(<[u8]>::to_vec) else { continue };
        take(&opened);
        if opened.len() <= aquifer_gossip::seal::MESSAGE_BYTES_MAX {
            let mut again = seal.seal(&opened, NOW);
            assert_eq!(seal.open(&mut again, NOW), Ok(&opened[..]));
        }
    }
    take(input);
}

fn take(bytes: &[u8]) {
    let message = message::parse(bytes);
    if let Some(message) = &message {
        let written = message.bytes().expect("what was read can be written");
        assert!(written.len() <= bytes.len() + 2, "only an empty list may be added");
        let again = message::parse(&written).expect("what was written can be read");
        assert_eq!(shown(&again), shown(message));
    }
    let mut node = node();
    let taken = node.receive(NOW, bytes);
    assert!(message.is_some() || taken.is_err());
    for _ in 0..20 {
        let Some(due) = node.due() else { break };
        node.advance(due);
        node.take_sends();
    }
    // A donor that tells of itself with this one's address changes nothing.
    assert!(node.peers().iter().any(|peer| peer.member.domain == "this"));
}

/// With what donors tell of themselves, which does not count when they are compared.
fn shown(message: &Message) -> String {
    format!("{message:?}")
}

fn node() -> Node {
    let about = About { address: AT.into(), domain: "this".into(), version: 2 };
    let options = NodeOptions {
        at: Id::any(AT.into()).at,
        began: BEGAN,
        about,
        offer: Offer::default(),
        interval: Duration::from_secs(1),
        gone_for: Duration::from_secs(600),
        random: 1,
    };
    Node::new(options, NOW)
}
