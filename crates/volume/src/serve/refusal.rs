//! Errors on their way from the owner to a client.

use super::protocol::Answer;
use crate::error::VolumeError;

/// Errors without values, which are the same at both ends; an answer names them by their place, from 1.
static SAME: [VolumeError; 14] = [
    VolumeError::NotFound,
    VolumeError::Exists,
    VolumeError::NotAFolder,
    VolumeError::IsAFolder,
    VolumeError::NotEmpty,
    VolumeError::NameTooLong,
    VolumeError::BadName,
    VolumeError::PermissionDenied,
    VolumeError::NotOwner,
    VolumeError::TooLarge,
    VolumeError::TooManyLinks,
    VolumeError::TooManySymlinks,
    VolumeError::NoSpace,
    VolumeError::ReadOnly,
];

/// The answer that says `error`.
pub fn refusal(error: &VolumeError) -> Answer {
    let place = SAME.iter().position(|same| same == error);
    let errno = match error {
        // Not what a device says that failed.
        VolumeError::Damaged { .. } | VolumeError::Corrupt(_) => libc::EBADMSG,
        error => error.errno(),
    };
    Answer {
        errno: errno.unsigned_abs(),
        a: place.map_or(0, |place| place as u64 + 1),
        bytes: error.to_string().into_bytes(),
        ..Answer::default()
    }
}

/// The error that an answer says.
pub fn error_of(answer: &Answer) -> VolumeError {
    let same = usize::try_from(answer.a).ok().and_then(|place| SAME.get(place.checked_sub(1)?).cloned());
    same.unwrap_or_else(|| VolumeError::Remote {
        errno: answer.errno.cast_signed(),
        text: String::from_utf8_lossy(&answer.bytes).into_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_without_values_arrive_as_they_are() {
        for error in &SAME {
            assert_eq!(error_of(&refusal(error)), *error);
        }
    }

    #[test]
    fn others_arrive_with_their_text() {
        let error = error_of(&refusal(&VolumeError::Corrupt("a node".into())));
        let VolumeError::Remote { errno, text } = error else { panic!("{error:?}") };
        assert_eq!((errno, text.as_str()), (libc::EBADMSG, "the volume is damaged: a node"));
    }
}
