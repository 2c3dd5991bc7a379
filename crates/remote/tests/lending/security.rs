//! Which peers get in, and what they reach.

use std::io::Write;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use aquifer_remote::borrower::{Borrower, BorrowerError, BorrowerOptions};
use aquifer_remote::cluster::{self, ClusterError, HostOptions};
use aquifer_remote::control::{
    Answer, Call, Channel, Greeting, HostRole, Identity, Refusal, Role, Security, Stream, VERSION, Welcome,
};
use aquifer_remote::donor::{Donor, DonorOptions};
use aquifer_remote::far::Slabs;
use aquifer_remote::transport::{self, Link, LinkOptions, Staging, fabric};

use tempfile::TempDir;

use crate::fixture::{
    SLAB_BYTES, borrower, borrower_options, donor, donor_options, is_there, mirror, security,
    wait_for_donors, wait_until, write_all,
};
use crate::network;

fn host(cluster: &Path, name: &str) -> Security {
    let folder = cluster.with_file_name(format!("{}-{name}", cluster.file_name().expect("a name").display()));
    cluster::join(cluster, name, &folder).expect("join");
    Security::Cluster(Arc::new(Identity::load(&folder).expect("an identity")))
}

/// Two clusters that know nothing of each other, and the folder in which they are.
fn two_clusters() -> (TempDir, [PathBuf; 2]) {
    let folder = tempfile::tempdir().expect("a folder");
    let clusters = ["ours", "theirs"].map(|name| folder.path().join(name));
    clusters.iter().for_each(|cluster| cluster::init(cluster).expect("init"));
    (folder, clusters)
}

#[test]
fn a_cluster_lends_to_its_hosts_and_to_nobody_else() {
    if !is_there() {
        return;
    }
    let (_folder, [ours, theirs]) = two_clusters();
    assert!(matches!(cluster::init(&ours), Err(ClusterError::Exists(_))));
    let donor = donor(DonorOptions { security: host(&ours, "donor"), ..donor_options(2) });
    let start =
        |security: Security| Borrower::start(BorrowerOptions { security, ..borrower_options(&[&donor]) });

    let member = Arc::new(start(host(&ours, "borrower")).expect("a host of the cluster"));
    let mirror = mirror(&member, 2);
    write_all(&mirror, 1);
    wait_for_donors(&mirror, 1);

    for stranger in [host(&theirs, "stranger"), Security::Loopback] {
        let error = start(stranger).err().expect("refused");
        assert!(matches!(&error, BorrowerError::Nobody(said) if said.contains("certificates")), "{error}");
    }
    wait_for_donors(&mirror, 1);
}

#[test]
fn a_borrower_does_not_believe_a_donor_of_another_cluster() {
    if !is_there() {
        return;
    }
    let (_folder, [ours, theirs]) = two_clusters();
    let donor = donor(DonorOptions { security: host(&theirs, "donor"), ..donor_options(1) });
    let options = BorrowerOptions { security: host(&ours, "borrower"), ..borrower_options(&[&donor]) };
    assert!(Borrower::start(options).is_err());
}

/// What a donor answers to this greeting.
pub fn greet(donor: &Donor, version: u32, role: Role) -> (Channel<Stream>, Result<Option<Welcome>, Refusal>) {
    greet_of(donor, version, network::machine(), role)
}

/// What it answers to a greeting from this machine.
#[allow(dead_code)]
pub fn greet_as(donor: &Donor, machine: String, role: Role) -> Result<Option<Welcome>, Refusal> {
    greet_of(donor, VERSION, machine, role).1
}

fn greet_of(
    donor: &Donor,
    version: u32,
    machine: String,
    role: Role,
) -> (Channel<Stream>, Result<Option<Welcome>, Refusal>) {
    let socket = TcpStream::connect(donor.address()).expect("connect");
    let mut channel = Channel::new(Stream::connected(socket, &security()).expect("stream"));
    let greeting = Greeting { version, machine, name: "test".into(), weight: 1, role };
    let answer = channel.ask(&greeting).expect("an answer");
    (channel, answer)
}

