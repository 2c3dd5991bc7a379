//! Names of a folder, as they travel.
//!
//! ```text
//! inode u32 | kind u8 | length u8 | name
//! ```

use super::protocol::{PAYLOAD_BYTES_MAX, u32_at};
use crate::inode::Kind;
use crate::key::Ino;
use crate::names::Listed;

const HEAD_BYTES: usize = 6;

/// Adds a name; whether there was room for it.
pub fn push(entries: &mut Vec<u8>, listed: &Listed<'_>) -> bool {
    let Ok(len) = u8::try_from(listed.name.len()) else { return false };
    if entries.len() + HEAD_BYTES + listed.name.len() > PAYLOAD_BYTES_MAX {
        return false;
    }
    entries.extend_from_slice(&listed.ino.0.to_le_bytes());
    entries.extend_from_slice(&[listed.kind as u8, len]);
    entries.extend_from_slice(listed.name);
    true
}

/// Takes the first name off; `None` at the end, and for what makes no sense.
pub fn pop<'a>(entries: &mut &'a [u8]) -> Option<(&'a [u8], Ino, Kind)> {
    let (head, rest) = entries.split_at_checked(HEAD_BYTES)?;
    let (name, rest) = rest.split_at_checked(head[5].into())?;
    let kind = Kind::of_name(head[4])?;
    *entries = rest;
    Some((name, Ino(u32_at(head, 0)), kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_sent_and_end_when_there_is_no_room() {
        let (mut entries, mut count) = (Vec::new(), 0u32);
        let name = [b'n'; 255];
        while push(&mut entries, &Listed { name: &name, ino: Ino(count), kind: Kind::Folder, next: 0 }) {
            count += 1;
        }
        assert!(entries.len() <= PAYLOAD_BYTES_MAX && count > 200);
        let mut rest = &entries[..];
        for ino in 0..count {
            assert_eq!(pop(&mut rest), Some((&name[..], Ino(ino), Kind::Folder)));
        }
        assert_eq!(pop(&mut rest), None);
    }

    #[test]
    fn what_is_cut_off_is_no_name() {
        let mut entries = Vec::new();
        assert!(push(&mut entries, &Listed { name: b"abc", ino: Ino(1), kind: Kind::File, next: 0 }));
        for len in 0..entries.len() {
            assert_eq!(pop(&mut &entries[..len]), None);
        }
        entries[4] = 9;
        assert_eq!(pop(&mut &entries[..]), None);
    }
}
