//! Many donors, a tenth of whose datagrams is lost all the time.

use crate::cluster::{Cluster, INTERVAL, name};

const SEEDS: [&str; 3] = ["donor-0", "donor-1", "donor-2"];

/// A thousand with `AQUIFER_LONG`, which take a minute of processor time; 300 without.
#[test]
fn hundreds_of_donors_know_each_other() {
    let donors = if std::env::var_os("AQUIFER_LONG").is_some() { 1000 } else { 300 };
    let mut cluster = Cluster::of(donors, &SEEDS, 10);
    cluster.until("all know all", 40, Cluster::is_whole);
    cluster.kill("donor-100");
    cluster.leave("donor-200");
    let late = name(donors);
    cluster.join(&late, &["donor-1"]);
    cluster.until("all know that one has left", 6, |cluster| !cluster.is_alive_for_any("donor-200"));
    cluster.until("all know that one has come", 8, |cluster| cluster.is_alive_for_all(&late));
    cluster.until("all know that one is killed, and all others", 30, Cluster::is_whole);
    assert_eq!(cluster.wrongly_gone(), 0, "donors that are there were taken for gone");
}

#[test]
fn no_donor_is_taken_for_gone_that_is_there() {
    let mut cluster = Cluster::of(50, &SEEDS, 10);
    cluster.until("all know all", 20, Cluster::is_whole);
    for _ in 0..1000 {
        cluster.run(INTERVAL);
        assert!(cluster.is_whole(), "after {:?}", cluster.now);
    }
    assert_eq!(cluster.wrongly_gone(), 0);
}

#[test]
fn what_is_free_is_told_to_all() {
    let mut cluster = Cluster::of(100, &SEEDS, 10);
    cluster.until("all know all", 30, Cluster::is_whole);
    (0..100).for_each(|nth| cluster.set_free(&name(nth), 1000 + nth as u64));
    let is_told = |cluster: &Cluster, nth: usize| {
        let known = cluster.known(&name(nth));
        known
            .iter()
            .all(|peer| peer.as_ref().is_some_and(|peer| peer.member.offer.free_slabs == 1000 + nth as u64))
    };
    cluster.until("all know what all have", 30, |cluster| (0..100).all(|nth| is_told(cluster, nth)));
}
