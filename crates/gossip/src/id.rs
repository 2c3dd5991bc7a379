//! Which donor is which.

use std::net::SocketAddr;
use std::sync::Arc;

use aquifer_remote::control::DOMAIN_BYTES_MAX;
use foca::Identity;

/// How much later a donor says that it began, in milliseconds, after others took it for gone. A donor whose clock went back by 60 seconds is taken back after six times.
const RENEWED_MS: u64 = 10_000;

/// What a donor tells of itself and never changes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct About {
    /// Where borrowers find it.
    pub address: SocketAddr,
    /// Donors with the same domain fail together.
    pub domain: String,
    /// Of the messages that it understands.
    pub version: u32,
}

impl About {
    /// Whether its domain is as short as a list of members allows.
    pub(crate) fn is_sound(&self) -> bool {
        self.domain.len() <= DOMAIN_BYTES_MAX
    }
}

/// One life of a donor: two lives at the same address differ in `began`, and the later one counts.
#[derive(Clone, Debug)]
pub struct Id {
    /// Where it gossips, by UDP.
    pub at: SocketAddr,
    /// When it began, in milliseconds since 1970 by its clock. 0 stands for any life.
    pub began: u64,
    /// None where a datagram only points at a donor.
    pub about: Option<Arc<About>>,
}

impl Id {
    /// Whatever donor gossips at `at`, to ask it who it is.
    #[must_use]
    pub fn any(at: SocketAddr) -> Id {
        Id { at: plain(at), began: 0, about: None }
    }
}

impl PartialEq for Id {
    fn eq(&self, other: &Id) -> bool {
        (self.at, self.began) == (other.at, other.began)
    }
}

impl Eq for Id {}

impl Identity for Id {
    type Addr = SocketAddr;

    fn renew(&self) -> Option<Id> {
        Some(Id { began: self.began.saturating_add(RENEWED_MS), ..self.clone() })
    }

    fn addr(&self) -> SocketAddr {
        self.at
    }

    fn win_addr_conflict(&self, adversary: &Id) -> bool {
        self.began > adversary.began
    }
}

/// The address without what only its own machine understands of it (RFC 4007, zones).
pub(crate) fn plain(at: SocketAddr) -> SocketAddr {
    SocketAddr::new(at.ip(), at.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_later_life_counts() {
        let at = "127.0.0.1:7447".parse().expect("an address");
        let first = Id { began: 5, ..Id::any(at) };
        let second = first.renew().expect("another life");
        assert_ne!(first, second);
        assert_eq!(first.addr(), second.addr());
        assert!(second.win_addr_conflict(&first) && !first.win_addr_conflict(&second));
        let last = Id { began: u64::MAX, ..Id::any(at) };
        assert_eq!(last.renew(), Some(last), "the end of time is the end of renewals");
    }

    #[test]
    fn zones_stay_at_home() {
        let with =
            SocketAddr::V6(std::net::SocketAddrV6::new("fe80::1".parse().expect("an address"), 1, 7, 2));
        assert_eq!(Id::any(with).at, "[fe80::1]:1".parse().expect("an address"));
    }
}
