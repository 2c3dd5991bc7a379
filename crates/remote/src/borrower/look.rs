//! What donors say to somebody who does not borrow.

use super::connection::{ConnectError, open, stranger};
use super::options::BorrowerOptions;
use crate::control::{
    Answer, Borrowing, Call, Channel, ChannelError, MEMBERS_BYTES_MAX, Members, Offer, Role, Stream, Welcome,
};

/// What a donor has.
///
/// # Errors
/// [`ConnectError`].
pub fn look(address: &str, options: &BorrowerOptions) -> Result<(Welcome, Offer), ConnectError> {
    let (mut channel, welcome) = come(address, options)?;
    match ask(address, &mut channel, &Call::Ask)? {
        Answer::Offer(offer) => Ok((welcome, offer)),
        answer => Err(nonsense(address, &answer)),
    }
}

/// Which donors a donor knows, itself among them.
///
/// # Errors
/// [`ConnectError`].
pub fn members(address: &str, options: &BorrowerOptions) -> Result<Members, ConnectError> {
    let (mut channel, _) = come(address, options)?;
    match ask(address, &mut channel, &Call::Members)? {
        Answer::Members(members) => Ok(members),
        answer => Err(nonsense(address, &answer)),
    }
}

/// What borrowers have of a donor.
///
/// # Errors
/// [`ConnectError`].
pub fn borrowings(address: &str, options: &BorrowerOptions) -> Result<Vec<Borrowing>, ConnectError> {
    let (mut channel, _) = come(address, options)?;
    match ask(address, &mut channel, &Call::Borrowings)? {
        Answer::Borrowings(borrowings) => Ok(borrowings),
        answer => Err(nonsense(address, &answer)),
    }
}

fn come(address: &str, options: &BorrowerOptions) -> Result<(Channel<Stream>, Welcome), ConnectError> {
    let (channel, welcome) = open(address, options, Role::Look)?;
    let welcome = welcome.ok_or_else(|| stranger(address, ChannelError::Malformed("no welcome".into())))?;
    Ok((channel, welcome))
}

fn ask(address: &str, channel: &mut Channel<Stream>, call: &Call) -> Result<Answer, ConnectError> {
    let answer = channel.send(call).and_then(|()| channel.receive_within(MEMBERS_BYTES_MAX));
    answer.map_err(|reason| stranger(address, reason))
}

fn nonsense(address: &str, answer: &Answer) -> ConnectError {
    let shown: String = format!("{answer:?}").chars().take(100).collect();
    stranger(address, ChannelError::Malformed(shown))
}
