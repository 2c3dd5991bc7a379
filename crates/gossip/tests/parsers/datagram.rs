//! A datagram of gossip.

use std::time::Duration;

use aquifer_gossip::seal::Seal;
use aquifer_gossip::{message, told};

/// Of the cluster whose datagrams these are.
pub const KEY: [u8; 32] = [7; 32];
/// When they come.
pub const NOW: Duration = Duration::from_secs(1_800_000_000);

/// Opened with a key and bare, and read as a message. What opens says the same when it is sealed again; a message of others is never sent on.
pub fn property(input: &[u8]) {
    words(input);
    for key in [None, Some(KEY)] {
        let mut seal = Seal::new(key).expect("random");
        let mut datagram = input.to_vec();
        let Ok(opened) = seal.open(&mut datagram, NOW).map(<[u8]>::to_vec) else { continue };
        let _ = message::parse(&opened);
        let mut again = seal.seal(&opened, NOW);
        assert_eq!(seal.open(&mut again, NOW), Ok(&opened[..]));
    }
    let _ = message::parse(input);
}

/// What a donor tells of itself: one word a line.
fn words(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let lines: Vec<_> = text.split('\n').collect();
    let word = |name: &str| {
        let nth = ["address", "domain", "offer", "version"].iter().position(|other| *other == name);
        lines.get(nth?).copied()
    };
    let Some(member) = told::member(word) else { return };
    let words = told::words(&member);
    let again =
        told::member(|name| words.iter().find(|(other, _)| other == name).map(|(_, word)| word.as_str()));
    assert_eq!(again, Some(member));
}
