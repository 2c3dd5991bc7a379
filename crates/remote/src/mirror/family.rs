//! Slabs that hold the same part of a device.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use super::home::Home;
use super::tags::Tag;

/// Slabs that hold the same part of a device. It never changes; another one takes its place.
///
/// Every page that was written since the family began has its epoch, and is in all of its slabs. A slab that comes from a family before also has pages of other
/// epochs, until those are copied to all.
#[derive(Clone, Debug)]
pub struct Family {
    epoch: u32,
    members: Vec<Member>,
    is_filled: bool,
}

#[derive(Clone, Debug)]
struct Member {
    home: Arc<Home>,
    /// Epochs of the pages that it has beside those of the family's.
    inherited: Vec<u32>,
}

/// Which slabs of a family have a page: a bit for each.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Holders(u32);

impl Holders {
    /// None of them.
    pub const NOBODY: Holders = Holders(0);

    /// Whether slab number `nth` of the family has the page.
    pub fn has(self, nth: usize) -> bool {
        self.0 >> nth & 1 == 1
    }
}

impl Family {
    /// The slabs of a family before that are alive, and further ones that hold nothing yet.
    pub fn heir(before: Option<&Family>, found: Vec<Arc<Home>>) -> Family {
        let known = || before.into_iter().flat_map(|before| &before.members);
        let inherit = |member: &Member| Member {
            home: Arc::clone(&member.home),
            inherited: before
                .map(|before| before.epoch)
                .into_iter()
                .chain(member.inherited.clone())
                .collect(),
        };
        let alive = known().filter(|member| member.home.is_alive()).map(inherit);
        let found = found.into_iter().map(|home| Member { home, inherited: Vec::new() });
        let mut members: Vec<_> = alive.chain(found).collect();
        members.sort_by_key(|member| Arc::as_ptr(member.home.link()).addr());
        Family { epoch: next_epoch(), members, is_filled: false }
    }

    /// The same without a slab that is lost: what it had is to be copied again.
    pub fn without(&self, lost: &Home) -> Family {
        let is_left = |member: &&Member| !std::ptr::eq(&*member.home, lost);
        let members = self.members.iter().filter(is_left).cloned().collect();
        Family { epoch: self.epoch, members, is_filled: false }
    }

    /// The same when all pages have been copied to all of these slabs of it, which are those that stay.
    pub fn filled(&self, staying: &[Arc<Home>]) -> Family {
        let members =
            staying.iter().map(|home| Member { home: Arc::clone(home), inherited: Vec::new() }).collect();
        Family { epoch: self.epoch, members, is_filled: true }
    }

    /// Whether all pages are where they should be: in all slabs, or, if there are too few of those, on flash.
    pub fn is_filled(&self) -> bool {
        self.is_filled
    }

    /// What pages that are written now are tagged with.
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// All slabs, in the order in which they are written: that of their links, for all families.
    pub fn homes(&self) -> impl Iterator<Item = &Arc<Home>> {
        self.members.iter().map(|member| &member.home)
    }

    /// Which slabs have a page with this tag.
    pub fn holders(&self, tag: Tag) -> Holders {
        if tag.is_in(self.epoch) {
            return Holders((1 << self.members.len()) - 1);
        }
        let has_it = |member: &Member| member.inherited.iter().any(|epoch| tag.is_in(*epoch));
        let bit_of = |(nth, member)| u32::from(has_it(member)) << nth;
        Holders(self.members.iter().enumerate().map(bit_of).sum())
    }
}

/// No two families of a process have the same, so no page is taken for one of another family.
fn next_epoch() -> u32 {
    static EPOCHS: AtomicU32 = AtomicU32::new(1);
    EPOCHS.fetch_add(1, Relaxed)
}
