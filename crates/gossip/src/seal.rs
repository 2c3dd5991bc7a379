//! Datagrams that only hosts of the cluster can read and make, and that mean nothing when they are old.
//!
//! ```text
//! sealed:  salt (16) | number (8) | AES-256-GCM of: sent (8) message, with its tag (16)
//! bare:    sent (8) | message                                               between processes of one machine
//! ```
//! Numbers are little-endian; `sent` is the sender's clock in milliseconds since 1970. Every sender draws a salt when it begins, and seals with a key that HKDF-SHA256
//! makes of the cluster's key and the salt; its nonce is the number of the datagram. So no nonce is used twice with one key, however many hosts share it.

use std::io;
use std::time::{Duration, SystemTime};

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, Salt};
use ring::rand::{SecureRandom, SystemRandom};

/// Longest datagram: with its headers, even those of IPv6, it fits into a frame of Ethernet (RFC 8085, 3.2).
pub const DATAGRAM_BYTES_MAX: usize = 1400;
/// How far the sender's clock may be from ours. An older datagram may be a replay. A younger replay says what is known already: the life of a donor that is gone,
/// or that objected to a suspicion, does not come back, and an answer is good for one question ([`crate::node`]).
pub const AGE_MAX: Duration = Duration::from_secs(30);

const SALT_BYTES: usize = 16;
const HEAD_BYTES: usize = SALT_BYTES + 8;
const SENT_BYTES: usize = 8;
const TAG_BYTES: usize = 16;
/// Longest message that a datagram holds.
pub const MESSAGE_BYTES_MAX: usize = DATAGRAM_BYTES_MAX - HEAD_BYTES - SENT_BYTES - TAG_BYTES;
/// What the derived keys are for.
const PURPOSE: &[u8] = b"aquifer gossip 1";

/// Why a datagram is dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// Longer than any that is sent.
    Oversize,
    /// Not sealed with the cluster's key, or changed on the way.
    Unopened,
    /// It says nothing.
    Malformed,
    /// The sender's clock is this many seconds ahead of ours; negative if it is behind.
    Stale(i64),
}

/// Seals what is sent and opens what comes.
pub struct Seal {
    /// None between processes of one machine.
    keys: Option<Keys>,
}

struct Keys {
    cluster: [u8; 32],
    own: LessSafeKey,
    salt: [u8; SALT_BYTES],
    /// Datagrams sealed so far.
    sealed: u64,
}

impl Seal {
    /// With the cluster's key, or bare without one.
    ///
    /// # Errors
    /// The kernel gives no random bytes.
    pub fn new(cluster: Option<[u8; 32]>) -> io::Result<Seal> {
        let keys = cluster.map(|cluster| {
            let mut salt = [0; SALT_BYTES];
            let drawn = SystemRandom::new().fill(&mut salt);
            drawn.map_err(|_| io::Error::other("the system gives no random bytes"))?;
            Ok::<_, io::Error>(Keys { cluster, own: derive(&cluster, &salt), salt, sealed: 0 })
        });
        Ok(Seal { keys: keys.transpose()? })
    }

    /// The datagram for a message that is sent at a moment since 1970.
    pub fn seal(&mut self, message: &[u8], now: Duration) -> Vec<u8> {
        let sent = now.as_millis() as u64;
        let Some(keys) = &mut self.keys else { return [&sent.to_le_bytes(), message].concat() };
        let number = keys.sealed;
        keys.sealed += 1;
        let mut inner = [&sent.to_le_bytes(), message].concat();
        let sealed = keys.own.seal_in_place_append_tag(nonce(number), Aad::empty(), &mut inner);
        sealed.expect("a datagram is shorter than what the cipher allows");
        [&keys.salt[..], &number.to_le_bytes(), &inner].concat()
    }

    /// The message in a datagram that came at a moment since 1970.
    ///
    /// # Errors
    /// Why it is dropped; the datagram may have been changed then.
    pub fn open<'a>(&self, datagram: &'a mut [u8], now: Duration) -> Result<&'a [u8], Refused> {
        if datagram.len() > DATAGRAM_BYTES_MAX {
            return Err(Refused::Oversize);
        }
        let inner = match &self.keys {
            None => datagram,
            Some(keys) => keys.open(datagram)?,
        };
        let (sent, message) = inner.split_first_chunk::<SENT_BYTES>().ok_or(Refused::Malformed)?;
        let ahead_ms = i128::from(u64::from_le_bytes(*sent)) - now.as_millis() as i128;
        if ahead_ms.unsigned_abs() > AGE_MAX.as_millis() {
            return Err(Refused::Stale((ahead_ms / 1000) as i64));
        }
        Ok(message)
    }
}

