//! Replies of memcached's text protocol, parsed from bytes that may be incomplete or wrong.
//!
//! The grammar is that of `doc/protocol.txt` in memcached's source. Every function takes what has
//! arrived so far and answers nothing until the reply is complete, so that a caller reads on.

use thiserror::Error;

/// Longest line that is accepted: no reply to our requests comes near.
pub const LINE_BYTES_MAX: usize = 2048;
/// Largest value that is accepted: memcached's own default limit of an item.
pub const VALUE_BYTES_MAX: usize = 1 << 20;
/// What ends a line, here and in the protocol of Redis.
pub const LINE_END: &[u8] = b"\r\n";

/// Why what arrived is no reply to the request.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum Malformed {
    /// The line is of another kind, or an error of the server.
    #[error("answered '{0}'")]
    Unexpected(String),
    /// No end of line within [`LINE_BYTES_MAX`].
    #[error("sent a line of more than {LINE_BYTES_MAX} bytes")]
    LongLine,
    /// A value longer than [`VALUE_BYTES_MAX`].
    #[error("announced a value of {0} bytes, at most {VALUE_BYTES_MAX} were ever set")]
    LongValue(u64),
    /// The bytes after a value are not the end of it.
    #[error("sent a value that is not as long as announced")]
    Unterminated,
    /// The value of another key than the one that was asked for.
    #[error("answered for key '{got}', '{expected}' was asked for")]
    OtherKey {
        /// What was asked for.
        expected: String,
        /// What came.
        got: String,
    },
}

/// A complete reply and how many bytes it took; none while bytes are missing.
pub type Parsed<T> = Result<Option<(T, usize)>, Malformed>;

/// The reply to a set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stored {
    /// It is there.
    Stored,
    /// The server had no memory for it, and dropped the value that it had.
    Refused,
}

/// The reply to a `get` of the one `key`: where its value is in `bytes`, or none on a miss.
///
/// # Errors
/// [`Malformed`].
pub fn get(bytes: &[u8], key: &[u8]) -> Parsed<Option<std::ops::Range<usize>>> {
    const MISS: &[u8] = b"END";
    let Some((line, start)) = line(bytes)? else { return Ok(None) };
    if line == MISS {
        return Ok(Some((None, start)));
    }
    let value_bytes = announced(line, key)?;
    let end = start + value_bytes;
    let tail = [LINE_END, MISS, LINE_END].concat();
    let arrived = bytes.get(end..).unwrap_or_default();
    let arrived = &arrived[..arrived.len().min(tail.len())];
    if !tail.starts_with(arrived) {
        return Err(Malformed::Unterminated);
    }
    Ok((arrived.len() == tail.len()).then(|| (Some(start..end), end + tail.len())))
}

/// The reply to a `set`.
///
/// # Errors
/// [`Malformed`].
pub fn set(bytes: &[u8]) -> Parsed<Stored> {
    let Some((line, used)) = line(bytes)? else { return Ok(None) };
    match line {
        b"STORED" => Ok(Some((Stored::Stored, used))),
        // Nothing could be evicted in favour of the value.
        b"SERVER_ERROR out of memory storing object" => Ok(Some((Stored::Refused, used))),
        _ => Err(unexpected(line)),
    }
}

/// One line of the reply to `stats`: name and value, or none at the end.
///
/// # Errors
/// [`Malformed`].
pub fn stat(bytes: &[u8]) -> Parsed<Option<(String, String)>> {
    let Some((line, used)) = line(bytes)? else { return Ok(None) };
    if line == b"END" {
        return Ok(Some((None, used)));
    }
    let text = std::str::from_utf8(line).ok().and_then(|text| text.strip_prefix("STAT "));
    let (name, value) = text.and_then(|text| text.split_once(' ')).ok_or_else(|| unexpected(line))?;
    Ok(Some((Some((name.to_owned(), value.to_owned())), used)))
}

/// The first line without its end, and where the next one begins.
///
/// # Errors
/// [`Malformed::LongLine`].
pub fn line(bytes: &[u8]) -> Parsed<&[u8]> {
    let searched = &bytes[..bytes.len().min(LINE_BYTES_MAX)];
    match searched.windows(LINE_END.len()).position(|pair| pair == LINE_END) {
        Some(end) => Ok(Some((&bytes[..end], end + LINE_END.len()))),
        None if searched.len() == LINE_BYTES_MAX => Err(Malformed::LongLine),
        None => Ok(None),
    }
}

