//! Datagrams that are nobody's.

use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, SystemTime};

use aquifer_gossip::DropsSeen;
use aquifer_gossip::seal::{AGE_MAX, DATAGRAM_BYTES_MAX, Seal};

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
    send_until(first, &sealed(Some(KEY), b"no message", now()), |seen| seen.malformed >= 3);
    send_until(first, &sealed(Some(KEY), b"", now() - 2 * AGE_MAX), |seen| seen.stale >= 3);
    send_until(first, &sealed(Some(KEY), b"", now() + 2 * AGE_MAX), |seen| seen.stale >= 6);
    let news = first.gossip.take_news();
    assert_eq!(news.len(), 3, "one for each kind: {news:?}");
    assert!(news.iter().any(|said| said.contains("--cluster")), "{news:?}");
    assert!(news.iter().any(|said| said.contains("synchronise the clocks")), "{news:?}");
    wait_for_all(&members);
}

/// A message that names `donors` donors, as the protocol writes it.
fn crowd(donors: u16) -> Vec<u8> {
    let mut message = b"\x53\xb0\0\0".to_vec();
    message.extend(donors.to_le_bytes());
    for nth in 0..donors {
        message.extend([0, 0]);
        message.extend(u64::from(nth).to_le_bytes());
        // All of them where nobody listens.
        message.extend([4, 127, 0, 0, 2, 9, 0]);
        message.extend([2_u64, 0, 0].map(u64::to_le_bytes).concat());
    }
    message.extend(16_u16.to_le_bytes());
    message.extend(b"aquifer gossip 1");
    message
}

#[test]
fn more_donors_than_one_gossip_carries_are_dropped() {
    let members = three(Some(KEY));
    wait_for_all(&members);
    let [first, ..] = &members;
    for donors in [700, 800] {
        assert!(aquifer_gossip::message::parse(&crowd(donors)).is_some());
    }
    let before = first.gossip.drops().received;
    send_until(first, &sealed(Some(KEY), &crowd(700), now()), |seen| seen.received > before + 20);
    assert_eq!(first.gossip.drops().crowded, 0);
    send_until(first, &sealed(Some(KEY), &crowd(800), now()), |seen| seen.crowded >= 3);
    wait_for_all(&members);
}

#[test]
fn a_datagram_that_is_too_long_is_dropped() {
    // Over IPv4 none is.
    let Ok(listen) = UdpSocket::bind("[::1]:0").and_then(|socket| socket.local_addr()) else {
        println!("SKIP there is no IPv6 here");
        return;
    };
    let listen = SocketAddr::new(listen.ip(), 0);
    let member = start(aquifer_gossip::GossipOptions { listen, ..options(1, Some(KEY), &[]) });
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
