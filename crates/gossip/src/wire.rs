//! Donors, and what they tell, as bytes.
//!
//! ```text
//! place:   4 or 6 (1) | IP address (4 or 16) | port (2) | began (8)
//! told:    number | free slabs | slabs            variable lengths (LEB128)
//! donor:   place | address: 0 and its port (2), or 4 or 6, IP address, port | length of domain (1) | domain | version | told
//! header:  donor: the sender | incarnation (2) | place: the receiver | kind (1) | of that kind
//! member:  donor | incarnation (2) | state (1)
//! offer:   place | told
//! ```
//! Numbers of fixed length are little-endian. Address 0 is the IP address of the place.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use aquifer_remote::control::Offer;
use bytes::{Buf, BufMut};
use foca::{Codec, Header, Member, Message, State};

use crate::book::{Shelf, lock};
use crate::id::{About, Id, plain};

/// Why bytes say nothing, or say too much.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum WireError {
    /// They make no sense.
    #[error("no gossip")]
    Malformed,
    /// There is no room for them.
    #[error("no room in a datagram")]
    Full,
}

type Result<T> = std::result::Result<T, WireError>;

/// What a donor told of its slabs: of two, the one with the higher `number` is later.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Told {
    /// How often it has told before, in all of its lives.
    pub number: u64,
    /// What it had.
    pub offer: Offer,
}

/// A donor in a message, with what it told last as far as the sender knows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// As the failure detector sees it.
    pub member: Member<Id>,
    /// The donor's own words.
    pub told: Told,
}

/// Reads and writes for `foca`.
pub struct Wire {
    own: SocketAddr,
    book: Shelf,
}

impl Wire {
    pub(crate) fn new(own: SocketAddr, book: Shelf) -> Wire {
        Wire { own, book }
    }

    fn told(&self, id: &Id) -> Result<Told> {
        lock(&self.book).told(id).ok_or(WireError::Malformed)
    }
}

impl Codec<Id> for Wire {
    type Error = WireError;

    fn encode_header(&mut self, header: &Header<Id>, buf: impl BufMut) -> Result<()> {
        let told = self.told(&header.src)?;
        let mut bytes = Vec::with_capacity(128);
        put_header(&mut bytes, header, told)?;
        put_all(&bytes, buf)
    }

    fn decode_header(&mut self, mut buf: impl Buf) -> Result<Header<Id>> {
        let (mut header, _) = header(&mut buf)?;
        // A donor that asks who is here means this one, by whatever name.
        if header.message == Message::Announce && header.dst.began == 0 {
            header.dst.at = self.own;
        }
        Ok(header)
    }

    fn encode_member(&mut self, member: &Member<Id>, buf: impl BufMut) -> Result<()> {
        let told = self.told(member.id())?;
        let mut bytes = Vec::with_capacity(64);
        put_member(&mut bytes, &Entry { member: member.clone(), told })?;
        put_all(&bytes, buf)
    }

    fn decode_member(&mut self, mut buf: impl Buf) -> Result<Member<Id>> {
        member(&mut buf).map(|entry| entry.member)
    }
}

fn put_all(bytes: &[u8], mut buf: impl BufMut) -> Result<()> {
    if buf.remaining_mut() < bytes.len() {
        return Err(WireError::Full);
    }
    buf.put_slice(bytes);
    Ok(())
}

