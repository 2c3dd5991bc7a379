//! Replies of Redis (RESP 2), parsed from bytes that may be incomplete or wrong, as in [`super::protocol`].

use std::ops::Range;

use super::protocol::{LINE_END, Malformed, Parsed, Stored, VALUE_BYTES_MAX, line, unexpected};

/// The reply to a `GET`: where its value is in `bytes`, or none on a miss.
///
/// # Errors
/// [`Malformed`].
pub fn get(bytes: &[u8]) -> Parsed<Option<Range<usize>>> {
    let Some((line, start)) = line(bytes)? else { return Ok(None) };
    if line == b"$-1" {
        return Ok(Some((None, start)));
    }
    let digits = line.strip_prefix(b"$").and_then(|digits| std::str::from_utf8(digits).ok());
    let length = digits.and_then(|digits| digits.parse::<u64>().ok()).ok_or_else(|| unexpected(line))?;
    if length > VALUE_BYTES_MAX as u64 {
        return Err(Malformed::LongValue(length));
    }
    let end = start + length as usize;
    let arrived = bytes.get(end..).unwrap_or_default();
    let arrived = &arrived[..arrived.len().min(LINE_END.len())];
    if !LINE_END.starts_with(arrived) {
        return Err(Malformed::Unterminated);
    }
    Ok((arrived.len() == LINE_END.len()).then(|| (Some(start..end), end + LINE_END.len())))
}

/// The reply to a `SET`.
///
/// # Errors
/// [`Malformed`].
pub fn set(bytes: &[u8]) -> Parsed<Stored> {
    let Some((line, used)) = line(bytes)? else { return Ok(None) };
    match line {
        b"+OK" => Ok(Some((Stored::Stored, used))),
        _ if line.starts_with(b"-OOM") => Ok(Some((Stored::Refused, used))),
        _ => Err(unexpected(line)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HIT: &[u8] = b"$5\r\na\r\nbc\r\n";

    #[test]
    fn replies_are_told_apart() {
        assert_eq!(get(HIT), Ok(Some((Some(4..9), HIT.len()))));
        assert_eq!(get(b"$-1\r\n"), Ok(Some((None, 5))));
        assert_eq!(set(b"+OK\r\nmore"), Ok(Some((Stored::Stored, 5))));
        assert_eq!(
            set(b"-OOM command not allowed\r\n").map(|reply| reply.map(|(reply, _)| reply)),
            Ok(Some(Stored::Refused))
        );
    }

    #[test]
    fn every_beginning_waits_and_nonsense_is_refused() {
        for length in 0..HIT.len() {
            assert_eq!(get(&HIT[..length]), Ok(None), "{length} bytes");
        }
        for wrong in [&b"-ERR\r\n"[..], b"$x\r\n", b"$1\r\nabc", b"$99999999\r\n", b":1\r\n"] {
            assert!(get(wrong).is_err() && set(wrong).is_err(), "{}", wrong.escape_ascii());
        }
    }
}
