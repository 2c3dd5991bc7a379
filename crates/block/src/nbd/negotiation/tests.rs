use super::*;
use crate::nbd::wire::{OPTION_REPLY_MAGIC, export_flag, info, u16_at};
use proptest::prelude::*;

fn export() -> Export {
    Export { name: "aquifer".into(), size_bytes: 1 << 30, block_bytes: 512 }
}

const BOTH: u32 = 3;
const FIXED: u32 = 1;

/// A negotiation that has the client's flags.
fn begun(export: &Export, flags: u32) -> Negotiation<'_> {
    let mut negotiation = Negotiation::new(export, false);
    let progress = negotiation.take(&flags.to_be_bytes(), &mut Vec::new()).unwrap();
    assert_eq!(progress, Progress::Continues);
    negotiation
}

fn head(option: u32, len_bytes: u32) -> Vec<u8> {
    [&OPTION_MAGIC.to_be_bytes()[..], &option.to_be_bytes(), &len_bytes.to_be_bytes()].concat()
}

/// Sends an option; its progress and the bytes of the answer.
fn send(negotiation: &mut Negotiation<'_>, option: u32, data: &[u8]) -> Result<(Progress, Vec<u8>), Ended> {
    let mut out = Vec::new();
    assert_eq!(negotiation.take(&head(option, data.len() as u32), &mut out)?, Progress::Continues);
    let progress = negotiation.take(data, &mut out)?;
    Ok((progress, out))
}

/// Kinds and data of the replies in an answer.
fn replies(mut out: &[u8], option: u32) -> Vec<(u32, Vec<u8>)> {
    let mut replies = Vec::new();
    while !out.is_empty() {
        assert_eq!(u64_at(out, 0), OPTION_REPLY_MAGIC);
        assert_eq!(u32_at(out, 8), option);
        let len = u32_at(out, 16) as usize;
        replies.push((u32_at(out, 12), out[20..20 + len].to_vec()));
        out = &out[20 + len..];
    }
    replies
}

fn question(name: &[u8], wishes: &[u16]) -> Vec<u8> {
    let mut data = (name.len() as u32).to_be_bytes().to_vec();
    data.extend_from_slice(name);
    data.extend_from_slice(&(wishes.len() as u16).to_be_bytes());
    data.extend(wishes.iter().flat_map(|wish| wish.to_be_bytes()));
    data
}

fn refused_as(out: &[u8], option: u32) -> u32 {
    let replies = replies(out, option);
    assert_eq!(replies.len(), 1);
    assert!(!replies[0].1.is_empty(), "a refusal has a sentence");
    replies[0].0
}

#[test]
fn the_greeting_is_that_of_fixed_newstyle() {
    assert_eq!(&Negotiation::greeting(), b"NBDMAGICIHAVEOPT\0\x03");
}

#[test]
fn export_name_begins_with_and_without_zeros() {
    let export = export();
    let (progress, out) = send(&mut begun(&export, BOTH), option::EXPORT_NAME, b"aquifer").unwrap();
    assert_eq!((progress, out.len()), (Progress::Transmits, 10));
    assert_eq!((u64_at(&out, 0), u16_at(&out, 8)), (1 << 30, export.flags()));
    let (_, padded) = send(&mut begun(&export, FIXED), option::EXPORT_NAME, b"").unwrap();
    assert_eq!(padded.len(), 134);
    assert_eq!(padded[..10], out[..]);
    assert!(padded[10..].iter().all(|&byte| byte == 0));
}

#[test]
fn export_name_of_another_ends_it() {
    let export = export();
    let ended = send(&mut begun(&export, BOTH), option::EXPORT_NAME, b"other").unwrap_err();
    assert!(matches!(&ended, Ended::UnknownExport(name) if name == "other"));
    assert!(ended.to_string().contains("LIST"));
}

#[test]
fn the_flags_say_what_is_there() {
    use export_flag::*;
    let expected = HAS_FLAGS | SEND_FLUSH | SEND_FUA | SEND_TRIM | SEND_WRITE_ZEROES | CAN_MULTI_CONN;
    assert_eq!(export().flags(), expected);
}

