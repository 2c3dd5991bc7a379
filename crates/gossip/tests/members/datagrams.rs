//! Datagrams that are nobody's.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use aquifer_gossip::message::Message;
use aquifer_gossip::seal::{AGE_MAX, DATAGRAM_BYTES_MAX, Seal};
use aquifer_gossip::wire::{Entry, Told};
use aquifer_gossip::{About, DropsSeen, Id};
use aquifer_remote::control::{MEMBERS_MAX, Offer};
use foca::Header;

use crate::fixture::{KEY, Member, options, start, three, wait_for_all, wait_until};

/// Sends datagrams to a member until it has counted what they are; one can be lost where many come.
fn send_until(member: &Member, datagram: &[u8], is_counted: impl Fn(DropsSeen) -> bool) {
    let address = member.gossip.address();
    let any_port = SocketAddr::new(address.ip(), 0);
    let socket = UdpSocket::bind(any_port).expect("a port");
    wait_until("it is counted", || {
        socket.send_to(datagram, address).expect("send");
        is_counted(member.gossip.drops())
    });
}

fn now() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970")
}

fn sealed(key: Option<[u8; 32]>, message: &[u8], at: Duration) -> Vec<u8> {
    Seal::new(key).expect("random").seal(message, at)
}

/// What donors sent before messages had a version: the first of a round, with no donor in it.
const OLD: &[u8] = b"\x53\xb0\0\0\0\0\x10\0aquifer gossip 1";

#[test]
fn what_is_no_gossip_is_dropped_counted_and_told_once() {
    let members = three(Some(KEY));
    wait_for_all(&members);
    let [first, ..] = &members;
    send_until(first, b"garbage", |seen| seen.unopened >= 3);
    let garbage = first.gossip.drops().unopened;
    send_until(first, &sealed(Some([8; 32]), b"of another cluster", now()), |seen| {
        seen.unopened >= garbage + 3
    });
    send_until(first, &sealed(Some(KEY), OLD, now()), |seen| seen.malformed >= 3);
    send_until(first, &sealed(Some(KEY), b"", now() - 2 * AGE_MAX), |seen| seen.stale >= 3);
    send_until(first, &sealed(Some(KEY), b"", now() + 2 * AGE_MAX), |seen| seen.stale >= 6);
    let news = first.gossip.take_news();
    assert_eq!(news.len(), 3, "one for each kind: {news:?}");
    assert!(news.iter().any(|said| said.contains("install the same version on both")), "{news:?}");
    assert!(news.iter().any(|said| said.contains("--cluster")), "{news:?}");
    assert!(news.iter().any(|said| said.contains("synchronise the clocks")), "{news:?}");
    wait_for_all(&members);
}

/// A message of a donor where nobody listens, with others from the number `first` on.
fn crowd(to: &Member, first: u16, count: u16) -> Vec<u8> {
    let id = |nth: u16| {
        let [high, low] = nth.to_be_bytes();
        let at = SocketAddr::from(([127, 77, high, low], 9));
        let about = About { address: at, domain: String::new(), version: 2 };
        Id { at, began: 1, about: Some(Arc::new(about)) }
    };
    let to = Id { began: to.gossip.peers()[0].incarnation, ..Id::any(to.gossip.address()) };
    let told = Told { number: 1, offer: Offer::default() };
    let entry = |nth| Entry { member: foca::Member::alive(id(nth)), told };
    let header = Header { src: id(u16::MAX), src_incarnation: 0, dst: to, message: foca::Message::Gossip };
    let members = (first..first + count).map(entry).collect();
    Message { header, told, members, offers: Vec::new() }.bytes().expect("it fits")
}

#[test]
fn more_donors_than_are_kept_are_left_out() {
    let first = start(options(1, Some(KEY), &[]));
    let at_once = 30;
    for nth in (0..MEMBERS_MAX as u16 + at_once).step_by(at_once.into()) {
        let before = first.gossip.drops();
        send_until(&first, &sealed(Some(KEY), &crowd(&first, nth, at_once), now()), |seen| {
            (seen.received, seen.crowded) > (before.received, before.crowded)
        });
    }
    assert!(first.gossip.drops().crowded > 0);
    let of_all = || first.gossip.peers().len();
    wait_until("as many as are kept are listed", || of_all() > MEMBERS_MAX - at_once as usize);
    assert!(of_all() <= MEMBERS_MAX + 1, "{}", of_all());
    // There is no room for another donor before others are forgotten, and it is told why.
    assert!(first.gossip.take_news().iter().any(|said| said.contains("several clusters")));
    let second = start(options(2, Some(KEY), &[&first]));
    wait_until("it is refused", || first.gossip.drops().crowded > 3);
    assert_eq!(first.knows(second.address), None);
}

#[test]
fn a_flood_does_not_hold_up_what_is_due() {
    let members = three(Some(KEY));
    wait_for_all(&members);
    let [first, second, third] = members;
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let (to, gone) = (first.gossip.address(), third.address);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _end = Ends(&is_over);
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                // What the system does not take is no flood, either.
                let _ = socket.send_to(&[7; DATAGRAM_BYTES_MAX], to);
            }
        });
        let sent = first.gossip.drops().sent;
        wait_until("it asks others", || first.gossip.drops().sent > sent + 10);
        let offer = Offer { free_slabs: 7, slabs: 16 };
        second.free.store(7, Ordering::Relaxed);
        wait_until("it hears others", || {
            first.knows(second.address).is_some_and(|peer| peer.member.offer == offer)
        });
        drop(third);
        wait_until("it notices who goes", || !first.is_alive(gone));
        wait_until("it was a flood", || first.gossip.drops().unopened > 1000);
    });
}

/// Ends a flood with the test, however that ends.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_datagram_that_is_too_long_is_dropped() {
    let member = start(options(1, Some(KEY), &[]));
    send_until(&member, &vec![0; DATAGRAM_BYTES_MAX + 10], |seen| seen.oversize >= 2);
}

#[test]
fn what_was_heard_long_ago_moves_nobody() {
    let first = start(options(1, Some(KEY), &[]));
    // A member whose seed is this socket, so that what it sends can be kept.
    let ear = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let seeds = vec![ear.local_addr().expect("bound").to_string()];
    let second = start(aquifer_gossip::GossipOptions { seeds, ..options(2, Some(KEY), &[]) });
    let mut heard = vec![0; DATAGRAM_BYTES_MAX];
    let (len, _) = ear.recv_from(&mut heard).expect("it gossips");
    drop(second);
    // As it is, it is understood; who changes its time cannot seal it.
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    socket.send_to(&heard[..len], first.gossip.address()).expect("send");
    wait_until("it is understood", || first.gossip.drops().received == 1);
    let mut opened = heard[..len].to_vec();
    let message =
        Seal::new(Some(KEY)).expect("random").open(&mut opened, now()).expect("it is fresh").to_vec();
    send_until(&first, &sealed(Some(KEY), &message, now() - 2 * AGE_MAX), |seen| seen.stale >= 3);
    assert_eq!(first.gossip.drops().received, 1);
}

#[test]
fn members_of_two_clusters_do_not_hear_each_other() {
    let first = start(options(1, Some(KEY), &[]));
    let second = start(options(2, Some([8; 32]), &[&first]));
    let third = start(options(3, None, &[&first]));
    wait_until("both are refused", || first.gossip.drops().unopened >= 4);
    for other in [&second, &third] {
        assert_eq!((first.knows(other.address), other.knows(first.address)), (None, None));
    }
}
