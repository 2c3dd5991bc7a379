//! Faults that users ask for, as filters of nbdkit: how a program bears a device that is slow or fails.

use std::path::PathBuf;
use std::str::FromStr;

use aquifer_base::units::parse_size;

/// One fault.
#[derive(Clone, PartialEq, Debug)]
pub enum Fault {
    /// Requests take longer, by milliseconds.
    Delay(Requests, u32),
    /// This share of requests fails with `EIO`, in percent.
    Errors(Requests, f64),
    /// They fail only while this file is there.
    While(PathBuf),
    /// Bytes a second, of all clients together.
    Rate(u64),
}

/// Which requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Requests {
    /// Reads.
    Reads,
    /// Writes, and zeros.
    Writes,
    /// All that move bytes, and zeros and trims.
    All,
}

const WORDS: &str = "a fault is delay=20ms, read-delay=TIME, write-delay=TIME, errors=1%, read-errors=PERCENT, write-errors=PERCENT, while=FILE or rate=SIZE";

impl FromStr for Fault {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, value) = text.split_once('=').ok_or(WORDS)?;
        let (requests, kind) = match name.split_once('-') {
            Some(("read", kind)) => (Requests::Reads, kind),
            Some(("write", kind)) => (Requests::Writes, kind),
            Some(_) => return Err(WORDS.into()),
            None => (Requests::All, name),
        };
        match kind {
            "delay" => Ok(Fault::Delay(requests, milliseconds(value)?)),
            "errors" => Ok(Fault::Errors(requests, percent(value)?)),
            "while" if requests == Requests::All && !value.is_empty() => Ok(Fault::While(value.into())),
            "rate" if requests == Requests::All => {
                let bytes = parse_size(value).map_err(|error| error.to_string())?;
                // nbdkit counts bits.
                if bytes > 0 && bytes < u64::MAX / 8 { Ok(Fault::Rate(bytes)) } else { Err(WORDS.into()) }
            }
            _ => Err(WORDS.into()),
        }
    }
}

fn milliseconds(text: &str) -> Result<u32, String> {
    let number = |digits: &str, each: u32| digits.parse().ok().and_then(|n: u32| n.checked_mul(each));
    let parsed = match (text.strip_suffix("ms"), text.strip_suffix('s')) {
        (Some(digits), _) => number(digits, 1),
        (None, Some(digits)) => number(digits, 1000),
        (None, None) => None,
    };
    parsed.ok_or_else(|| format!("'{text}' is no time, as in 20ms or 2s"))
}

fn percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').and_then(|digits| digits.parse::<f64>().ok());
    number
        .filter(|percent| (0.0..=100.0).contains(percent))
        .ok_or_else(|| format!("'{text}' is no share, as in 1% or 0.5%"))
}

/// nbdkit's filters for these faults, and their settings.
pub fn filters(faults: &[Fault]) -> (Vec<String>, Vec<String>) {
    let (mut names, mut settings): (Vec<String>, Vec<String>) = Default::default();
    for fault in faults {
        let name = match fault {
            Fault::Delay(..) => "delay",
            Fault::Errors(..) | Fault::While(_) => "error",
            Fault::Rate(_) => "rate",
        };
        if !names.iter().any(|other| other == name) {
            names.push(name.into());
        }
        match fault {
            Fault::Delay(Requests::Reads, ms) => settings.push(format!("rdelay={ms}ms")),
            Fault::Delay(Requests::Writes, ms) => settings.push(format!("wdelay={ms}ms")),
            Fault::Delay(Requests::All, ms) => {
                settings.extend([format!("rdelay={ms}ms"), format!("wdelay={ms}ms")]);
            }
            Fault::Errors(Requests::Reads, percent) => settings.extend(errors("pread", *percent)),
            Fault::Errors(Requests::Writes, percent) => {
                settings.extend(["pwrite", "zero"].into_iter().flat_map(|of| errors(of, *percent)));
            }
            Fault::Errors(Requests::All, percent) => {
                settings.extend(
                    ["pread", "pwrite", "zero", "trim"].into_iter().flat_map(|of| errors(of, *percent)),
                );
            }
            Fault::While(path) => settings.push(format!("error-file={}", path.display())),
            Fault::Rate(bytes) => settings.push(format!("rate={}", bytes * 8)),
        }
    }
    (names, settings)
}

fn errors(of: &str, percent: f64) -> [String; 2] {
    [format!("error-{of}=EIO"), format!("error-{of}-rate={percent}%")]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> (Vec<String>, Vec<String>) {
        let faults: Result<Vec<Fault>, _> = text.split(',').map(str::parse).collect();
        filters(&faults.expect("faults"))
    }

    #[test]
    fn faults_are_filters_with_settings() {
        assert_eq!(filters(&[]), (vec![], vec![]));
        let (names, settings) = parse("read-delay=20ms,delay=2s,rate=1M");
        assert_eq!(names, ["delay", "rate"]);
        assert_eq!(settings, ["rdelay=20ms", "rdelay=2000ms", "wdelay=2000ms", "rate=8388608"]);
        let (names, settings) = parse("write-errors=0.5%,while=/tmp/bad");
        assert_eq!(names, ["error"]);
        assert_eq!(
            settings,
            [
                "error-pwrite=EIO",
                "error-pwrite-rate=0.5%",
                "error-zero=EIO",
                "error-zero-rate=0.5%",
                "error-file=/tmp/bad"
            ]
        );
    }

    #[test]
    fn odd_faults_are_refused() {
        for text in [
            "",
            "delay",
            "delay=20",
            "delay=-1s",
            "errors=1",
            "errors=101%",
            "errors=NaN%",
            "trim-delay=1s",
            "read-rate=1M",
            "rate=0",
            "rate=fast",
            "while=",
            "flood=1s",
        ] {
            assert!(text.parse::<Fault>().is_err(), "{text}");
        }
    }
}