impl Keys {
    fn open<'a>(&self, datagram: &'a mut [u8]) -> Result<&'a mut [u8], Refused> {
        if datagram.len() < HEAD_BYTES + SENT_BYTES + TAG_BYTES {
            return Err(Refused::Unopened);
        }
        let (head, sealed) = datagram.split_at_mut(HEAD_BYTES);
        let (salt, number) = head.split_at(SALT_BYTES);
        let number = u64::from_le_bytes(number.try_into().expect("eight bytes"));
        let key = derive(&self.cluster, salt);
        key.open_in_place(nonce(number), Aad::empty(), sealed).map_err(|_| Refused::Unopened)
    }
}

/// The key of the sender that drew this salt.
fn derive(cluster: &[u8; 32], salt: &[u8]) -> LessSafeKey {
    let extracted = Salt::new(HKDF_SHA256, salt).extract(cluster);
    let expanded = extracted.expand(&[PURPOSE], &AES_256_GCM).expect("a key is shorter than what HKDF gives");
    LessSafeKey::new(UnboundKey::from(expanded))
}

fn nonce(number: u64) -> Nonce {
    let mut bytes = [0; 12];
    bytes[4..].copy_from_slice(&number.to_le_bytes());
    Nonce::assume_unique_for_key(bytes)
}

/// Time since 1970 by this machine's clock.
pub(crate) fn now() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(1_000_000);

    fn seals(first: Option<[u8; 32]>, second: Option<[u8; 32]>) -> [Seal; 2] {
        [first, second].map(|key| Seal::new(key).expect("random"))
    }

    #[test]
    fn who_has_the_key_opens() {
        for key in [None, Some([7; 32])] {
            let [mut alpha, beta] = seals(key, key);
            for message in [&b""[..], b"x", &[0; MESSAGE_BYTES_MAX]] {
                let mut datagram = alpha.seal(message, NOW);
                assert_eq!(beta.open(&mut datagram, NOW), Ok(message));
            }
        }
    }

    #[test]
    fn no_two_datagrams_are_alike() {
        let [mut alpha, mut again] = seals(Some([7; 32]), Some([7; 32]));
        let mut all: Vec<_> = (0..10).flat_map(|_| [alpha.seal(b"x", NOW), again.seal(b"x", NOW)]).collect();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 20);
        assert!(
            all.iter().all(|datagram| !datagram
                .windows(8)
                .any(|part| part == &1_000_000_000_u64.to_le_bytes()[..]))
        );
    }

    #[test]
    fn nobody_else_opens() {
        let [mut alpha, stranger] = seals(Some([7; 32]), Some([8; 32]));
        let datagram = alpha.seal(b"hello", NOW);
        assert_eq!(stranger.open(&mut datagram.clone(), NOW), Err(Refused::Unopened));
        let bare = Seal::new(None).expect("no random").seal(b"hello, and enough of it to be long", NOW);
        assert_eq!(stranger.open(&mut bare.clone(), NOW), Err(Refused::Unopened));
    }

    #[test]
    fn every_changed_bit_is_noticed() {
        let [mut alpha, beta] = seals(Some([7; 32]), Some([7; 32]));
        let datagram = alpha.seal(b"hello", NOW);
        for bit in 0..datagram.len() * 8 {
            let mut changed = datagram.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(beta.open(&mut changed, NOW), Err(Refused::Unopened), "bit {bit}");
        }
        for len in 0..datagram.len() {
            assert_eq!(beta.open(&mut datagram[..len].to_vec(), NOW), Err(Refused::Unopened), "{len} bytes");
        }
    }

    #[test]
    fn what_is_old_or_too_long_is_dropped() {
        for key in [None, Some([7; 32])] {
            let [mut alpha, beta] = seals(key, key);
            let datagram = alpha.seal(b"hello", NOW);
            let at = |now| beta.open(&mut datagram.clone(), now).map(<[u8]>::to_vec);
            assert!(at(NOW + AGE_MAX).is_ok() && at(NOW - AGE_MAX).is_ok());
            assert_eq!(at(NOW + 2 * AGE_MAX), Err(Refused::Stale(-60)));
            assert_eq!(at(NOW - 2 * AGE_MAX), Err(Refused::Stale(60)));
            let mut long = alpha.seal(&[0; DATAGRAM_BYTES_MAX], NOW);
            assert_eq!(beta.open(&mut long, NOW), Err(Refused::Oversize));
            let mut never = alpha.seal(b"", Duration::from_millis(u64::MAX));
            assert!(matches!(beta.open(&mut never, NOW), Err(Refused::Stale(ahead)) if ahead > 0));
        }
    }
}