#[test]
fn go_tells_size_and_blocks_and_begins() {
    let export = export();
    let mut negotiation = begun(&export, BOTH);
    let (progress, out) = send(&mut negotiation, option::GO, &question(b"", &[info::NAME])).unwrap();
    assert_eq!(progress, Progress::Transmits);
    let replies = replies(&out, option::GO);
    let kinds: Vec<u32> = replies.iter().map(|reply| reply.0).collect();
    use option_reply::{ACK, INFO};
    assert_eq!(kinds, [INFO, INFO, INFO, ACK]);
    assert_eq!(replies[0].1[..2], info::EXPORT.to_be_bytes());
    assert_eq!(u64_at(&replies[0].1, 2), 1 << 30);
    assert_eq!(replies[1].1[..2], info::BLOCK_SIZE.to_be_bytes());
    let sizes = [2, 6, 10].map(|at| u32_at(&replies[1].1, at));
    assert_eq!(sizes, [512, 4096, 32 << 20]);
    assert_eq!(replies[2].1, [&info::NAME.to_be_bytes()[..], b"aquifer"].concat());
}

#[test]
fn info_tells_the_same_and_goes_on() {
    let export = export();
    let mut negotiation = begun(&export, BOTH);
    let (progress, out) = send(&mut negotiation, option::INFO, &question(b"aquifer", &[])).unwrap();
    assert_eq!(progress, Progress::Continues);
    assert_eq!(replies(&out, option::INFO).len(), 3);
    let (progress, _) = send(&mut negotiation, option::GO, &question(b"aquifer", &[])).unwrap();
    assert_eq!(progress, Progress::Transmits);
}

#[test]
fn questions_that_are_wrong_are_refused_and_others_answered() {
    let export = export();
    let mut negotiation = begun(&export, BOTH);
    for which in [option::INFO, option::GO] {
        let (progress, out) = send(&mut negotiation, which, b"?").unwrap();
        assert_eq!(progress, Progress::Continues);
        assert_eq!(refused_as(&out, which), option_reply::ERR_INVALID);
        let (progress, out) = send(&mut negotiation, which, &question(b"other", &[])).unwrap();
        assert_eq!(progress, Progress::Continues);
        assert_eq!(refused_as(&out, which), option_reply::ERR_UNKNOWN);
    }
    let (progress, _) = send(&mut negotiation, option::GO, &question(b"", &[])).unwrap();
    assert_eq!(progress, Progress::Transmits);
}

#[test]
fn list_names_the_export() {
    let export = export();
    let mut negotiation = begun(&export, BOTH);
    let (progress, out) = send(&mut negotiation, option::LIST, b"").unwrap();
    assert_eq!(progress, Progress::Continues);
    let replies = replies(&out, option::LIST);
    assert_eq!(replies[0], (option_reply::SERVER, b"\0\0\0\x07aquifer".to_vec()));
    assert_eq!(replies[1], (option_reply::ACK, vec![]));
    let (_, out) = send(&mut negotiation, option::LIST, b"x").unwrap();
    assert_eq!(refused_as(&out, option::LIST), option_reply::ERR_INVALID);
}

#[test]
fn abort_is_acknowledged() {
    let export = export();
    let (progress, out) = send(&mut begun(&export, BOTH), option::ABORT, b"").unwrap();
    assert_eq!(progress, Progress::Leaves);
    assert_eq!(replies(&out, option::ABORT), [(option_reply::ACK, vec![])]);
}

#[test]
fn structured_replies_and_other_options_are_refused() {
    let export = export();
    let mut negotiation = begun(&export, BOTH);
    for which in [0, 4, 5, 8, 9, 10, 11, 77, u32::MAX] {
        let (progress, out) = send(&mut negotiation, which, b"data").unwrap();
        assert_eq!(progress, Progress::Continues);
        assert_eq!(refused_as(&out, which), option_reply::ERR_UNSUP);
    }
}