#[test]
fn another_version_is_told_so() {
    if !is_there() {
        return;
    }
    let donor = donor(donor_options(1));
    let (_, answer) = greet(&donor, VERSION + 1, Role::Calls);
    assert_eq!(answer, Err(Refusal::Version { donor: VERSION, borrower: VERSION + 1 }));
}

#[test]
fn what_was_reserved_and_not_taken_is_offered_again() {
    if !is_there() {
        return;
    }
    let donor = donor(donor_options(2));
    let (mut calls, answer) = greet(&donor, VERSION, Role::Calls);
    answer.expect("welcome");
    let answer: Answer = calls.ask(&Call::Reserve).expect("an answer");
    assert!(matches!(answer, Answer::Reserved { .. }), "{answer:?}");
    assert_eq!(donor.offering()().free_slabs, 1);
    // The borrower stays, silent.
    wait_until("the slab is offered", || donor.offering()().free_slabs == 2);
}

fn connect(welcome: &Welcome, token: fabric::Token) -> Option<Link> {
    connect_to(welcome.port, welcome, token)
}

pub fn connect_to(port: u16, welcome: &Welcome, token: fabric::Token) -> Option<Link> {
    let options = LinkOptions { deadline: Duration::from_secs(5), ..LinkOptions::default() };
    let connect = |staging: &Arc<Staging>| {
        transport::connect(&welcome.provider, &network::host(), port, &token, Duration::from_secs(5), staging)
    };
    Link::new(&options, connect).ok()
}

pub fn token(welcome: &Welcome) -> fabric::Token {
    let digits = |nth: usize| u8::from_str_radix(&welcome.token[2 * nth..2 * nth + 2], 16).expect("digits");
    std::array::from_fn(digits)
}

#[test]
fn a_token_lets_one_in_once() {
    if !is_there() {
        return;
    }
    let donor = donor(donor_options(1));
    let (_calls, welcome) = greet(&donor, VERSION, Role::Calls);
    let welcome = welcome.expect("welcome").expect("welcome");
    assert!(connect(&welcome, [0; 32]).is_none(), "a token that nobody gave");
    let link = connect(&welcome, token(&welcome)).expect("the first");
    assert!(connect(&welcome, token(&welcome)).is_none(), "the same token again");
    assert!(link.end().is_none());
    let (_, refused) = greet(&donor, VERSION, Role::Notices("00".repeat(32)));
    assert_eq!(refused, Err(Refusal::Token));
}

#[test]
fn one_borrower_reads_nothing_of_another() {
    if !is_there() {
        return;
    }
    let donor = donor(donor_options(2));
    let owner = borrower(&[&donor]);
    let home = owner.find(SLAB_BYTES, &[]).expect("a slab");
    home.write(&[0x5e; 4096], 0).expect("write");
    let (_calls, welcome) = greet(&donor, VERSION, Role::Calls);
    let welcome = welcome.expect("welcome").expect("welcome");
    let thief = connect(&welcome, token(&welcome)).expect("connect");
    let mut stolen = [0; 4096];
    // Even with the key, which it cannot know.
    assert!(thief.read(home.place(), &mut stolen).is_err());
    assert_eq!(stolen, [0; 4096]);
    let mut own = [0; 4096];
    home.read(0, &mut own).expect("the owner reads");
    assert_eq!(own, [0x5e; 4096]);
}

