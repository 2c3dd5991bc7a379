//! What the programs of one user may have of a server at once.
//!
//! | what | most for a user |
//! |---|---|
//! | open files | 32768, of a program 4096 |
//! | views | 8192, of a program 4096 |
//! | bytes of steps that append and are not whole yet | 16 MiB |
//! | files whose memory they have, each of which takes a descriptor | a quarter of the descriptors that the server may have; all users have half |

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use aquifer_sys::process::descriptors_max;

use super::server::lock;
use crate::error::{Result, VolumeError};
use crate::key::Ino;

/// What is counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Limited {
    /// Open files.
    Files = 0,
    /// Views.
    Views = 1,
    /// Bytes that are kept until the rest of their step comes.
    KeptBytes = 2,
}

/// Most of each for a user, and what was being done when there were no more.
const LIMITS: [(usize, &str); 3] = [
    (32 << 10, "opening a file, of which the programs of this user have as many open as a user may"),
    (8 << 10, "mapping a file, of which the programs of this user have as many mapped as a user may"),
    (
        16 << 20,
        "keeping the begin of a step that appends, of which the programs of this user have as much as a user may",
    ),
];

/// What all users have.
#[derive(Default)]
pub struct Quotas {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    users: HashMap<u32, [usize; 3]>,
    /// How often a user's programs have the memory of a file.
    memories: HashMap<(u32, Ino), usize>,
}

/// One user's.
#[derive(Clone)]
pub struct Quota {
    all: Arc<Quotas>,
    user: u32,
}

/// A part of a quota, given back when it is dropped.
pub struct Share {
    quota: Quota,
    of: Limited,
    count: usize,
}

/// The memory of one file as part of a quota, given back when it is dropped.
pub struct MemoryShare {
    quota: Quota,
    ino: Ino,
}

impl Quotas {
    /// Those of a user.
    pub fn of(self: &Arc<Self>, user: u32) -> Quota {
        Quota { all: Arc::clone(self), user }
    }
}

impl Quota {
    /// Takes `count` of something.
    ///
    /// # Errors
    /// `EDQUOT`, with what there is no more of.
    pub fn take(&self, of: Limited, count: usize) -> Result<Share> {
        let mut state = lock(&self.all.state);
        let (most, step) = LIMITS[of as usize];
        let counts = state.users.entry(self.user).or_default();
        if counts[of as usize] + count > most {
            return Err(VolumeError::System { step, errno: libc::EDQUOT });
        }
        counts[of as usize] += count;
        Ok(Share { quota: self.clone(), of, count })
    }

    /// Takes the memory of a file.
    ///
    /// # Errors
    /// `EDQUOT`, `ENFILE` if all users have too many.
    pub fn take_memory(&self, ino: Ino) -> Result<MemoryShare> {
        let most = descriptors_max().map_or(usize::MAX, |most| usize::try_from(most).unwrap_or(usize::MAX));
        let mut state = lock(&self.all.state);
        if !state.memories.contains_key(&(self.user, ino)) {
            let of_user = state.memories.keys().filter(|(user, _)| *user == self.user).count();
            if of_user >= most / 4 {
                let step = "mapping one more file: the programs of this user have the memory of as many as a user may";
                return Err(VolumeError::System { step, errno: libc::EDQUOT });
            }
            if state.memories.len() >= most / 2 {
                let step = "mapping one more file: programs have the memory of as many as the server may have descriptors for";
                return Err(VolumeError::System { step, errno: libc::ENFILE });
            }
        }
        *state.memories.entry((self.user, ino)).or_default() += 1;
        Ok(MemoryShare { quota: self.clone(), ino })
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut state = lock(&self.quota.all.state);
        let Some(counts) = state.users.get_mut(&self.quota.user) else { return };
        counts[self.of as usize] -= self.count;
        if *counts == [0; 3] {
            state.users.remove(&self.quota.user);
        }
    }
}

impl Drop for MemoryShare {
    fn drop(&mut self) {
        let mut state = lock(&self.quota.all.state);
        let key = (self.quota.user, self.ino);
        if let Some(count) = state.memories.get_mut(&key) {
            *count -= 1;
            if *count == 0 {
                state.memories.remove(&key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_back_can_be_taken_again_and_others_have_their_own() {
        let quotas = Arc::new(Quotas::default());
        let (one, other) = (quotas.of(1), quotas.of(2));
        let most = LIMITS[Limited::Views as usize].0;
        let taken = one.take(Limited::Views, most).expect("all");
        let refused = one.take(Limited::Views, 1).err().expect("no more");
        assert_eq!(refused.errno(), libc::EDQUOT);
        assert!(refused.to_string().contains("as many mapped as a user may"), "{refused}");
        drop((
            other.take(Limited::Views, 1).expect("another's"),
            one.take(Limited::Files, 1).expect("others"),
        ));
        drop(taken);
        drop(one.take(Limited::Views, most).expect("again"));
        assert!(lock(&quotas.state).users.is_empty());
    }

    #[test]
    fn a_file_counts_once_for_a_user() {
        let quotas = Arc::new(Quotas::default());
        let one = quotas.of(1);
        let twice = [one.take_memory(Ino(5)).expect("once"), one.take_memory(Ino(5)).expect("twice")];
        assert_eq!(lock(&quotas.state).memories.len(), 1);
        drop(twice);
        assert!(lock(&quotas.state).memories.is_empty());
    }
}
