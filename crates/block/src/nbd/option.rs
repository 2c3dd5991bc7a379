//! One option's data, and the replies to options.

use super::export::{Export, NAME_BYTES_MAX};
use super::wire::{OPTION_REPLY_MAGIC, info, option_reply, u16_at, u32_at};

/// What a client wants to know about an export: the data of `INFO` and `GO`.
#[derive(PartialEq, Eq, Debug)]
pub struct Question<'a> {
    /// Which export.
    pub name: &'a [u8],
    /// Whether it wants to be told the name.
    pub wants_name: bool,
}

impl<'a> Question<'a> {
    /// Takes the data of an option apart; `None` if they are not what they should be to the byte.
    pub fn parse(data: &'a [u8]) -> Option<Self> {
        let (len, rest) = data.split_first_chunk::<4>()?;
        let len = usize::try_from(u32::from_be_bytes(*len)).ok()?;
        if len > NAME_BYTES_MAX || rest.len() < len + 2 {
            return None;
        }
        let (name, rest) = rest.split_at(len);
        let (count, wishes) = rest.split_at(2);
        if wishes.len() != usize::from(u16_at(count, 0)) * 2 {
            return None;
        }
        let wants_name = wishes.chunks_exact(2).any(|wish| u16_at(wish, 0) == info::NAME);
        Some(Question { name, wants_name })
    }
}

/// The head of an option.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OptionHead {
    /// Which.
    pub option: u32,
    /// Bytes of data that follow.
    pub len_bytes: u32,
}

impl OptionHead {
    /// Bytes of a head: magic, option, length.
    pub const BYTES: usize = 16;

    /// Takes option and length from a head whose magic was looked at.
    pub fn parse(head: &[u8]) -> Self {
        OptionHead { option: u32_at(head, 8), len_bytes: u32_at(head, 12) }
    }
}

/// Appends one reply to `option`.
pub fn reply(out: &mut Vec<u8>, option: u32, kind: u32, data: &[&[u8]]) {
    // Every reply is short: a name and a few numbers.
    let len_bytes: usize = data.iter().map(|part| part.len()).sum();
    out.extend_from_slice(&OPTION_REPLY_MAGIC.to_be_bytes());
    out.extend_from_slice(&option.to_be_bytes());
    out.extend_from_slice(&kind.to_be_bytes());
    out.extend_from_slice(&(len_bytes as u32).to_be_bytes());
    for part in data {
        out.extend_from_slice(part);
    }
}

/// Appends a refusal with a sentence that clients show to people.
pub fn refuse(out: &mut Vec<u8>, option: u32, kind: u32, sentence: &str) {
    reply(out, option, kind, &[sentence.as_bytes()]);
}

/// Appends what there is to know about `export`. Its block sizes are told whether they were asked for or not: clients of kernels forget to ask.
pub fn describe(out: &mut Vec<u8>, option: u32, export: &Export, wants_name: bool) {
    let (size, flags) = (export.size_bytes.to_be_bytes(), export.flags().to_be_bytes());
    reply(out, option, option_reply::INFO, &[&info::EXPORT.to_be_bytes(), &size, &flags]);
    let sizes = export.block_sizes();
    let numbers = [sizes.least, sizes.preferred, sizes.most].map(u32::to_be_bytes);
    let kind = info::BLOCK_SIZE.to_be_bytes();
    reply(out, option, option_reply::INFO, &[&kind, numbers.as_flattened()]);
    if wants_name {
        let name = export.name.as_bytes();
        reply(out, option, option_reply::INFO, &[&info::NAME.to_be_bytes(), name]);
    }
    reply(out, option, option_reply::ACK, &[]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_question_is_whole_or_none() {
        let data = [0, 0, 0, 2, b'a', b'b', 0, 2, 0, 3, 0, 1];
        assert_eq!(Question::parse(&data), Some(Question { name: b"ab", wants_name: true }));
        for end in 0..data.len() {
            assert_eq!(Question::parse(&data[..end]), None, "{end} bytes");
        }
        assert_eq!(Question::parse(&[&data[..], &[0]].concat()), None);
        assert_eq!(Question::parse(&[0xff; 12]), None);
        let without = Question::parse(&[0; 6]).expect("an empty name and no wish");
        assert_eq!(without, Question { name: b"", wants_name: false });
    }

    #[test]
    fn a_name_has_a_limit() {
        let question = |len: usize| {
            let mut data = (len as u32).to_be_bytes().to_vec();
            data.resize(4 + len, b'x');
            data.extend_from_slice(&[0, 0]);
            Question::parse(&data).is_some()
        };
        assert!(question(NAME_BYTES_MAX));
        assert!(!question(NAME_BYTES_MAX + 1));
    }

    #[test]
    fn replies_have_their_length() {
        let mut out = Vec::new();
        refuse(&mut out, 8, option_reply::ERR_UNSUP, "no");
        assert_eq!(out[..8], OPTION_REPLY_MAGIC.to_be_bytes());
        assert_eq!(out[8..], [0, 0, 0, 8, 0x80, 0, 0, 1, 0, 0, 0, 2, b'n', b'o']);
    }

    proptest! {
        #[test]
        fn garbage_is_no_question_that_lies(data in prop::collection::vec(any::<u8>(), 0..64)) {
            if let Some(question) = Question::parse(&data) {
                prop_assert!(question.name.len() + 6 <= data.len());
            }
        }
    }
}
