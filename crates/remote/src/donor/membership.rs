//! The source of the list of donors.

use crate::control::Member;

/// Somebody who knows the donors of the cluster, by gossip for instance.
pub trait Membership: Send + Sync {
    /// All of them, this one too. Does not wait for anybody.
    fn members(&self) -> Vec<Member>;
}
