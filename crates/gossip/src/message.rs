//! Messages between donors as bytes.
//!
//! ```text
//! version (1) | header | count of members (2) and members | for each offer: its length (2) and itself
//! ```
//! The two lengths are big-endian, as `foca` writes them. Messages that ask who is there, or say that the receiver is gone, end after the header; [`crate::wire`] has the parts.

use bytes::{Buf, BufMut};
use foca::{Header, Message as Kind};

use crate::id::Id;
use crate::seal::MESSAGE_BYTES_MAX;
use crate::wire::{self, Entry, Told, WireError};

/// What the first byte of each message is. Messages of `chitchat`, which donors sent before, begin with 0x53.
pub const VERSION: u8 = 2;
/// Longest message of `foca`.
pub(crate) const PACKET_BYTES_MAX: usize = MESSAGE_BYTES_MAX - 1;

/// A message, read as far as there is something to read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Message {
    /// From whom, to whom, and why.
    pub header: Header<Id>,
    /// What the sender tells of its own slabs.
    pub told: Told,
    /// Donors that the sender tells of.
    pub members: Vec<Entry>,
    /// Offers that go around.
    pub offers: Vec<(Id, Told)>,
}

/// A message, if it is one and nothing else.
#[must_use]
pub fn parse(bytes: &[u8]) -> Option<Message> {
    let (version, mut bytes) = bytes.split_first()?;
    if *version != VERSION || bytes.len() > PACKET_BYTES_MAX {
        return None;
    }
    let (header, told) = wire::header(&mut bytes).ok()?;
    let mut message = Message { header, told, members: Vec::new(), offers: Vec::new() };
    if bytes.is_empty() {
        return Some(message);
    }
    if matches!(message.header.message, Kind::Announce | Kind::TurnUndead) {
        return None;
    }
    if message.header.message != Kind::Broadcast {
        for _ in 0..bytes.try_get_u16().ok()? {
            message.members.push(wire::member(&mut bytes).ok()?);
        }
    }
    while !bytes.is_empty() {
        let len = usize::from(bytes.try_get_u16().ok()?);
        let (offer, rest) = bytes.split_at_checked(len)?;
        message.offers.push(wire::offer(offer).ok()?);
        bytes = rest;
    }
    Some(message)
}

impl Message {
    /// Its bytes.
    ///
    /// # Errors
    /// A donor in it is not described, or there are more than a datagram holds.
    pub fn bytes(&self) -> Result<Vec<u8>, WireError> {
        let mut bytes = vec![VERSION];
        wire::put_header(&mut bytes, &self.header, self.told)?;
        let is_bare = matches!(self.header.message, Kind::Announce | Kind::TurnUndead);
        if !is_bare && self.header.message != Kind::Broadcast {
            bytes.put_u16(u16::try_from(self.members.len()).map_err(|_| WireError::Full)?);
            for entry in &self.members {
                wire::put_member(&mut bytes, entry)?;
            }
        }
        if !is_bare {
            for (id, told) in &self.offers {
                let offer = wire::offer_bytes(id, *told);
                bytes.put_u16(offer.len() as u16);
                bytes.extend(offer);
            }
        }
        if bytes.len() > MESSAGE_BYTES_MAX { Err(WireError::Full) } else { Ok(bytes) }
    }
}
