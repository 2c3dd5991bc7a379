//! What somebody who does not keep to the rules, or whose connection is bad, does to others.

use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use aquifer_remote::borrower::{Borrower, BorrowerOptions};
use aquifer_remote::control::{Answer, Call, Channel, Greeting, Role, Stream, VERSION};
use aquifer_remote::far::Slabs;
use aquifer_remote::transport::Place;

use crate::fixture::{
    SLAB_BYTES, borrower, borrower_options, donor, donor_options, is_there, security, wait_until,
};
use crate::network;
use crate::proxy::{Proxy, Way, trickle};
use crate::security::{connect_to, greet, token};

/// A borrower that does everything by hand takes a slab.
fn take(calls: &mut Channel<Stream>) -> (Call, Place) {
    let Answer::Reserved { reservation, .. } = calls.ask(&Call::Reserve).expect("an answer") else {
        panic!("nothing is reserved");
    };
    let Answer::Lent { slab, address, key } = calls.ask(&Call::Take(reservation)).expect("an answer") else {
        panic!("nothing is lent");
    };
    (Call::GiveBack(slab), Place { address, key })
}

/// Half of a write has come when its slab goes back, and the rest comes when somebody else has it.
#[test]
fn what_is_written_into_a_slab_that_went_back_reaches_nobody() {
    const WRITTEN: usize = 128 << 10;
    if !is_there() || network::provider() != "tcp" || !network::host().starts_with("127.") {
        return;
    }
    for half in [4096, WRITTEN / 2, WRITTEN - 4096] {
        let donor = donor(donor_options(1));
        let (mut calls, welcome) = greet(&donor, VERSION, Role::Calls);
        let welcome = welcome.expect("welcome").expect("welcome");
        let proxy = Proxy::before((donor.address().ip(), welcome.port).into());
        let link = connect_to(proxy.address().port(), &welcome, token(&welcome)).expect("connect");
        let (give_back, place) = take(&mut calls);
        link.write(&[1; 4096], place).expect("a slab");
        proxy.hold_after(half);
        thread::scope(|scope| {
            let write = scope.spawn(|| link.write(&[0x66; WRITTEN], place));
            wait_until("half of the write is on its way", || proxy.is_holding());
            // Long enough for the donor to take it in; else it is refused as a whole, which is right too.
            thread::sleep(Duration::from_millis(100));
            assert_eq!(calls.ask::<Answer>(&give_back).expect("an answer"), Answer::Done);

            let owner = borrower(&[&donor]);
            let home = owner.find(SLAB_BYTES, &[]).expect("the slab");
            let mut seen = vec![1; SLAB_BYTES as usize];
            home.read(0, &mut seen).expect("read");
            assert!(seen.iter().all(|byte| *byte == 0), "a slab is lent empty");
            home.write(&vec![0x5e; SLAB_BYTES as usize], 0).expect("write");
            proxy.release();
            // Well or badly.
            let _ = write.join().expect("no panic");
            home.read(0, &mut seen).expect("read");
            let wrong = seen.iter().filter(|byte| **byte != 0x5e).count();
            assert_eq!(wrong, 0, "bytes of somebody else, after {half} bytes had come");
        });
    }
}

/// A borrower that answers a byte now and then is not waited for.
#[test]
fn a_borrower_that_trickles_gives_back_as_others_do() {
    if !is_there() {
        return;
    }
    let donor = donor(donor_options(2));
    let (mut calls, welcome) = greet(&donor, VERSION, Role::Calls);
    let welcome = welcome.expect("welcome").expect("welcome");
    let _link = connect_to(welcome.port, &welcome, token(&welcome)).expect("connect");
    take(&mut calls);
    let mut socket = TcpStream::connect(donor.address()).expect("connect");
    let stream = Stream::connected(socket.try_clone().expect("a descriptor"), &security()).expect("stream");
    let mut notices = Channel::new(stream);
    let role = Role::Notices(welcome.token.clone());
    let greeting =
        Greeting { version: VERSION, machine: network::machine(), name: "slow".into(), weight: 1, role };
    let answer: Result<Option<aquifer_remote::control::Welcome>, aquifer_remote::control::Refusal> =
        notices.ask(&greeting).expect("an answer");
    assert_eq!(answer, Ok(None));
    let _trickling = thread::spawn(move || trickle(&mut socket));

    let honest = borrower(&[&donor]);
    let _home = honest.find(SLAB_BYTES, &[]).expect("a slab");
    donor.evict(2);
    wait_until("all slabs are back", || donor.now().evicted == 2);
}

