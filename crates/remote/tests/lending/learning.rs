//! Donors that nobody named.

use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};
use std::thread;

use aquifer_remote::borrower::{Borrower, BorrowerOptions, DonorSeen, members};
use aquifer_remote::control::{
    Call, Channel, Greeting, MEMBERS_BYTES_MAX, MEMBERS_MAX, Member, Offer, Refusal, Security, Stream,
    VERSION, Welcome,
};
use aquifer_remote::donor::{Donor, DonorOptions, Membership};
use aquifer_remote::far::Slabs;

use crate::fixture::{
    SLAB_BYTES, borrower_options, donor, donor_options, is_there, mirror, security, wait_for_donors,
    wait_until, write_all,
};

/// The list of donors that a donor is given.
#[derive(Default)]
struct List(Mutex<Vec<Member>>);

impl Membership for List {
    fn members(&self) -> Vec<Member> {
        self.0.lock().expect("a list").clone()
    }
}

impl List {
    /// The first donor knows these from now on.
    fn of(donors: &[&Donor]) -> Arc<List> {
        let list = Arc::new(List::default());
        donors[0].set_membership(Arc::clone(&list) as Arc<dyn Membership>);
        list.set(donors.iter().map(|donor| member(donor.address(), true)).collect());
        list
    }

    fn set(&self, members: Vec<Member>) {
        *self.0.lock().expect("a list") = members;
    }
}

fn member(address: SocketAddr, is_alive: bool) -> Member {
    let offer = Offer { free_slabs: 1, slabs: 1 };
    Member { address, domain: String::new(), offer, is_alive, version: VERSION }
}

/// A borrower that was told of the first donor alone.
fn borrower(first: &Donor, options: BorrowerOptions) -> Arc<Borrower> {
    let named = borrower_options(&[first]);
    let options = BorrowerOptions { donors: named.donors, security: named.security, ..options };
    Arc::new(Borrower::start(options).expect("the donor is there"))
}

fn seen(borrower: &Borrower, address: SocketAddr) -> Option<DonorSeen> {
    borrower.donors().into_iter().find(|donor| donor.address == address.to_string())
}

fn is_connected(borrower: &Borrower, donor: SocketAddr) -> bool {
    seen(borrower, donor).is_some_and(|donor| donor.provider.is_some())
}

#[test]
fn a_borrower_learns_of_donors_from_donors() {
    if !is_there() {
        return;
    }
    let (first, second) = (donor(donor_options(2)), donor(donor_options(4)));
    let _list = List::of(&[&first, &second]);
    let only = borrower(&first, BorrowerOptions { donors_only: true, ..BorrowerOptions::default() });
    let borrower = borrower(&first, BorrowerOptions::default());
    wait_until("it is connected to the other", || is_connected(&borrower, second.address()));
    let mirror = mirror(&borrower, 6);
    write_all(&mirror, 1);
    wait_for_donors(&mirror, 1);
    assert_eq!((first.now().lent, second.now().lent), (2, 4));
    assert_eq!(borrower.donors().len(), 2);
    assert_eq!(only.donors().len(), 1, "it keeps to those that are named");
    assert_eq!(only.ram_bytes() * 8, borrower.ram_bytes());
}

#[test]
fn a_donor_that_knows_nobody_tells_of_itself() {
    if !is_there() {
        return;
    }
    let donor = donor(DonorOptions { domain: "rack".into(), ..donor_options(1) });
    let address = donor.address();
    let told = members(&address.to_string(), &borrower_options(&[&donor])).expect("it answers");
    let own = member(address, true);
    assert_eq!(told.as_slice(), [Member { domain: "rack".into(), ..own }]);
    assert_eq!(donor.members(), told);
}

#[test]
fn who_is_gone_elsewhere_or_of_no_use_is_not_tried() {
    if !is_there() {
        return;
    }
    let (first, second) = (donor(donor_options(1)), donor(donor_options(1)));
    let list = List::of(&[&first]);
    let at = |text: &str| text.parse().expect("an address");
    let (gone, nowhere, far) = (at("127.0.0.1:1"), at("0.0.0.0:7447"), at("192.0.2.1:7447"));
    let other = Member { version: VERSION + 1, ..member(at("127.0.0.1:2"), true) };
    let mut all = vec![member(first.address(), true), member(gone, false), member(nowhere, true), other];
    if matches!(security(), Security::Loopback) {
        all.push(member(far, true));
    }
    all.push(member(second.address(), true));
    list.set(all);
    let borrower = borrower(&first, BorrowerOptions::default());
    wait_until("it is connected to the one that is there", || is_connected(&borrower, second.address()));
    assert_eq!(borrower.donors().len(), 2, "{:?}", borrower.donors());

    // The same donor by another name is no other, and one that comes back is used again.
    let address = second.address();
    drop(second);
    list.set(vec![member(first.address(), true), member(address, false)]);
    let why = |donor: DonorSeen| donor.trouble.unwrap_or_default();
    wait_until("it is let alone", || {
        seen(&borrower, address).is_some_and(|donor| why(donor).contains("hear"))
    });
    let _again = donor(DonorOptions { address, ..donor_options(1) });
    list.set(vec![member(first.address(), true), member(address, true)]);
    wait_until("it is connected to again", || is_connected(&borrower, address));
    assert_eq!(borrower.donors().len(), 2, "{:?}", borrower.donors());
}

