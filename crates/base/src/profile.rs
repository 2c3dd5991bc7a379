//! Settings for one device, in a text file that people can read and edit.
//!
//! ```text
//! # A comment, to the end of its line.
//! aquifer-device-profile = 1
//! depth = 32
//! write_bytes = 256K
//! ```
//!
//! The version stands first. Every setting may be left out, and then is what it is without a profile. Nothing is guessed: a key that is
//! not known, a value out of its range and a key that stands twice are errors with their line.

mod error;
mod setting;

pub use error::{Fault, ProfileError};
pub use setting::Setting;

/// The key of the first line.
pub const FORMAT: &str = "aquifer-device-profile";
/// The version that is written, and the only one that is read.
pub const VERSION: u32 = 1;
/// Longest profile that is read.
pub const PROFILE_BYTES_MAX: usize = 64 << 10;

/// Settings, each of which may be absent.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Profile {
    values: [Option<u64>; Setting::ALL.len()],
}

impl Profile {
    /// What a setting is, if it is there.
    #[must_use]
    pub fn get(&self, setting: Setting) -> Option<u64> {
        self.values[setting as usize]
    }

    /// The profile with a setting.
    ///
    /// # Errors
    /// [`Fault`] if it may not have this value; the profile is as it was.
    pub fn set(&mut self, setting: Setting, value: u64) -> Result<(), Fault> {
        setting.check(value)?;
        self.values[setting as usize] = Some(value);
        Ok(())
    }

    /// The settings of `self`, and where it has none those of `other`.
    #[must_use]
    pub fn or(&self, other: &Self) -> Self {
        Self { values: std::array::from_fn(|at| self.values[at].or(other.values[at])) }
    }

    /// The settings in the bytes of a file.
    ///
    /// # Errors
    /// [`ProfileError`] with the line.
    pub fn parse(bytes: &[u8]) -> Result<Self, ProfileError> {
        if bytes.len() > PROFILE_BYTES_MAX {
            return Err(ProfileError { line: 1, fault: Fault::TooLong });
        }
        let text = std::str::from_utf8(bytes).map_err(|error| {
            let line = 1 + bytes[..error.valid_up_to()].iter().filter(|&&byte| byte == b'\n').count();
            ProfileError { line, fault: Fault::NotText }
        })?;
        let mut lines = (1..).zip(text.lines().map(without_comment)).filter(|(_, line)| !line.is_empty());
        let (line, first) = lines.next().unwrap_or((1, ""));
        check_version(first).map_err(|fault| ProfileError { line, fault })?;
        let mut profile = Self::default();
        for (line, text) in lines {
            profile.take(text).map_err(|fault| ProfileError { line, fault })?;
        }
        Ok(profile)
    }

    /// Adds the setting of one line.
    fn take(&mut self, line: &str) -> Result<(), Fault> {
        let (key, value) = key_and_value(line)?;
        let setting = Setting::of_key(key).ok_or_else(|| Fault::UnknownKey(excerpt(key)))?;
        if self.get(setting).is_some() {
            return Err(Fault::Twice(setting));
        }
        self.set(setting, setting.parse(value)?)
    }

    /// The profile as a file, with `comment` in front of all, and `reason` in front of each setting, whether it is there or not.
    /// Whatever these say stays in comments.
    #[must_use]
    pub fn format(&self, comment: &str, reason: impl Fn(Setting) -> String) -> String {
        let mut text = as_comment(comment);
        text.push_str(&format!("{FORMAT} = {VERSION}\n"));
        for setting in Setting::ALL {
            text.push('\n');
            text.push_str(&as_comment(&reason(setting)));
            if let Some(value) = self.get(setting) {
                text.push_str(&format!("{} = {value}\n", setting.key()));
            }
        }
        text
    }
}

fn check_version(line: &str) -> Result<(), Fault> {
    match key_and_value(line) {
        Ok((FORMAT, version)) if version == VERSION.to_string() => Ok(()),
        Ok((FORMAT, version)) => Err(Fault::OtherVersion(excerpt(version))),
        _ => Err(Fault::NotAProfile),
    }
}

fn key_and_value(line: &str) -> Result<(&str, &str), Fault> {
    let (key, value) = line.split_once('=').ok_or_else(|| Fault::NoValue(excerpt(line)))?;
    Ok((key.trim(), value.trim()))
}

fn without_comment(line: &str) -> &str {
    line.split('#').next().unwrap_or_default().trim()
}

/// Every line of `text` behind a `#`; what might end a line or hide one becomes a blank.
fn as_comment(text: &str) -> String {
    let printable = |line: &str| -> String {
        line.chars().map(|char| if char.is_control() { ' ' } else { char }).collect()
    };
    text.lines().map(|line| format!("# {}", printable(line)).trim_end().to_owned() + "\n").collect()
}

/// As much of what stands in a file as an error shows.
fn excerpt(text: &str) -> String {
    text.chars().take(40).collect()
}

#[cfg(test)]
mod tests;
