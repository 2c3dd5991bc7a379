//! Donors that other donors know of.
//!
//! A borrower is connected to some of a cluster's living donors, chosen at random, of as many domains as
//! possible. A donor that is gone makes room for another, and so does a donor that neither has lent a slab
//! here nor has a free one.

use std::sync::{Arc, Mutex, PoisonError};

use super::connection::Connection;
use super::donor::{Donor, Standing};
use super::{Shared, lock, look};
use crate::control::{Member, Members, Security, VERSION};
use crate::far::DonorId;
use crate::random;

/// Donors that are asked in one round: who does not gossip knows itself alone.
const ASKED_MAX: usize = 3;
/// Most donors that a borrower ever hears of; it keeps what it knows of each.
const KNOWN_MAX: usize = 4096;

/// A donor that could be chosen.
struct Choice<'a> {
    member: &'a Member,
    /// If it was heard of before.
    known: Option<Arc<Mutex<Donor>>>,
}

impl Shared {
    /// Asks donors who else lends, and chooses some of them.
    pub fn learn(&self) {
        if self.options.donors_only {
            return;
        }
        let is_connected = |donor: &Arc<Mutex<Donor>>| {
            let donor = lock(donor);
            donor
                .connection
                .as_ref()
                .is_some_and(|connection| connection.is_alive())
                .then(|| donor.address.clone())
        };
        let mut asked: Vec<_> = self.donors().iter().filter_map(is_connected).collect();
        for _ in 0..ASKED_MAX.min(asked.len()) {
            let address = asked.swap_remove(any(asked.len()));
            // Another one is asked in the next round: who hangs must not hold up what else is to be done.
            let Ok(members) = look::members(&address, &self.options) else { return };
            if members.as_slice().len() > 1 {
                return self.choose_among(&members);
            }
        }
    }

    fn choose_among(&self, members: &Members) {
        let known = self.donors();
        let mut choices = Vec::new();
        let mut domains = Vec::new();
        for member in members.as_slice().iter().filter(|member| self.may_borrow_from(member)) {
            let mut found = known.iter().filter(|donor| lock(donor).is_at(member.address)).peekable();
            if found.peek().is_none() && member.is_alive {
                choices.push(Choice { member, known: None });
            }
            for donor in found {
                let standing = settle(&mut lock(donor), member);
                if standing != Standing::Resting {
                    domains.push(member.domain.as_str());
                } else if member.is_alive {
                    choices.push(Choice { member, known: Some(Arc::clone(donor)) });
                }
            }
        }
        self.make_room(&choices, members);
        let is_wanted = |donor: &&Arc<Mutex<Donor>>| lock(donor).standing != Standing::Resting;
        let wanted = known.iter().filter(is_wanted).count();
        for _ in wanted..self.options.connections_max() {
            let Some(nth) = pick(&choices, &domains) else { return };
            domains.push(choices[nth].member.domain.as_str());
            self.choose(choices.swap_remove(nth));
        }
    }

    /// Whether a member can be of use here.
    fn may_borrow_from(&self, member: &Member) -> bool {
        let ip = member.address.ip();
        // What is not encrypted stays on this machine, whatever a donor says.
        let is_near = matches!(self.options.security, Security::Cluster(_)) || ip.is_loopback();
        is_near && member.version == VERSION && !ip.is_unspecified() && member.address.port() != 0
    }

    /// Lets one donor go that is of no use now, if others wait that may be and there is no room.
    fn make_room(&self, choices: &[Choice], members: &Members) {
        let known = self.donors();
        let wanted = known.iter().filter(|donor| lock(donor).standing != Standing::Resting).count();
        let is_better = choices.iter().any(|choice| choice.member.offer.free_slabs > 0);
        if wanted < self.options.connections_max() || !is_better {
            return;
        }
        let has_none = |donor: &Donor| {
            let member = members.as_slice().iter().find(|member| donor.is_at(member.address));
            member.is_some_and(|member| member.offer.free_slabs == 0)
        };
        for donor in &known {
            let mut donor = lock(donor);
            let is_idle = donor.connection.as_ref().is_none_or(is_idle);
            if donor.standing != Standing::Chosen || !is_idle {
                continue;
            }
            if let Some(trouble) = donor.trouble.clone() {
                return donor.rest(&trouble);
            }
            if has_none(&donor) {
                return donor.rest("it has no free slab, and others have");
            }
        }
    }

    fn choose(&self, choice: Choice) {
        if let Some(known) = choice.known {
            return lock(&known).choose();
        }
        let mut donors = self.donors.write().unwrap_or_else(PoisonError::into_inner);
        if donors.len() < KNOWN_MAX {
            let (id, address) = (DonorId(donors.len() as u64), choice.member.address.to_string());
            donors.push(Arc::new(Mutex::new(Donor::new(id, &address, Standing::Chosen, &self.events))));
        }
    }
}

/// What follows for a donor from what others say of it: who is gone is not tried again, unless it is named.
fn settle(donor: &mut Donor, member: &Member) -> Standing {
    let is_connected = donor.connection.as_ref().is_some_and(|connection| connection.is_alive());
    if donor.standing == Standing::Chosen && !member.is_alive && !is_connected {
        donor.rest("other donors do not hear of it any more");
    }
    donor.standing
}

/// A random one of those that have free slabs and fail with no other that is connected to; else of those that have free slabs; else of all.
fn pick(choices: &[Choice], domains: &[&str]) -> Option<usize> {
    let worth = |choice: &Choice| {
        let domain = choice.member.domain.as_str();
        (choice.member.offer.free_slabs > 0, domain.is_empty() || !domains.contains(&domain))
    };
    let most = choices.iter().map(worth).max()?;
    let best: Vec<_> = (0..choices.len()).filter(|nth| worth(&choices[*nth]) == most).collect();
    Some(best[any(best.len())])
}

fn is_idle(connection: &Arc<Connection>) -> bool {
    connection.slabs() == 0
}

/// A random number below `end`.
fn any(end: usize) -> usize {
    (u64::from_le_bytes(random::bytes().unwrap_or_default()) % end as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::Offer;

    fn picked(members: &[(&str, u64)], domains: &[&str]) -> Vec<usize> {
        let member = |(domain, free_slabs): &(&str, u64)| Member {
            address: ([127, 0, 0, 1], 1).into(),
            domain: (*domain).into(),
            offer: Offer { free_slabs: *free_slabs, slabs: 9 },
            is_alive: true,
            version: VERSION,
        };
        let members: Vec<_> = members.iter().map(member).collect();
        let choices: Vec<_> = members.iter().map(|member| Choice { member, known: None }).collect();
        let all: std::collections::BTreeSet<_> = (0..200).filter_map(|_| pick(&choices, domains)).collect();
        all.into_iter().collect()
    }

    #[test]
    fn free_slabs_come_first_and_then_other_domains() {
        assert!(picked(&[], &[]).is_empty());
        assert_eq!(picked(&[("a", 1), ("b", 0), ("b", 2)], &["a"]), [2]);
        assert_eq!(picked(&[("a", 1), ("b", 0), ("a", 2)], &["a"]), [0, 2]);
        assert_eq!(picked(&[("", 1), ("", 1), ("a", 1)], &["", "a"]), [0, 1]);
        assert_eq!(picked(&[("a", 0), ("b", 0)], &["a"]), [1]);
    }
}
