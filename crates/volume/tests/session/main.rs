//! Users at a volume: what they may do, by path.

mod data;
mod files;
mod names;
mod reserve;
mod xattrs;

use std::sync::Arc;

use aquifer_device::MemoryDevice;
use aquifer_volume::access::Credentials;
use aquifer_volume::medium::DeviceMedium;
use aquifer_volume::{Depth, OpenOptions, Session, Volume};

/// Owner of most things in these tests, a member of the owner's group, and somebody else.
const OWNER: u32 = 100;
const MEMBER: u32 = 101;
const STRANGER: u32 = 102;
const GROUP: u32 = 50;

/// An empty volume of 32 MiB, whose first folder is root's and open to all.
fn volume() -> Volume {
    let device = Arc::new(MemoryDevice::new(32 << 20, 4096));
    let medium = || Box::new(DeviceMedium::new(Arc::clone(&device), 64).expect("a medium"));
    Volume::create(medium(), (0, 0)).expect("created");
    let volume = Volume::open(medium(), OpenOptions::default()).expect("opened");
    root(&volume).chmod(b"/", 0o777).expect("root may");
    volume
}

fn user(volume: &Volume, uid: u32) -> Session<&Volume> {
    let groups = if uid == STRANGER { vec![] } else { vec![GROUP] };
    Session::new(volume, Credentials::new(uid, 1000 + uid, groups))
}

fn root(volume: &Volume) -> Session<&Volume> {
    Session::new(volume, Credentials::new(0, 0, vec![]))
}

/// A volume that was used fits together.
fn check(volume: &Volume) {
    let findings = volume.check(Depth::Contents, |_, _| ()).expect("checked");
    assert!(findings.problems.is_empty(), "{:#?}", findings.problems);
}
