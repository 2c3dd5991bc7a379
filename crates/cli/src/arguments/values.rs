//! Values of options: times, addresses, and where a server listens. Sizes are `aquifer_base::units`.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// What a time may be written as.
const TIMES: &str = "write a number with us, ms, s, m or h, as in 500ms or 2m; without a unit it is seconds";

/// A time from a millisecond to a day.
///
/// # Errors
/// A sentence for the user.
pub fn duration(text: &str) -> Result<Duration, String> {
    within(text, Duration::from_millis(1), Duration::from_secs(86_400), "1ms and 24h")
}

/// A time from a second to an hour.
///
/// # Errors
/// A sentence for the user.
pub fn long_duration(text: &str) -> Result<Duration, String> {
    within(text, Duration::from_secs(1), Duration::from_secs(3600), "1s and 1h")
}

/// The time of one transfer: nothing to a millisecond.
///
/// # Errors
/// A sentence for the user.
pub fn short_duration(text: &str) -> Result<Duration, String> {
    within(text, Duration::ZERO, Duration::from_millis(1), "0 and 1ms")
}

/// The time of one read over a network: a tenth of a microsecond to ten seconds.
///
/// # Errors
/// A sentence for the user.
pub fn latency(text: &str) -> Result<Duration, String> {
    within(text, Duration::from_nanos(100), Duration::from_secs(10), "0.1us and 10s")
}

fn within(text: &str, least: Duration, most: Duration, range: &str) -> Result<Duration, String> {
    let time = parsed(text).ok_or_else(|| format!("'{text}' is not a time: {TIMES}"))?;
    if (least..=most).contains(&time) { Ok(time) } else { Err(format!("{text} is not between {range}")) }
}

fn parsed(text: &str) -> Option<Duration> {
    let end = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    // `inf` and `nan` begin with a letter; an exponent has one.
    let number: f64 = number.trim().parse().ok()?;
    let seconds = match unit {
        "us" => number / 1e6,
        "ms" => number / 1e3,
        "" | "s" => number,
        "m" => number * 60.0,
        "h" => number * 3600.0,
        _ => return None,
    };
    Duration::try_from_secs_f64(seconds).ok()
}

/// How often something is done: after a time again and again, or never.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Every(pub Option<Duration>);

impl FromStr for Every {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "never" { Ok(Self(None)) } else { long_duration(text).map(|time| Self(Some(time))) }
    }
}

impl fmt::Display for Every {
    /// As it is written on the command line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(time) => write!(f, "{}us", time.as_micros()),
            None => f.write_str("never"),
        }
    }
}

/// An address and a port; a port alone is one of this machine alone.
///
/// # Errors
/// A sentence for the user.
pub fn address(text: &str) -> Result<SocketAddr, String> {
    if let Ok(port) = text.parse::<u16>() {
        return Ok((Ipv4Addr::LOCALHOST, port).into());
    }
    text.parse().map_err(|_| {
        format!("'{text}' is neither a port nor an address and a port, as in 7447, 10.0.0.5:7447 or [::1]:7447; names are not looked up here")
    })
}

/// Where a server listens: over the network, or at a Unix socket, whose path holds a slash.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Listen {
    /// TCP.
    Address(SocketAddr),
    /// A Unix socket.
    Unix(PathBuf),
}

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.contains('/') {
            return Ok(Self::Unix(text.into()));
        }
        address(text)
            .map(Self::Address)
            .map_err(|why| format!("{why}. The path of a socket holds a slash, as in ./{text}"))
    }
}

/// The path of a Unix socket, where there is nothing else to listen at.
///
/// # Errors
/// A sentence for the user.
pub fn unix_socket(text: &str) -> Result<PathBuf, String> {
    match text.parse()? {
        Listen::Unix(path) => Ok(path),
        Listen::Address(_) => Err(format!(
            "'{text}' is an address; programs of this machine connect to a socket, whose path holds a slash"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        let millis = |text| duration(text).map(|time| time.as_micros() as f64 / 1e3);
        assert_eq!(millis("500ms"), Ok(500.0));
        assert_eq!(millis("0.5"), Ok(500.0));
        assert_eq!(millis("5s"), Ok(5e3));
        assert_eq!(millis("2m"), Ok(120e3));
        assert_eq!(millis("24h"), Ok(86_400e3));
        assert_eq!(short_duration("3us"), Ok(Duration::from_micros(3)));
        assert_eq!(short_duration("0"), Ok(Duration::ZERO));
    }

    #[test]
    fn times_that_make_no_sense() {
        for text in ["", "s", "0", "-1", "nan", "inf", "1e9", "soon", "5 minutes", "5d", "1e400", "25h"] {
            assert!(duration(text).is_err(), "{text}");
        }
        assert!(short_duration("2ms").is_err() && long_duration("500ms").is_err() && latency("0").is_err());
        assert!(duration("5d").unwrap_err().contains("500ms"));
    }

    #[test]
    fn never_is_a_word() {
        assert_eq!("never".parse(), Ok(Every(None)));
        assert_eq!("5".parse(), Ok(Every(Some(Duration::from_secs(5)))));
        assert!("0".parse::<Every>().is_err());
        for every in [Every(None), Every(Some(Duration::from_secs(90)))] {
            assert_eq!(every.to_string().parse(), Ok(every));
        }
    }

    #[test]
    fn servers_listen_at_ports_addresses_and_sockets() {
        assert_eq!("7".parse(), Ok(Listen::Address("127.0.0.1:7".parse().unwrap())));
        assert_eq!("[::1]:0".parse(), Ok(Listen::Address("[::1]:0".parse().unwrap())));
        assert_eq!("/run/a".parse(), Ok(Listen::Unix("/run/a".into())));
        assert_eq!("./a".parse(), Ok(Listen::Unix("./a".into())));
        for text in ["localhost:7", "70000", "a.sock", ""] {
            assert!(text.parse::<Listen>().is_err(), "{text}");
        }
        assert!(unix_socket("7").is_err() && unix_socket("./7").is_ok());
    }
}