/// Writes a header whose sender tells `told`.
pub(crate) fn put_header(bytes: &mut Vec<u8>, header: &Header<Id>, told: Told) -> Result<()> {
    put_donor(bytes, &header.src, told)?;
    bytes.put_u16_le(header.src_incarnation);
    put_place(bytes, &header.dst);
    let (kind, number, other) = match &header.message {
        Message::Ping(number) => (0, Some(*number), None),
        Message::Ack(number) => (1, Some(*number), None),
        Message::PingReq { target, probe_number } => (2, Some(*probe_number), Some(target)),
        Message::IndirectPing { origin, probe_number } => (3, Some(*probe_number), Some(origin)),
        Message::IndirectAck { target, probe_number } => (4, Some(*probe_number), Some(target)),
        Message::ForwardedAck { origin, probe_number } => (5, Some(*probe_number), Some(origin)),
        Message::Announce => (6, None, None),
        Message::Feed => (7, None, None),
        Message::Gossip => (8, None, None),
        Message::Broadcast => (9, None, None),
        Message::TurnUndead => (10, None, None),
    };
    bytes.put_u8(kind);
    bytes.extend(number);
    if let Some(other) = other {
        put_place(bytes, other);
    }
    Ok(())
}

/// Reads a header, and what the sender tells of itself.
pub(crate) fn header(buf: &mut impl Buf) -> Result<(Header<Id>, Told)> {
    let (src, told) = donor(buf)?;
    let src_incarnation = short(buf)?;
    let dst = place(buf)?;
    let kind = byte(buf)?;
    let message = match kind {
        0 => Message::Ping(byte(buf)?),
        1 => Message::Ack(byte(buf)?),
        2..=5 => {
            let (probe_number, other) = (byte(buf)?, place(buf)?);
            match kind {
                2 => Message::PingReq { target: other, probe_number },
                3 => Message::IndirectPing { origin: other, probe_number },
                4 => Message::IndirectAck { target: other, probe_number },
                _ => Message::ForwardedAck { origin: other, probe_number },
            }
        }
        6 => Message::Announce,
        7 => Message::Feed,
        8 => Message::Gossip,
        9 => Message::Broadcast,
        10 => Message::TurnUndead,
        _ => return Err(WireError::Malformed),
    };
    Ok((Header { src, src_incarnation, dst, message }, told))
}

pub(crate) fn put_member(bytes: &mut Vec<u8>, entry: &Entry) -> Result<()> {
    put_donor(bytes, entry.member.id(), entry.told)?;
    bytes.put_u16_le(entry.member.incarnation());
    bytes.put_u8(match entry.member.state() {
        State::Alive => 0,
        State::Suspect => 1,
        State::Down => 2,
    });
    Ok(())
}

pub(crate) fn member(buf: &mut impl Buf) -> Result<Entry> {
    let (id, told) = donor(buf)?;
    let incarnation = short(buf)?;
    let state = match byte(buf)? {
        0 => State::Alive,
        1 => State::Suspect,
        2 => State::Down,
        _ => return Err(WireError::Malformed),
    };
    Ok(Entry { member: Member::new(id, incarnation, state), told })
}

/// The bytes of an offer that goes around by itself.
pub(crate) fn offer_bytes(id: &Id, told: Told) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(32);
    put_place(&mut bytes, id);
    put_told(&mut bytes, told);
    bytes
}

/// An offer that goes around by itself, with nothing after it.
pub(crate) fn offer(mut bytes: &[u8]) -> Result<(Id, Told)> {
    let read = (place(&mut bytes)?, told(&mut bytes)?);
    if bytes.is_empty() { Ok(read) } else { Err(WireError::Malformed) }
}

fn put_donor(bytes: &mut Vec<u8>, id: &Id, told: Told) -> Result<()> {
    let about = id.about.as_ref().filter(|about| about.is_sound()).ok_or(WireError::Malformed)?;
    put_place(bytes, id);
    if about.address.ip() == id.at.ip() {
        bytes.put_u8(0);
    } else {
        put_ip(bytes, about.address.ip());
    }
    bytes.put_u16_le(about.address.port());
    bytes.put_u8(about.domain.len() as u8);
    bytes.extend(about.domain.bytes());
    put_number(bytes, about.version.into());
    put_told(bytes, told);
    Ok(())
}

