//! Donors that go and come again.

use aquifer_gossip::Dropped;

use crate::cluster::{Cluster, INTERVAL};

/// Intervals after which a donor that is killed is gone for all: an ask of it within a few, and 4 for it to object.
const GONE_WITHIN: u32 = 12;

fn small(donors: usize) -> Cluster {
    let mut cluster = Cluster::of(donors, &["donor-0"], 0);
    cluster.until("all know all", 10, Cluster::is_whole);
    cluster
}

#[test]
fn a_donor_that_is_killed_is_gone_and_comes_again() {
    let mut cluster = small(5);
    let before = cluster.known("donor-3");
    cluster.kill("donor-3");
    cluster.until("it is gone", GONE_WITHIN, |cluster| !cluster.is_alive_for_any("donor-3"));
    let gone = cluster.known("donor-3");
    assert!(gone.iter().flatten().all(|peer| !peer.member.is_alive), "{gone:?}");
    assert_eq!(gone.iter().flatten().count(), 4, "it is listed as gone");
    cluster.join("donor-3", &["donor-0"]);
    cluster.until("it is there again", 2, Cluster::is_whole);
    let after = cluster.known("donor-3");
    assert!(after[0].as_ref().map(|peer| peer.incarnation) > before[0].as_ref().map(|peer| peer.incarnation));
    // Ten minutes later a donor that is gone is not listed any more.
    cluster.kill("donor-4");
    cluster.run(INTERVAL * (GONE_WITHIN + 600));
    assert!(cluster.known("donor-4").iter().all(Option::is_none));
}

/// The first donor knows nobody when it begins again; the others take it for the one that was there, and ask it.
#[test]
fn the_first_donor_is_found_though_it_knows_nobody() {
    let mut cluster = small(5);
    cluster.kill("donor-0");
    cluster.join("donor-0", &[]);
    cluster.until("it is there again", 4, Cluster::is_whole);
    assert_eq!(cluster.wrongly_gone(), 0);
}

/// What the first life of the donor told lies ahead of the clock of its second.
#[test]
fn a_donor_whose_clock_goes_back_is_taken_in() {
    let mut cluster = small(5);
    cluster.kill("donor-3");
    cluster.join_late("donor-3", &["donor-0"], 60_000);
    cluster.until("it is there again", 12, Cluster::is_whole);
    assert_eq!(cluster.wrongly_gone(), 1, "it had to begin anew");
}

#[test]
fn a_donor_that_leaves_is_gone_at_once() {
    let mut cluster = small(20);
    cluster.leave("donor-0");
    cluster.until("it is gone", 1, |cluster| !cluster.is_alive_for_any("donor-0"));
    cluster.join("donor-0", &["donor-7"]);
    cluster.until("it is there again", 2, Cluster::is_whole);
}

/// Both halves take the other for gone, and go on; one of them has no seed.
#[test]
fn halves_of_a_cluster_find_each_other_again() {
    for donors in [2, 3, 20] {
        let mut cluster = small(donors);
        cluster.cut = Some(donors / 2);
        cluster.until("each half is alone", 60, |cluster| !cluster.is_alive_for_all("donor-0"));
        cluster.run(120 * INTERVAL);
        cluster.cut = None;
        cluster.until("all know all again", 60, Cluster::is_whole);
        cluster.run(60 * INTERVAL);
        assert!(cluster.is_whole());
    }
}

#[test]
fn halves_find_each_other_again_without_seeds() {
    let mut cluster = small(20);
    cluster.forget_seeds();
    cluster.cut = Some(10);
    cluster.run(120 * INTERVAL);
    assert!(!cluster.is_alive_for_all("donor-0") && !cluster.is_alive_for_all("donor-19"));
    cluster.cut = None;
    cluster.until("all know all again", 60, Cluster::is_whole);
}

/// A message that somebody sends again does not bring back a donor that is gone, nor an earlier life of it, and asks nobody but its receiver.
#[test]
fn what_is_sent_again_moves_nobody() {
    let mut cluster = small(5);
    let heard = cluster.announcement("donor-3", "donor-1");
    assert_eq!(cluster.hear("donor-3", &heard), Err(Dropped::Own), "a donor does not hear itself");
    cluster.kill("donor-3");
    cluster.until("it is gone", GONE_WITHIN, |cluster| !cluster.is_alive_for_any("donor-3"));
    for name in ["donor-1", "donor-2", "donor-4"] {
        cluster.hear(name, &heard).expect("it is understood");
    }
    cluster.run(INTERVAL);
    assert!(!cluster.is_alive_for_any("donor-3"));
    cluster.join("donor-3", &["donor-0"]);
    cluster.until("it is there again", 2, Cluster::is_whole);
    let before = cluster.known("donor-3");
    cluster.hear("donor-1", &heard).expect("it is understood");
    cluster.run(INTERVAL);
    assert!(cluster.is_whole());
    let incarnation = |known: &[Option<aquifer_gossip::Peer>]| {
        known.iter().flatten().map(|peer| peer.incarnation).collect::<Vec<_>>()
    };
    assert_eq!(incarnation(&cluster.known("donor-3")), incarnation(&before));
}
