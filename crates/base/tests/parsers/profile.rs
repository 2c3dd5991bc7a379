//! Settings for a device, which people edit.

use aquifer_base::profile::{Profile, Setting};

/// A profile that parses has only allowed values, and parses to itself when it is written. An invalid profile
/// is refused at one of its own lines.
pub fn property(input: &[u8]) {
    match Profile::parse(input) {
        Ok(profile) => {
            let values =
                Setting::ALL.into_iter().filter_map(|setting| Some((setting, profile.get(setting)?)));
            values.for_each(|(setting, value)| {
                assert!(setting.range().contains(&value), "{setting:?} {value}")
            });
            let text = profile.format(&String::from_utf8_lossy(input), |_| String::new());
            assert_eq!(Profile::parse(text.as_bytes()), Ok(profile), "a comment became a setting");
        }
        Err(error) => {
            let lines = input.iter().filter(|&&byte| byte == b'\n').count() + 1;
            assert!((1..=lines).contains(&error.line), "{error}");
        }
    }
}
