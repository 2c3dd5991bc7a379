//! Messages of `chitchat` as bytes.

use chitchat::{ChitchatMessage, Deserializable, Serializable};

/// A message, if it is one and nothing else.
#[must_use]
pub fn parse(mut bytes: &[u8]) -> Option<ChitchatMessage> {
    let message = ChitchatMessage::deserialize(&mut bytes).ok()?;
    bytes.is_empty().then_some(message)
}

/// Its bytes.
#[must_use]
pub fn bytes(message: &ChitchatMessage) -> Vec<u8> {
    message.serialize_to_vec()
}

/// How long the list of donors in a message is, if it has one.
pub(crate) fn digest_bytes(message: &ChitchatMessage) -> Option<usize> {
    match message {
        ChitchatMessage::Syn { digest, .. } | ChitchatMessage::SynAck { digest, .. } => {
            Some(digest.serialized_len())
        }
        _ => None,
    }
}
