//! Donors that join a cluster, leave it and join again.

use std::net::UdpSocket;
use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::time::Duration;

use aquifer_gossip::{Gossip, GossipError, GossipOptions};
use aquifer_remote::control::{Offer, VERSION};

use crate::fixture::{KEY, Member, options, start, three, wait_for_all, wait_until};

#[test]
fn members_find_each_other() {
    for key in [None, Some(KEY)] {
        let members = three(key);
        wait_for_all(&members);
        let told = members[1].knows(members[2].address).expect("it knows it").member;
        assert_eq!((told.domain.as_str(), told.version), ("rack 3", VERSION));
        assert_eq!(members[1].gossip.membership().members().len(), 3);
        members[2].free.store(5, Ordering::Relaxed);
        let offer = Offer { free_slabs: 5, slabs: 16 };
        wait_until("what is free is told", || {
            members
                .iter()
                .all(|member| member.knows(members[2].address).is_some_and(|peer| peer.member.offer == offer))
        });
        assert!(members.iter().all(|member| member.gossip.drops().sent > 0));
    }
}

#[test]
fn one_that_is_gone_is_noticed_and_comes_again_as_another() {
    let members = three(Some(KEY));
    wait_for_all(&members);
    let [first, second, third] = members;
    let (address, port) = (third.address, third.gossip.address());
    let before = first.knows(address).expect("it knows it").incarnation;
    drop(third);
    wait_until("the others notice", || !first.is_alive(address) && !second.is_alive(address));
    assert!(first.knows(address).is_some(), "it is listed as gone");
    wait_until("they hear of each other", || {
        first.is_alive(second.address) && second.is_alive(first.address)
    });
    let again = start(GossipOptions { listen: port, ..options(3, Some(KEY), &[&second]) });
    wait_until("the others hear of it again", || first.is_alive(address) && second.is_alive(address));
    let after = first.knows(address).expect("it knows it").incarnation;
    assert!(after > before, "{after} is no later than {before}");
    wait_for_all(&[first, second, again]);
}

#[test]
fn who_is_new_is_not_told_of_the_gone() {
    let members = three(None);
    wait_for_all(&members);
    let [first, second, third] = members;
    let gone = third.address;
    drop(third);
    wait_until("the others notice", || !first.is_alive(gone) && !second.is_alive(gone));
    let fourth = start(options(4, None, &[&first]));
    wait_until("it hears of the others", || {
        fourth.is_alive(first.address) && fourth.is_alive(second.address)
    });
    assert_eq!(fourth.knows(gone), None);
}

#[test]
fn who_is_gone_for_long_is_forgotten_for_good() {
    let brief = |port, seeds: &[&Member]| {
        start(GossipOptions { gone_for: Duration::from_secs(4), ..options(port, Some(KEY), seeds) })
    };
    let first = brief(1, &[]);
    let members = [brief(2, &[&first]), brief(3, &[&first]), brief(4, &[&first]), first];
    wait_for_all(&members);
    let [gone, rest @ ..] = members;
    let address = gone.address;
    drop(gone);
    wait_until("all notice", || rest.iter().all(|member| !member.is_alive(address)));
    wait_until("all forget", || rest.iter().all(|member| member.knows(address).is_none()));
    // Nobody hears of it again from another, as long as many messages go around.
    let sent = rest.each_ref().map(|member| member.gossip.drops().sent);
    wait_until("many messages have gone around", || {
        assert!(rest.iter().all(|member| member.knows(address).is_none()), "it is told of again");
        rest.iter().zip(sent).all(|(member, sent)| member.gossip.drops().sent > sent + 50)
    });
}

#[test]
fn a_seed_is_found_by_its_name_when_it_begins() {
    let port = UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a port");
    let seeds = vec![format!("localhost:{}", port.port())];
    let second = start(GossipOptions { seeds, ..options(2, Some(KEY), &[]) });
    wait_until("it asks", || second.gossip.drops().sent > 0);
    let first = start(GossipOptions { listen: port, ..options(1, Some(KEY), &[]) });
    wait_for_all(&[first, second]);
}

#[test]
fn a_seed_that_does_not_answer_is_told() {
    let silent = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let seed = silent.local_addr().expect("bound").to_string();
    let seeds = vec![seed.clone()];
    let member = start(GossipOptions { seeds, ..options(1, None, &[]) });
    let news = Mutex::new(Vec::new());
    wait_until("it is told", || {
        let mut news = news.lock().expect("a list");
        news.extend(member.gossip.take_news());
        news.iter().any(|said| said.contains(&seed) && said.contains("UDP"))
    });
    // Names that nobody knows are looked up again and again, and hold up nothing.
    let seeds = vec!["no.such.host.invalid:7447".into()];
    drop(start(GossipOptions { seeds, ..options(2, None, &[]) }));
}

#[test]
fn mistakes_are_told() {
    let begin = |options| Gossip::start(options, Offer::default).err().expect("a mistake");
    let member = start(options(1, None, &[]));
    let same = GossipOptions { listen: member.gossip.address(), ..options(2, None, &[]) };
    let error = begin(same).to_string();
    assert!(error.contains("--gossip-port"), "{error}");
    let open = GossipOptions { listen: "0.0.0.0:0".parse().expect("an address"), ..options(2, None, &[]) };
    assert!(matches!(begin(open), GossipError::Unspecified(_)));
}
