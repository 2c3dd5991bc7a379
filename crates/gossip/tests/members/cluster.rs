//! Who comes, goes and comes again.

use std::sync::atomic::Ordering;

use aquifer_gossip::{Gossip, GossipError, GossipOptions};
use aquifer_remote::control::{Offer, VERSION};

use crate::fixture::{KEY, options, start, three, wait_for_all, wait_until};

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
    assert!(first.is_alive(second.address) || second.is_alive(first.address));
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
fn mistakes_are_told() {
    let begin = |options| Gossip::start(options, Offer::default).err().expect("a mistake");
    let member = start(options(1, None, &[]));
    let same = GossipOptions { listen: member.gossip.address(), ..options(2, None, &[]) };
    let error = begin(same).to_string();
    assert!(error.contains("--gossip-port"), "{error}");
    let open = GossipOptions { listen: "0.0.0.0:0".parse().expect("an address"), ..options(2, None, &[]) };
    assert!(matches!(begin(open), GossipError::Unspecified(_)));
}
