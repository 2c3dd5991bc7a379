//! What stands on nbdkit's command line after `aquifer`.

use std::ffi::CString;
use std::path::PathBuf;
use std::time::Duration;

use aquifer_base::units::parse_size;
use aquifer_block::source::{Copies, Source};

/// What `nbdkit aquifer --help` shows.
pub const HELP: &std::ffi::CStr = c"\
flash=<PATH>         (required) The file or block device with the bytes; a folder for a file without a name.
size=<SIZE>          (required) Size of the device; of a block device 0 is all of it.
donors=<HOST:PORT,>  Machines that lend RAM, which is used before the flash.
donors-only=true     Does not ask them who else lends.
cluster=<FOLDER>     This host's folder of their cluster.
copies=flash|donor   Where what lies on donors is as well [default: flash].
seal=true            Encrypts what goes to donors.
weight=<1-1000>      How donors divide what they have [default: 100].
name=<NAME>          The name of the export [default: aquifer].
patience=<SECONDS>   A client has to begin within [default: 30]; only under aquifer block.
buffers=<NUMBER>     Requests of a connection that reach the device at once, 1 MiB of memory each; as nbdkit's --threads [default: 16].";

/// As many as nbdkit has threads for a connection.
const BUFFERS: usize = 16;
/// Clients begin within milliseconds.
const PATIENCE: Duration = Duration::from_secs(30);
/// More than nbdkit can use.
const BUFFERS_MAX: usize = 1024;

/// What is served, and how.
#[derive(Debug)]
pub struct Settings {
    /// What the device is made of.
    pub source: Source,
    /// By which clients ask for it.
    pub name: CString,
    /// Requests of a connection that reach the device at once.
    pub buffers: usize,
    /// A client that has not begun after this long is dropped.
    pub patience: Duration,
    /// Where `aquifer block` listens to what becomes of the server.
    pub parent: Option<i32>,
    has_size: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            source: Source::default(),
            name: c"aquifer".into(),
            buffers: BUFFERS,
            patience: PATIENCE,
            parent: None,
            has_size: false,
        }
    }
}

impl Settings {
    /// Takes one `key=value`.
    ///
    /// # Errors
    /// A sentence.
    pub fn take(&mut self, key: &str, value: PathBuf) -> Result<(), String> {
        // Only paths may be anything.
        let text = || value.to_str().ok_or_else(|| format!("{key}= is no UTF-8"));
        match key {
            "flash" => self.source.flash = value,
            "cluster" => self.source.cluster = Some(value),
            "size" => {
                self.source.size_bytes = parse_size(text()?).map_err(|error| format!("size=: {error}"))?;
                self.has_size = true;
            }
            "donors" => self.source.donors = text()?.split(',').map(str::to_owned).collect(),
            "donors-only" => self.source.donors_only = truth(key, text()?)?,
            "seal" => self.source.seals = truth(key, text()?)?,
            "copies" => {
                self.source.copies = match text()? {
                    "flash" => Copies::Flash,
                    "donor" => Copies::Donor,
                    other => return Err(format!("copies= may be flash or donor, and not '{other}'")),
                }
            }
            "weight" => self.source.weight = number(key, text()?, 1, 1000)? as u32,
            "name" => self.name = CString::new(text()?).expect("nbdkit's strings have no zeros"),
            "buffers" => self.buffers = number(key, text()?, 1, BUFFERS_MAX)?,
            "patience" => self.patience = Duration::from_secs(number(key, text()?, 1, 86400)? as u64),
            "parent-fd" => self.parent = Some(number(key, text()?, 3, i32::MAX as usize)? as i32),
            _ => return Err(format!("'{key}' is no parameter of this plugin: see nbdkit aquifer --help")),
        }
        Ok(())
    }

    /// Whether all is there that has to be.
    ///
    /// # Errors
    /// A sentence.
    pub fn check(&self) -> Result<(), String> {
        if self.source.flash.as_os_str().is_empty() {
            return Err("flash=PATH says where the bytes are".into());
        }
        if !self.has_size {
            return Err("size=SIZE says how large the device is, 0 for all of a block device".into());
        }
        let of_donors = self.source.cluster.is_some() || self.source.seals || self.source.donors_only;
        if self.source.donors.is_empty() && (of_donors || self.source.copies == Copies::Donor) {
            return Err(
                "cluster=, copies=, donors-only= and seal= are about donors=, which is not there".into()
            );
        }
        Ok(())
    }
}

fn truth(key: &str, text: &str) -> Result<bool, String> {
    match text {
        "true" | "yes" | "on" | "1" => Ok(true),
        "false" | "no" | "off" | "0" => Ok(false),
        other => Err(format!("{key}= may be true or false, and not '{other}'")),
    }
}

fn number(key: &str, text: &str, least: usize, most: usize) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| format!("{key}= may be {least} to {most}, and not '{text}'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(words: &str) -> Result<Settings, String> {
        let mut settings = Settings::default();
        for word in words.split_whitespace() {
            let (key, value) = word.split_once('=').unwrap();
            settings.take(key, value.into())?;
        }
        settings.check().map(|()| settings)
    }

    #[test]
    fn a_device_has_a_path_and_a_size() {
        let plain = settings("flash=/f size=1M").unwrap();
        assert_eq!((plain.source.size_bytes, plain.buffers, plain.source.weight), (1 << 20, 16, 100));
        assert_eq!(plain.name.as_c_str(), c"aquifer");
        assert!(settings("flash=/f size=0").is_ok());
        for words in ["", "flash=/f", "size=1M"] {
            assert!(settings(words).is_err(), "{words}");
        }
    }

    #[test]
    fn what_donors_need_is_taken() {
        let lent =
            "flash=/f size=1M donors=a:1,b:2 donors-only=true copies=donor seal=yes weight=7 cluster=/c";
        let Source { donors, donors_only, copies, seals, weight, cluster, .. } =
            settings(lent).unwrap().source;
        assert_eq!(donors, ["a:1", "b:2"]);
        assert!(donors_only && copies == Copies::Donor && seals && weight == 7);
        assert_eq!(cluster, Some("/c".into()));
        for words in ["seal=true", "copies=donor", "cluster=/c", "donors-only=1"] {
            assert!(settings(&format!("flash=/f size=1M {words}")).is_err(), "{words}");
        }
    }

    #[test]
    fn odd_values_are_refused() {
        for words in [
            "size=x",
            "copies=4+2",
            "weight=0",
            "weight=1001",
            "seal=maybe",
            "buffers=0",
            "parent-fd=1",
            "else=1",
        ] {
            assert!(settings(&format!("flash=/f size=1M donors=a:1 {words}")).is_err(), "{words}");
        }
    }
}