#[test]
fn a_donor_with_two_names_is_one() {
    if !is_there() || !matches!(security(), Security::Loopback) {
        return;
    }
    let (first, second) = (donor(donor_options(1)), donor(donor_options(1)));
    let _list = List::of(&[&first, &second]);
    let donors = vec![format!("localhost:{}", first.address().port())];
    let options = BorrowerOptions { donors, ..borrower_options(&[]) };
    let borrower = Borrower::start(options).expect("this machine knows its name");
    wait_until("it is connected to the other", || is_connected(&borrower, second.address()));
    let names: Vec<_> = borrower.donors().into_iter().map(|donor| donor.address).collect();
    assert!(names.len() == 2 && names[0].starts_with("localhost"), "{names:?}");
}

#[test]
fn one_without_free_slabs_makes_room_for_one_that_has_some() {
    if !is_there() {
        return;
    }
    let (first, full, free) = (donor(donor_options(1)), donor(donor_options(1)), donor(donor_options(1)));
    let list = List::of(&[&first, &full]);
    let borrower = borrower(&first, BorrowerOptions { donors_max: 2, ..BorrowerOptions::default() });
    wait_until("there is room for one", || is_connected(&borrower, full.address()));
    let none = Offer { free_slabs: 0, slabs: 1 };
    list.set(vec![
        member(first.address(), true),
        Member { offer: none, ..member(full.address(), true) },
        member(free.address(), true),
    ]);
    wait_until("another takes its place", || is_connected(&borrower, free.address()));
    assert!(!is_connected(&borrower, full.address()));
    let homes: Vec<_> = (0..2).map(|_| borrower.find(SLAB_BYTES, &[]).expect("a slab")).collect();
    assert_eq!((first.now().lent, free.now().lent), (1, 1), "{homes:?}");
}

#[test]
fn donors_with_other_slabs_are_left_out() {
    if !is_there() {
        return;
    }
    let first = donor(donor_options(1));
    let larger =
        Donor::start(DonorOptions { slab_bytes: 2 * SLAB_BYTES, ..donor_options(2) }).expect("start");
    let _list = List::of(&[&first, &larger]);
    let borrower = borrower(&first, BorrowerOptions::default());
    let why = |donor: DonorSeen| donor.trouble.unwrap_or_default();
    wait_until("it says why", || {
        seen(&borrower, larger.address()).is_some_and(|donor| why(donor).contains("--slab"))
    });
    assert!(!is_connected(&borrower, larger.address()));
}

#[test]
fn answers_that_are_too_long_are_refused() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    let crowd = move |count: usize, domain: &str| -> Vec<Member> {
        vec![Member { domain: domain.into(), ..member(address, true) }; count]
    };
    let answers = [crowd(MEMBERS_MAX + 1, ""), crowd(1, &"x".repeat(1000)), crowd(MEMBERS_MAX, "")];
    let liar = thread::spawn(move || {
        for members in answers {
            let (socket, _) = listener.accept().expect("somebody comes");
            let mut channel = Channel::new(Stream::accepted(socket, &Security::Loopback).expect("a stream"));
            let _: Greeting = channel.receive().expect("a greeting");
            let welcome = Welcome {
                slab_bytes: SLAB_BYTES,
                provider: "tcp".into(),
                port: 1,
                token: String::new(),
                domain: String::new(),
                address,
                instance: String::new(),
            };
            channel.send(&Ok::<_, Refusal>(Some(welcome))).expect("a welcome");
            assert_eq!(channel.receive::<Call>().expect("a question"), Call::Members);
            let answer = serde_json::json!({ "Members": members });
            channel.send_within(&answer, 2 * MEMBERS_BYTES_MAX).expect("an answer");
        }
    });
    let ask = || members(&address.to_string(), &BorrowerOptions::default());
    for words in ["4097 members", "1000 bytes"] {
        let error = ask().expect_err("refused").to_string();
        assert!(error.contains(words), "{error}");
    }
    assert_eq!(ask().expect("as many as there may be").as_slice().len(), MEMBERS_MAX);
    liar.join().expect("it said all");
}