#[test]
fn garbage_harms_nobody() {
    if !is_there() {
        return;
    }
    let donor = donor(donor_options(1));
    let borrower = borrower(&[&donor]);
    let home = borrower.find(SLAB_BYTES, &[]).expect("a slab");
    let garbage: [&[u8]; 4] =
        [b"GET / HTTP/1.1\r\n\r\n", &[255; 100], &[4, 0, 0, 0, b'n', b'u', b'l', b'l'], &[]];
    for bytes in garbage {
        let mut socket = TcpStream::connect(donor.address()).expect("connect");
        socket.write_all(bytes).expect("send");
    }
    home.write(&[1; 4096], 0).expect("write");
    assert_eq!(donor.now().borrowers, 1);
}

#[test]
fn strangers_that_say_nothing_keep_nobody_out() {
    if !is_there() {
        return;
    }
    let donor = donor(donor_options(1));
    let strangers: Vec<_> = (0..200)
        .map(|_| {
            let mut socket = TcpStream::connect(donor.address()).expect("connect");
            // The first byte of a length, and never the next.
            socket.write_all(&[1]).expect("send");
            socket
        })
        .collect();
    borrower(&[&donor]).find(SLAB_BYTES, &[]).expect("a slab");
    drop(strangers);
}

fn host_as(cluster: &Path, name: &str, roles: &[HostRole], weight: u32) -> Security {
    let folder = cluster.with_file_name(format!("folder-{name}-{roles:?}-{weight}"));
    cluster::join_as(cluster, name, &folder, &HostOptions { roles: roles.to_vec(), weight }).expect("join");
    Security::Cluster(Arc::new(Identity::load(&folder).expect("an identity")))
}

/// A certificate says what a host may be.
#[test]
fn hosts_lend_and_borrow_as_their_certificates_say() {
    if !is_there() {
        return;
    }
    let (_folder, [ours, _]) = two_clusters();
    let reserved = cluster::join(&ours, "donor.aquifer.internal", &ours.with_file_name("liar"));
    assert!(matches!(reserved, Err(ClusterError::Name(_))), "{reserved:?}");
    let said = |donor: HostRole, borrower: HostRole| {
        let security = host_as(&ours, &format!("lender-{borrower:?}"), &[donor], 1);
        let donor = self::donor(DonorOptions { security, ..donor_options(1) });
        let security =
            host_as(&ours, &format!("user-{donor:?}", donor = donor.address().port()), &[borrower], 1);
        let started = Borrower::start(BorrowerOptions { security, ..borrower_options(&[&donor]) });
        started.err().map_or_else(String::new, |error| error.to_string())
    };
    assert_eq!(said(HostRole::Donor, HostRole::Borrower), "");
    let refused = said(HostRole::Donor, HostRole::Donor);
    assert!(refused.contains("--role borrower"), "{refused}");
    let refused = said(HostRole::Borrower, HostRole::Borrower);
    assert!(refused.contains("--role donor"), "{refused}");
}

/// However often a host connects, and whatever it says of itself, it has what one host may have.
#[test]
fn a_quota_is_a_hosts() {
    if !is_there() {
        return;
    }
    let (_folder, [ours, _]) = two_clusters();
    let options =
        DonorOptions { security: host(&ours, "donor"), quota_bytes: 2 * SLAB_BYTES, ..donor_options(4) };
    let donor = donor(options);
    let greedy = host(&ours, "greedy");
    let borrowers: Vec<_> = (0..3)
        .map(|nth| {
            let (security, name) = (greedy.clone(), format!("program {nth}"));
            Borrower::start(BorrowerOptions { security, name, ..borrower_options(&[&donor]) })
                .expect("a donor")
        })
        .collect();
    let homes: Vec<_> =
        borrowers.iter().flat_map(|one| [one.find(SLAB_BYTES, &[]), one.find(SLAB_BYTES, &[])]).collect();
    assert_eq!(homes.iter().flatten().count(), 2);
    let modest = BorrowerOptions { security: host(&ours, "modest"), ..borrower_options(&[&donor]) };
    let modest = Borrower::start(modest).expect("a donor");
    assert!(modest.find(SLAB_BYTES, &[]).is_some());
}