/// The length of the value that `VALUE <key> <flags> <bytes>` announces.
fn announced(line: &[u8], key: &[u8]) -> Result<usize, Malformed> {
    let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
    let [b"VALUE", got, _flags, length] = words[..] else { return Err(unexpected(line)) };
    if got != key {
        return Err(Malformed::OtherKey { expected: readable(key), got: readable(got) });
    }
    let length = std::str::from_utf8(length).ok().and_then(|length| length.parse::<u64>().ok());
    let length = length.ok_or_else(|| unexpected(line))?;
    match usize::try_from(length) {
        Ok(length) if length <= VALUE_BYTES_MAX => Ok(length),
        _ => Err(Malformed::LongValue(length)),
    }
}

/// A line that is no answer.
pub fn unexpected(line: &[u8]) -> Malformed {
    Malformed::Unexpected(readable(line))
}

/// The beginning of `bytes` for a message.
fn readable(bytes: &[u8]) -> String {
    const SHOWN_BYTES_MAX: usize = 100;
    bytes[..bytes.len().min(SHOWN_BYTES_MAX)].escape_ascii().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HIT: &[u8] = b"VALUE k1 0 5\r\na\r\nbc\r\nEND\r\n";

    #[test]
    fn a_value_may_contain_line_ends() {
        let (place, used) = get(HIT, b"k1").expect("well formed").expect("complete");
        assert_eq!(&HIT[place.expect("a hit")], b"a\r\nbc");
        assert_eq!(used, HIT.len());
        let followed = [HIT, b"END\r\n"].concat();
        assert_eq!(get(&followed, b"k1").expect("well formed").expect("complete").1, HIT.len());
    }

    #[test]
    fn every_beginning_of_a_reply_waits_for_the_rest() {
        for length in 0..HIT.len() {
            assert_eq!(get(&HIT[..length], b"k1"), Ok(None), "{length} bytes");
        }
        for length in 0..b"STORED\r\n".len() {
            assert_eq!(set(&b"STORED\r\n"[..length]), Ok(None));
        }
        assert_eq!(stat(b"STAT pid 1"), Ok(None));
    }

    #[test]
    fn misses_and_answers_to_sets() {
        assert_eq!(get(b"END\r\n", b"k1"), Ok(Some((None, 5))));
        assert_eq!(set(b"STORED\r\nmore"), Ok(Some((Stored::Stored, 8))));
        let refused = b"SERVER_ERROR out of memory storing object\r\n";
        assert_eq!(set(refused), Ok(Some((Stored::Refused, refused.len()))));
    }

    #[test]
    fn counters_end() {
        let pair = Some(("pid".to_owned(), "17 4".to_owned()));
        assert_eq!(stat(b"STAT pid 17 4\r\n"), Ok(Some((pair, 15))));
        assert_eq!(stat(b"END\r\n"), Ok(Some((None, 5))));
        assert!(stat(b"STAT pid\r\n").is_err() && stat(b"STAT \xff x\r\n").is_err());
    }

    #[test]
    fn what_is_no_reply_is_refused() {
        let wrong: [&[u8]; 9] = [
            b"ERROR\r\n",
            b"\r\n",
            b"VALUE k1 0\r\n",
            b"VALUE k1 0 x\r\n",
            b"VALUE k1 0 -1\r\n",
            b"VALUE k1 0 5 6 7\r\n",
            b"VALUE k1 0 99999999999999999999999\r\n",
            b"VALUE  0 5\r\n",
            b"\0\xff\r\n",
        ];
        for reply in wrong {
            assert!(get(reply, b"k1").is_err(), "{}", reply.escape_ascii());
            assert!(set(reply).is_err(), "{}", reply.escape_ascii());
        }
        assert_eq!(set(b"SERVER_ERROR x\r\n"), Err(Malformed::Unexpected("SERVER_ERROR x".to_owned())));
    }

    #[test]
    fn a_value_of_another_key_or_length_is_refused() {
        assert!(matches!(get(HIT, b"k2"), Err(Malformed::OtherKey { .. })));
        assert_eq!(get(b"VALUE k1 0 4\r\na\r\nbc\r\nEND\r\n", b"k1"), Err(Malformed::Unterminated));
        assert_eq!(get(b"VALUE k1 0 5\r\na\r\nbc\r\nVALUE", b"k1"), Err(Malformed::Unterminated));
    }

    #[test]
    fn nothing_makes_us_read_for_ever() {
        assert_eq!(set(&[b'x'; LINE_BYTES_MAX]), Err(Malformed::LongLine));
        assert_eq!(set(&[b'x'; LINE_BYTES_MAX - 1]), Ok(None));
        assert_eq!(get(b"VALUE k1 0 1048577\r\n", b"k1"), Err(Malformed::LongValue(1_048_577)));
        assert_eq!(get(b"VALUE k1 0 1048576\r\n", b"k1"), Ok(None));
    }
}
