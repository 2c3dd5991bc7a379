//! A record that is looked for among bytes of the log.

use aquifer_log::record::{HEADER_BYTES, find_record, record_bytes, write_record};
use aquifer_log::{Kind, RecordId};

/// What comes before the bytes of the log: seed (4), kind (1), number (5).
const QUESTION_BYTES: usize = 10;

/// What is found is exactly what would be written for that record.
pub fn property(input: &[u8]) {
    let Some((question, bytes)) = input.split_at_checked(QUESTION_BYTES) else { return };
    let number = |bytes: &[u8]| bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
    let seed = number(&question[..4]) as u32;
    let kind = if question[4] & 1 == 0 { Kind::Page } else { Kind::Leaf };
    let id = RecordId { kind, number: number(&question[5..]) };
    let Some((start, payload_bytes)) = find_record(bytes, seed, id) else { return };
    let end = start + HEADER_BYTES + payload_bytes;
    let mut written = vec![0; record_bytes(payload_bytes)];
    write_record(&mut written, seed, id, &bytes[start + HEADER_BYTES..end]);
    assert_eq!(written[..end - start], bytes[start..end]);
}