#[test]
fn before_tls_nothing_is_told() {
    let export = export();
    let wanting = |flags: u32| {
        let mut negotiation = Negotiation::new(&export, true);
        negotiation.take(&flags.to_be_bytes(), &mut Vec::new()).unwrap();
        negotiation
    };
    let mut negotiation = wanting(BOTH);
    for which in [option::LIST, option::INFO, option::GO, 0, 8, 9, 10, u32::MAX] {
        let (progress, out) = send(&mut negotiation, which, &question(b"", &[])).unwrap();
        assert_eq!(progress, Progress::Continues);
        assert_eq!(refused_as(&out, which), option_reply::ERR_TLS_REQD);
        assert!(!out.windows(7).any(|bytes| bytes == b"aquifer"));
    }
    let (progress, out) = send(&mut negotiation, option::STARTTLS, b"x").unwrap();
    assert_eq!(progress, Progress::Continues);
    assert_eq!(refused_as(&out, option::STARTTLS), option_reply::ERR_INVALID);
    let (progress, out) = send(&mut negotiation, option::STARTTLS, b"").unwrap();
    assert_eq!(progress, Progress::Seals);
    assert_eq!(replies(&out, option::STARTTLS), [(option_reply::ACK, vec![])]);
    let (progress, out) = send(&mut negotiation, option::STARTTLS, b"").unwrap();
    assert_eq!(progress, Progress::Continues);
    assert_eq!(refused_as(&out, option::STARTTLS), option_reply::ERR_INVALID);
    let (progress, _) = send(&mut negotiation, option::GO, &question(b"", &[])).unwrap();
    assert_eq!(progress, Progress::Transmits);
    let ended = send(&mut wanting(BOTH), option::EXPORT_NAME, b"").unwrap_err();
    assert!(matches!(ended, Ended::NotSealed));
    let (progress, _) = send(&mut wanting(BOTH), option::ABORT, b"").unwrap();
    assert_eq!(progress, Progress::Leaves);
}

#[test]
fn who_is_no_client_is_told_so() {
    let export = export();
    let mut negotiation = Negotiation::new(&export, false);
    let ended = negotiation.take(b"GET ", &mut Vec::new()).unwrap_err();
    assert!(matches!(ended, Ended::UnknownFlags(_)));
    let ended = begun(&export, BOTH).take(&[b'x'; 16], &mut Vec::new()).unwrap_err();
    assert!(matches!(ended, Ended::NotAnOption(_)));
}

#[test]
fn the_first_newstyle_has_one_option() {
    let export = export();
    let ended = send(&mut begun(&export, 0), option::LIST, b"").unwrap_err();
    assert!(matches!(ended, Ended::NotFixed(option::LIST)));
    assert!(send(&mut begun(&export, 0), option::EXPORT_NAME, b"").is_ok());
}

#[test]
fn options_have_limits() {
    let export = export();
    let take = |len| begun(&export, BOTH).take(&head(option::GO, len), &mut Vec::new());
    assert!(take(OPTION_BYTES_MAX).is_ok());
    assert!(matches!(take(OPTION_BYTES_MAX + 1), Err(Ended::LongOption { .. })));
    assert!(matches!(take(u32::MAX), Err(Ended::LongOption { .. })));
    let mut negotiation = begun(&export, BOTH);
    for _ in 0..OPTIONS_MAX {
        send(&mut negotiation, option::LIST, b"").unwrap();
    }
    assert!(matches!(send(&mut negotiation, option::LIST, b""), Err(Ended::ManyOptions)));
}

proptest! {
    /// Whatever comes, nothing panics, no message is longer than the limit and no answer longer than is owed.
    #[test]
    fn garbage_is_answered_or_ended(
        flags in 0u32..4,
        wants_tls in any::<bool>(),
        options in prop::collection::vec((0u32..14, prop::collection::vec(any::<u8>(), 0..40)), 0..80),
        noise in prop::collection::vec(any::<u8>(), 16),
    ) {
        let export = export();
        let mut negotiation = Negotiation::new(&export, wants_tls);
        negotiation.take(&flags.to_be_bytes(), &mut Vec::new()).unwrap();
        for (option, data) in &options {
            match send(&mut negotiation, *option, data) {
                Ok((Progress::Continues | Progress::Seals, out)) => prop_assert!(!out.is_empty() && out.len() < 500),
                Ok(_) | Err(_) => return Ok(()),
            }
        }
        prop_assert!(negotiation.take(&noise, &mut Vec::new()).is_err());
    }
}
