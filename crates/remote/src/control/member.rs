//! Which donors there are, as a donor tells it.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use super::message::Offer;

/// Most members of one answer.
pub const MEMBERS_MAX: usize = 4096;
/// Longest name of a domain.
pub const DOMAIN_BYTES_MAX: usize = 128;
/// Longest answer with members: each with the longest name, all of it escaped.
pub const MEMBERS_BYTES_MAX: usize = 4 << 20;

/// A donor of the cluster.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Member {
    /// Where borrowers find it.
    pub address: SocketAddr,
    /// Which donors fail together.
    pub domain: String,
    /// What it had when it was last heard of.
    pub offer: Offer,
    /// Whether others hear of it.
    pub is_alive: bool,
    /// Of the messages that it understands.
    pub version: u32,
}

/// No more than [`MEMBERS_MAX`], with names no longer than [`DOMAIN_BYTES_MAX`].
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(try_from = "Vec<Member>")]
pub struct Members(Vec<Member>);

/// Why it is no list of members.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum MembersError {
    /// More than [`MEMBERS_MAX`] members.
    #[error("{0} members, at most {MEMBERS_MAX} are listed")]
    Many(usize),
    /// A name is too long.
    #[error("a domain's name of {0} bytes, at most {DOMAIN_BYTES_MAX} are listed")]
    Domain(usize),
}

impl Members {
    /// As many of these as may be listed, the living ones first.
    #[must_use]
    pub fn most_of(mut members: Vec<Member>) -> Members {
        members.retain(|member| member.domain.len() <= DOMAIN_BYTES_MAX);
        members.sort_by_key(|member| (!member.is_alive, member.address));
        members.truncate(MEMBERS_MAX);
        Members(members)
    }

    /// All of them.
    #[must_use]
    pub fn as_slice(&self) -> &[Member] {
        &self.0
    }
}

impl TryFrom<Vec<Member>> for Members {
    type Error = MembersError;

    fn try_from(members: Vec<Member>) -> Result<Members, MembersError> {
        if members.len() > MEMBERS_MAX {
            return Err(MembersError::Many(members.len()));
        }
        let longest = members.iter().map(|member| member.domain.len()).max().unwrap_or(0);
        if longest > DOMAIN_BYTES_MAX {
            return Err(MembersError::Domain(longest));
        }
        Ok(Members(members))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::{Answer, Channel, ChannelError};

    fn member(port: u16, domain: &str) -> Member {
        Member {
            address: SocketAddr::from(([127, 0, 0, 1], port)),
            domain: domain.into(),
            offer: Offer { free_slabs: u64::MAX, slabs: u64::MAX },
            is_alive: port.is_multiple_of(2),
            version: u32::MAX,
        }
    }

    #[test]
    fn the_longest_answer_fits() {
        let domain = "\u{1}".repeat(DOMAIN_BYTES_MAX);
        let long = |port| Member {
            address: "[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff%4294967295]:65535"
                .parse()
                .expect("an address"),
            ..member(port, &domain)
        };
        let all = (0..MEMBERS_MAX).map(|port| long(port as u16)).collect::<Vec<_>>();
        let answer = Answer::Members(Members::try_from(all).expect("within the limits"));
        let mut stream = std::io::Cursor::new(Vec::new());
        Channel::new(&mut stream).send_within(&answer, MEMBERS_BYTES_MAX).expect("it fits");
        stream.set_position(0);
        let received: Answer =
            Channel::new(&mut stream).receive_within(MEMBERS_BYTES_MAX).expect("it was sent");
        assert_eq!(received, answer);
        stream.set_position(0);
        assert!(matches!(Channel::new(&mut stream).receive::<Answer>(), Err(ChannelError::Malformed(_))));
    }

    #[test]
    fn too_many_or_too_long_is_refused() {
        let many: Vec<_> = (0..=MEMBERS_MAX).map(|port| member(port as u16, "")).collect();
        assert_eq!(Members::try_from(many.clone()), Err(MembersError::Many(MEMBERS_MAX + 1)));
        let long = vec![member(1, &"x".repeat(DOMAIN_BYTES_MAX + 1))];
        assert_eq!(Members::try_from(long.clone()), Err(MembersError::Domain(DOMAIN_BYTES_MAX + 1)));
        let text = serde_json::to_string(&many).expect("text");
        let error = serde_json::from_str::<Members>(&text).expect_err("too many").to_string();
        assert!(error.contains("4097 members"), "{error}");
        let most = Members::most_of(many.into_iter().chain(long).collect());
        assert_eq!(most.as_slice().len(), MEMBERS_MAX);
        assert!(most.as_slice()[..MEMBERS_MAX / 2].iter().all(|member| member.is_alive));
    }
}