fn donor(buf: &mut impl Buf) -> Result<(Id, Told)> {
    let id = place(buf)?;
    let ip = match byte(buf)? {
        0 => id.at.ip(),
        family => ip(family, buf)?,
    };
    let address = SocketAddr::new(ip, short(buf)?);
    let len = usize::from(byte(buf)?);
    if buf.remaining() < len {
        return Err(WireError::Malformed);
    }
    let domain = String::from_utf8(buf.copy_to_bytes(len).to_vec()).map_err(|_| WireError::Malformed)?;
    let version = u32::try_from(number(buf)?).map_err(|_| WireError::Malformed)?;
    let about = About { address, domain, version };
    let told = told(buf)?;
    if !about.is_sound() {
        return Err(WireError::Malformed);
    }
    Ok((Id { about: Some(Arc::new(about)), ..id }, told))
}

fn put_place(bytes: &mut Vec<u8>, id: &Id) {
    put_ip(bytes, id.at.ip());
    bytes.put_u16_le(id.at.port());
    bytes.put_u64_le(id.began);
}

fn place(buf: &mut impl Buf) -> Result<Id> {
    let family = byte(buf)?;
    let at = SocketAddr::new(ip(family, buf)?, short(buf)?);
    let began = buf.try_get_u64_le().map_err(|_| WireError::Malformed)?;
    Ok(Id { at: plain(at), began, about: None })
}

fn put_ip(bytes: &mut Vec<u8>, ip: IpAddr) {
    match ip {
        IpAddr::V4(ip) => {
            bytes.put_u8(4);
            bytes.extend(ip.octets());
        }
        IpAddr::V6(ip) => {
            bytes.put_u8(6);
            bytes.extend(ip.octets());
        }
    }
}

fn ip(family: u8, buf: &mut impl Buf) -> Result<IpAddr> {
    match family {
        4 => buf.try_get_u32().map(|bits| Ipv4Addr::from_bits(bits).into()),
        6 => buf.try_get_u128().map(|bits| Ipv6Addr::from_bits(bits).into()),
        _ => return Err(WireError::Malformed),
    }
    .map_err(|_| WireError::Malformed)
}

fn put_told(bytes: &mut Vec<u8>, told: Told) {
    for number in [told.number, told.offer.free_slabs, told.offer.slabs] {
        put_number(bytes, number);
    }
}

fn told(buf: &mut impl Buf) -> Result<Told> {
    let number_of = number(buf)?;
    let offer = Offer { free_slabs: number(buf)?, slabs: number(buf)? };
    if offer.free_slabs > offer.slabs {
        return Err(WireError::Malformed);
    }
    Ok(Told { number: number_of, offer })
}

fn put_number(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.put_u8(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.put_u8(number as u8);
}

fn number(buf: &mut impl Buf) -> Result<u64> {
    let mut number = 0;
    for shift in (0..u64::BITS).step_by(7) {
        let byte = byte(buf)?;
        let bits = u64::from(byte & 0x7F);
        number |= bits << shift;
        if bits << shift >> shift != bits {
            break;
        }
        if byte < 0x80 {
            return Ok(number);
        }
    }
    Err(WireError::Malformed)
}

fn byte(buf: &mut impl Buf) -> Result<u8> {
    buf.try_get_u8().map_err(|_| WireError::Malformed)
}

fn short(buf: &mut impl Buf) -> Result<u16> {
    buf.try_get_u16_le().map_err(|_| WireError::Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_any_length_are_read() {
        for wanted in [0, 1, 0x7F, 0x80, 0x3FFF, 0x4000, u64::from(u32::MAX), u64::MAX] {
            let mut bytes = Vec::new();
            put_number(&mut bytes, wanted);
            assert_eq!(number(&mut &bytes[..]), Ok(wanted));
            assert_eq!(number(&mut &bytes[..bytes.len() - 1]), Err(WireError::Malformed));
        }
        assert_eq!(number(&mut &[0xFF; 9][..]), Err(WireError::Malformed));
        assert_eq!(number(&mut &[[0xFF; 9].as_slice(), &[2]].concat()[..]), Err(WireError::Malformed));
    }
}
