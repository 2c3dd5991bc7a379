//! Donors, borrowers and what they share.

use std::net::IpAddr;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use aquifer_device::{AlignedBuffer, Device, MemoryDevice};
use aquifer_remote::borrower::{Borrower, BorrowerOptions};
use aquifer_remote::cluster;
use aquifer_remote::control::{Identity, Security};
use aquifer_remote::donor::{Donor, DonorOptions};
use aquifer_remote::far::{FarDevice, FarOptions, PAGE_BYTES, Slabs};
use aquifer_remote::transport::fabric;

use crate::network::{host, provider};

pub const SLAB_BYTES: u64 = 1 << 20;
pub const SLAB_PAGES: u64 = SLAB_BYTES / PAGE_BYTES as u64;

/// Whether there is what carries transfers.
pub fn is_there() -> bool {
    let version = if provider() == "memory" { Ok((0, 0)) } else { fabric::version() };
    if let Err(error) = &version {
        println!("SKIP {error}");
    }
    version.is_ok()
}

/// Whether there is a network beside memory of this machine.
pub fn is_built() -> bool {
    let version = fabric::version();
    if let Err(error) = &version {
        println!("SKIP {error}");
    }
    version.is_ok()
}

/// Without certificates on this machine's loopback, and in a cluster of one host elsewhere.
pub fn security() -> Security {
    static CLUSTER: OnceLock<Security> = OnceLock::new();
    let is_loopback = host().parse::<IpAddr>().expect("an address").is_loopback();
    let cluster = || {
        let folder = tempfile::tempdir().expect("a folder");
        let (cluster, host) = (folder.path().join("cluster"), folder.path().join("host"));
        cluster::init(&cluster).expect("init");
        cluster::join(&cluster, "host", &host).expect("join");
        Security::Cluster(Arc::new(Identity::load(&host).expect("an identity")))
    };
    if is_loopback { Security::Loopback } else { CLUSTER.get_or_init(cluster).clone() }
}

/// Options of a donor with `slabs` slabs, for this machine.
pub fn donor_options(slabs: u64) -> DonorOptions {
    DonorOptions {
        address: format!("{}:0", host()).parse().expect("an address"),
        provider: provider(),
        security: security(),
        slab_bytes: SLAB_BYTES,
        lend_bytes: slabs * SLAB_BYTES,
        headroom_bytes: 64 << 20,
        lends_to_own_machine: true,
        ..DonorOptions::default()
    }
}

/// A donor that has its slabs.
pub fn donor(options: DonorOptions) -> Donor {
    let slabs = options.lend_bytes / SLAB_BYTES;
    let donor = Donor::start(options).expect("start");
    wait_until("the donor has its slabs", || donor.now().slabs == slabs);
    donor
}

pub fn borrower_options(donors: &[&Donor]) -> BorrowerOptions {
    BorrowerOptions {
        donors: donors.iter().map(|donor| donor.address().to_string()).collect(),
        security: security(),
        ..BorrowerOptions::default()
    }
}

pub fn borrower(donors: &[&Donor]) -> Arc<Borrower> {
    Arc::new(Borrower::start(borrower_options(donors)).expect("donors are there"))
}

/// A mirror of `slabs` slabs.
pub fn mirror(borrower: &Arc<Borrower>, slabs: u64) -> FarDevice {
    let local = Arc::new(MemoryDevice::new(slabs * SLAB_BYTES, PAGE_BYTES));
    let options = FarOptions { slab_bytes: SLAB_BYTES, behind_bytes: 1 << 20, ..FarOptions::default() };
    FarDevice::new(local, Arc::clone(borrower) as Arc<dyn Slabs>, &options).expect("threads")
}

/// Writes every page so that it says which it is.
pub fn write_all(mirror: &FarDevice, round: u8) {
    let mut run = AlignedBuffer::new(8 * PAGE_BYTES);
    for first in (0..mirror.len_bytes() / PAGE_BYTES as u64).step_by(8) {
        for (n, bytes) in run.chunks_exact_mut(PAGE_BYTES).enumerate() {
            bytes.fill(byte(first + n as u64, round));
        }
        mirror.write_at(first * PAGE_BYTES as u64, &run).expect("write");
    }
}

/// Reads every page, and sees that it is the one.
pub fn read_all(mirror: &FarDevice, round: u8) {
    let mut run = AlignedBuffer::new(8 * PAGE_BYTES);
    for first in (0..mirror.len_bytes() / PAGE_BYTES as u64).step_by(8) {
        mirror.read_at(first * PAGE_BYTES as u64, &mut run).expect("read");
        for (n, bytes) in run.chunks_exact(PAGE_BYTES).enumerate() {
            let wanted = byte(first + n as u64, round);
            assert!(bytes.iter().all(|byte| *byte == wanted), "page {}", first + n as u64);
        }
    }
}

fn byte(page: u64, round: u8) -> u8 {
    (page ^ page >> 8) as u8 ^ round
}

/// Waits until all of the mirror comes from donors.
pub fn wait_for_donors(mirror: &FarDevice, round: u8) {
    wait_until("all pages come from donors", || {
        let before = mirror.counters();
        read_all(mirror, round);
        let after = mirror.counters();
        after.remote_reads - before.remote_reads == mirror.len_bytes() / PAGE_BYTES as u64
    });
}

pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(120), "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
