//! A block of the log that the cleaner takes apart.

use aquifer_base::LogAddress;
use aquifer_log::cleaner::parse_block;
use aquifer_log::record::{HEADER_BYTES, Header, MARKER_BYTES, find_record, parse_marker, record_bytes};

/// Where the block stands in the log.
const START: LogAddress = LogAddress(1 << 20);

/// Records follow one another from the start, each of them intact; a block that makes sense ends after the
/// last one. The first four bytes are the seed.
pub fn property(input: &[u8]) {
    let Some((seed, bytes)) = input.split_first_chunk() else { return };
    let seed = u32::from_le_bytes(*seed);
    let mut records = Vec::new();
    let makes_sense = parse_block(bytes, START, seed, &mut records);
    let (mut at, mut owner) = (0, None);
    let mut pass_markers = |at: &mut usize| {
        while bytes.len() >= *at + HEADER_BYTES
            && let Some(marked) = parse_marker(&bytes[*at..])
        {
            owner = Some(marked);
            *at += MARKER_BYTES;
        }
        owner
    };
    for record in &records {
        assert_eq!(pass_markers(&mut at), Some(record.id.owner()));
        assert_eq!(record.address, START.plus_bytes(at));
        assert_eq!(find_record(&bytes[at..], seed, record.id), Some((0, record.payload.len())));
        assert_eq!(&bytes[at + HEADER_BYTES..][..record.payload.len()], record.payload);
        at += record_bytes(record.payload.len());
    }
    let owner = pass_markers(&mut at);
    let rest = bytes.get(at..).unwrap_or_default();
    if makes_sense {
        assert!(rest.len() < HEADER_BYTES || rest[..HEADER_BYTES].iter().all(|&byte| byte == 0));
    } else {
        let next = Header::parse(rest);
        let is_intact = |owner| next.is_some_and(|header| header.verify(seed, owner, rest));
        assert!(!owner.is_some_and(is_intact), "an intact record was left out");
    }
}