/// A donor that answers a byte now and then is given up as one that is silent.
#[test]
fn a_donor_that_trickles_is_given_up() {
    if !is_there() || !network::host().starts_with("127.") {
        return;
    }
    let donor = donor(donor_options(2));
    let proxy = Proxy::before(donor.address());
    let options = BorrowerOptions {
        donors: vec![proxy.address().to_string()],
        donors_only: true,
        ..borrower_options(&[])
    };
    let borrower = Arc::new(Borrower::start(options).expect("a donor"));
    proxy.take(Way::Trickling);
    let is_answered = Arc::new(AtomicBool::new(false));
    thread::spawn({
        let (borrower, is_answered) = (Arc::clone(&borrower), Arc::clone(&is_answered));
        move || {
            while borrower.donors()[0].trouble.is_none() {
                assert!(borrower.find(SLAB_BYTES, &[]).is_none());
            }
            is_answered.store(true, SeqCst);
        }
    });
    wait_until("the donor is given up", || is_answered.load(SeqCst));
}

/// Two names of one donor are one donor.
#[test]
fn a_donor_with_two_names_counts_once() {
    if !is_there() || !network::host().starts_with("127.") {
        return;
    }
    let donor = donor(donor_options(2));
    let proxy = Proxy::before(donor.address());
    let donors = vec![donor.address().to_string(), proxy.address().to_string()];
    let borrower = Borrower::start(BorrowerOptions { donors, ..borrower_options(&[]) }).expect("a donor");
    let connected = borrower.donors().iter().filter(|donor| donor.provider.is_some()).count();
    assert_eq!(connected, 1, "{:?}", borrower.donors());
    let twin = borrower.donors().into_iter().find_map(|donor| donor.trouble).expect("a reason");
    assert!(twin.contains("connected as"), "{twin}");
    let home = borrower.find(SLAB_BYTES, &[]).expect("a slab");
    let names = borrower.donors().len() as u64;
    let all: Vec<_> = (0..names).map(aquifer_remote::far::DonorId).collect();
    assert!(borrower.find(SLAB_BYTES, &all).is_none());
    drop(home);
}

/// Donors that have stopped are not waited for one after the other while another one lends.
#[test]
fn donors_that_are_silent_hold_up_nobody() {
    const SILENT: usize = 8;
    if !is_there() || !network::host().starts_with("127.") {
        return;
    }
    let silent: Vec<_> = (0..SILENT).map(|_| donor(donor_options(1))).collect();
    let proxies: Vec<_> = silent.iter().map(|donor| Proxy::before(donor.address())).collect();
    let lender = donor(donor_options(4));
    let mut donors: Vec<_> = proxies.iter().map(|proxy| proxy.address().to_string()).collect();
    donors.push(lender.address().to_string());
    let options = BorrowerOptions { donors, donors_only: true, ..borrower_options(&[]) };
    let borrower = Borrower::start(options).expect("donors");
    assert!(borrower.donors().iter().all(|donor| donor.provider.is_some()), "{:?}", borrower.donors());
    proxies.iter().for_each(|proxy| proxy.take(Way::Nowhere));
    let home = borrower.find(SLAB_BYTES, &[]).expect("a slab");
    // None of them was waited for until it was given up.
    let given_up: Vec<_> = borrower.donors().into_iter().filter_map(|donor| donor.trouble).collect();
    assert!(given_up.is_empty(), "{given_up:?}");
    drop(home);
}
