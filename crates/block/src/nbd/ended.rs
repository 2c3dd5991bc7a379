//! Why a connection ended.

use std::io;
use std::time::Duration;

use aquifer_device::DeviceError;

use super::connection::PATIENCE;
use super::negotiation::{OPTION_BYTES_MAX, OPTIONS_MAX};
use super::request::TRANSFER_BYTES_MAX;
use super::seal::SealError;

/// Why a connection ended before its client said so. Nobody else is harmed.
#[derive(Debug, thiserror::Error)]
pub enum Ended {
    /// Bits in the client's first word that nobody defined.
    #[error("it answered the greeting with flags {0:#x}, which nobody knows; is it a client of NBD?")]
    UnknownFlags(u32),
    /// An option does not begin as options do.
    #[error("an option began with {0:#018x}; is it a client of NBD?")]
    NotAnOption(u64),
    /// An option with more data than any has.
    #[error("option {option} came with {len_bytes} bytes, at most {OPTION_BYTES_MAX} are taken")]
    LongOption {
        /// Its number.
        option: u32,
        /// Bytes that it announced.
        len_bytes: u32,
    },
    /// A client that asks and asks.
    #[error("it sent more than {OPTIONS_MAX} options and began nothing")]
    ManyOptions,
    /// A client of the first newstyle, which knows one option, sent another.
    #[error("it sent option {0} without fixed newstyle; use a client from 2011 or later")]
    NotFixed(u32),
    /// `EXPORT_NAME` has no other way to say no.
    #[error(
        "it asked for the export \"{0}\", which is not here; ask for the one that LIST names, or for \"\""
    )]
    UnknownExport(String),
    /// `EXPORT_NAME` has no other way to say no.
    #[error(
        "it began without TLS, which this server wants; let it ask for TLS, with its folder of `aquifer cluster join`"
    )]
    NotSealed,
    /// Its certificate or its words are not those of a host of the cluster.
    #[error(
        "TLS was not agreed on: {0}; both sides need a folder that `aquifer cluster join` made of the same cluster, and TLS 1.3"
    )]
    Refused(rustls::Error),
    /// It did not get to its first request in time.
    #[error("it began nothing within {} s", .0.as_secs())]
    Slow(Duration),
    /// It stopped in the middle of a message, and another client had no place.
    #[error("it did not go on with what it had begun, and gave its place to another client")]
    SentAway,
    /// A request does not begin as requests do.
    #[error("a request began with {0:#010x}; its stream is out of step")]
    NotARequest(u32),
    /// A write that is too long to be even skipped.
    #[error("a write of {0} bytes came, at most {TRANSFER_BYTES_MAX} are taken")]
    LongWrite(u32),
    /// It ended in the middle of a message.
    #[error("it broke off in the middle of a message")]
    BrokeOff,
    /// The device failed after a reply had begun, which can only be broken off.
    #[error("a read failed half-way: {0}")]
    ReadBroke(DeviceError),
    /// The system's answer.
    #[error("{0}")]
    Io(#[from] io::Error),
}

impl From<SealError> for Ended {
    fn from(error: SealError) -> Self {
        match error {
            SealError::Refused(why) => Ended::Refused(why),
            SealError::BrokeOff => Ended::BrokeOff,
            SealError::Slow => Ended::Slow(PATIENCE),
            SealError::Io(error) => Ended::Io(error),
        }
    }
}
