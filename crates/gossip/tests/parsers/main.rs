//! Bytes from a socket, whatever they are.

mod datagram;
#[path = "../../../../fuzz/mutations.rs"]
mod mutations;

use std::net::SocketAddr;
use std::sync::Arc;

use aquifer_gossip::message::{Message, parse};
use aquifer_gossip::seal::Seal;
use aquifer_gossip::wire::{Entry, Told};
use aquifer_gossip::{About, Id};
use aquifer_remote::control::Offer;
use datagram::{AT, BEGAN, KEY, NOW};
use foca::{Header, Member, Message as Kind, State};

fn id(at: &str, address: &str, domain: &str) -> Id {
    let [at, address]: [SocketAddr; 2] = [at, address].map(|text| text.parse().expect("an address"));
    let about = About { address, domain: domain.into(), version: 2 };
    Id { at, began: BEGAN, about: Some(Arc::new(about)) }
}

fn message(kind: Kind<Id>) -> Message {
    let told = Told { number: 300, offer: Offer { free_slabs: 3, slabs: u64::MAX } };
    let here = Id { began: BEGAN, ..Id::any(AT.into()) };
    let src = id("127.0.0.2:1", "127.0.0.2:2", "rack 7");
    let header = Header { src, src_incarnation: 1, dst: here, message: kind };
    Message { header, told, members: Vec::new(), offers: Vec::new() }
}

/// A message of each kind, and with everything in it that there is.
fn messages() -> Vec<Message> {
    let other = Id { began: BEGAN, ..Id::any("[fe80::1]:7447".parse().expect("an address")) };
    let (target, origin) = (other.clone(), other.clone());
    let mut all: Vec<_> = [
        Kind::Ping(7),
        Kind::Ack(0),
        Kind::PingReq { target: target.clone(), probe_number: 1 },
        Kind::IndirectPing { origin: origin.clone(), probe_number: 2 },
        Kind::IndirectAck { target, probe_number: 3 },
        Kind::ForwardedAck { origin, probe_number: 4 },
        Kind::Announce,
        Kind::Feed,
        Kind::Gossip,
        Kind::Broadcast,
        Kind::TurnUndead,
    ]
    .map(message)
    .into();
    let told = Told { number: 1, offer: Offer { free_slabs: 0, slabs: 128 } };
    let states = [State::Alive, State::Suspect, State::Down];
    let entries = states.map(|state| {
        let id = id("[::1]:7447", "10.0.0.7:7447", &"x".repeat(128));
        Entry { member: Member::new(id, 9, state), told }
    });
    // Of this donor's own address, too, in this life and in others.
    let own = [BEGAN, BEGAN + 1].map(|began| {
        let id = Id { began, ..id("127.0.0.1:7447", "127.0.0.1:7447", "another") };
        Entry { member: Member::new(id, u16::MAX, State::Suspect), told }
    });
    for kind in [Kind::Feed, Kind::Gossip, Kind::Ping(1)] {
        let offers = vec![(other.clone(), told), (Id { began: BEGAN, ..Id::any(AT.into()) }, told)];
        let members = entries.iter().chain(&own).cloned().collect();
        all.push(Message { members, offers, ..message(kind) });
    }
    all.push(Message { offers: vec![(other, told)], ..message(Kind::Broadcast) });
    all
}

#[test]
fn datagrams() {
    let messages: Vec<_> = messages().iter().map(|message| message.bytes().expect("it fits")).collect();
    assert!(messages.iter().all(|message| parse(message).is_some()));
    let mut samples = messages.clone();
    for key in [None, Some(KEY)] {
        let mut seal = Seal::new(key).expect("random");
        samples.extend(messages.iter().map(|message| seal.seal(message, NOW)));
    }
    mutations::drive(&samples, 20_000, datagram::property);
}

#[test]
fn what_is_not_sound_is_no_message() {
    let sound = message(Kind::Gossip);
    assert!(parse(&sound.bytes().expect("it fits")).is_some());
    let with = |about: About| {
        let mut message = sound.clone();
        message.header.src.about = Some(Arc::new(about));
        message.bytes().is_ok()
    };
    let about = sound.header.src.about.clone().expect("it is described");
    assert!(with(About { domain: "x".repeat(128), ..(*about).clone() }));
    assert!(!with(About { domain: "x".repeat(129), ..(*about).clone() }), "a domain that is too long");
    let mut more_free = sound.clone();
    more_free.told.offer = Offer { free_slabs: 3, slabs: 2 };
    assert_eq!(parse(&more_free.bytes().expect("it fits")), None, "more is free than there is");
    let mut nameless = sound.clone();
    nameless.header.src.about = None;
    assert!(nameless.bytes().is_err());
    for kind in [Kind::Announce, Kind::TurnUndead] {
        let bytes = message(kind).bytes().expect("it fits");
        assert_eq!(parse(&[bytes, vec![0, 0]].concat()), None, "it ends after the header");
    }
    let other_version = [&[3], &sound.bytes().expect("it fits")[1..]].concat();
    assert_eq!(parse(&other_version), None);
}
