//! A client's options, up to the first request. Does no I/O: the connection asks how many bytes come next,
//! and passes them in.

use super::ended::Ended;
use super::export::Export;
use super::option::{OptionHead, Question, describe, refuse, reply};
use super::wire::{GREETING_MAGIC, OPTION_MAGIC, handshake, option, option_reply, u32_at, u64_at};

/// Most bytes of data with an option; the longest that means anything is a name and what to tell of it.
pub const OPTION_BYTES_MAX: u32 = 16 << 10;
/// Most options of one client.
pub const OPTIONS_MAX: u32 = 64;

/// Zeros that follow the answer to `EXPORT_NAME`, for reasons of history.
const PADDING_BYTES: usize = 124;
/// Bytes of the client's answer to the greeting.
const FLAGS_BYTES: usize = 4;

/// What comes next from the client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Awaits {
    Flags,
    Head,
    Data(OptionHead),
}

/// How things stand after a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// More options may come.
    Continues,
    /// TLS comes now, and other options after it.
    Seals,
    /// Requests come from now on.
    Transmits,
    /// The client has taken its leave.
    Leaves,
}

/// What TLS has to do with it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Tls {
    /// There is none.
    Absent,
    /// The client has to ask for it first.
    Wanted,
    /// What comes is sealed.
    Begun,
}

/// One client's options.
pub struct Negotiation<'a> {
    export: &'a Export,
    awaits: Awaits,
    is_fixed: bool,
    wants_zeroes: bool,
    options: u32,
    tls: Tls,
}

impl<'a> Negotiation<'a> {
    /// A negotiation about `export`, at its beginning: the [greeting](Self::greeting) is to be sent.
    /// With `wants_tls`, nothing is told and nothing begins before `STARTTLS`.
    pub fn new(export: &'a Export, wants_tls: bool) -> Self {
        let tls = if wants_tls { Tls::Wanted } else { Tls::Absent };
        Negotiation { export, awaits: Awaits::Flags, is_fixed: false, wants_zeroes: true, options: 0, tls }
    }

    /// The server's first words.
    pub fn greeting() -> [u8; 18] {
        let mut words = [0; 18];
        words[..8].copy_from_slice(&GREETING_MAGIC.to_be_bytes());
        words[8..16].copy_from_slice(&OPTION_MAGIC.to_be_bytes());
        words[16..].copy_from_slice(&(handshake::FIXED_NEWSTYLE | handshake::NO_ZEROES).to_be_bytes());
        words
    }

    /// Bytes of the next message; never more than [`OPTION_BYTES_MAX`].
    pub fn awaits_bytes(&self) -> usize {
        match self.awaits {
            Awaits::Flags => FLAGS_BYTES,
            Awaits::Head => OptionHead::BYTES,
            Awaits::Data(head) => head.len_bytes as usize,
        }
    }

    /// Takes a message of [`awaits_bytes`](Self::awaits_bytes) bytes, and appends the answer to `out`.
    ///
    /// # Errors
    /// [`Ended`]: there is no sense in going on.
    pub fn take(&mut self, message: &[u8], out: &mut Vec<u8>) -> Result<Progress, Ended> {
        assert_eq!(message.len(), self.awaits_bytes(), "a whole message");
        match self.awaits {
            Awaits::Flags => self.take_flags(u32_at(message, 0)),
            Awaits::Head => self.take_head(message),
            Awaits::Data(head) => {
                self.awaits = Awaits::Head;
                self.answer(head.option, message, out)
            }
        }
    }

    fn take_flags(&mut self, flags: u32) -> Result<Progress, Ended> {
        let known = u32::from(handshake::FIXED_NEWSTYLE | handshake::NO_ZEROES);
        if flags & !known != 0 {
            return Err(Ended::UnknownFlags(flags));
        }
        self.is_fixed = flags & u32::from(handshake::FIXED_NEWSTYLE) != 0;
        self.wants_zeroes = flags & u32::from(handshake::NO_ZEROES) == 0;
        self.awaits = Awaits::Head;
        Ok(Progress::Continues)
    }

    fn take_head(&mut self, message: &[u8]) -> Result<Progress, Ended> {
        let magic = u64_at(message, 0);
        if magic != OPTION_MAGIC {
            return Err(Ended::NotAnOption(magic));
        }
        let head = OptionHead::parse(message);
        if head.len_bytes > OPTION_BYTES_MAX {
            return Err(Ended::LongOption { option: head.option, len_bytes: head.len_bytes });
        }
        self.options += 1;
        if self.options > OPTIONS_MAX {
            return Err(Ended::ManyOptions);
        }
        if !self.is_fixed && head.option != option::EXPORT_NAME {
            return Err(Ended::NotFixed(head.option));
        }
        self.awaits = Awaits::Data(head);
        Ok(Progress::Continues)
    }

    fn answer(&mut self, which: u32, data: &[u8], out: &mut Vec<u8>) -> Result<Progress, Ended> {
        let is_too_early = self.tls == Tls::Wanted;
        match which {
            option::STARTTLS if self.tls != Tls::Absent => return Ok(self.start_tls(data, out)),
            option::EXPORT_NAME if is_too_early => return Err(Ended::NotSealed),
            option::EXPORT_NAME => return self.begin_by_name(data, out),
            option::ABORT => {
                reply(out, which, option_reply::ACK, &[]);
                return Ok(Progress::Leaves);
            }
            _ if is_too_early => refuse(out, which, option_reply::ERR_TLS_REQD, "ask for TLS first"),
            option::LIST => self.list(data, out),
            option::INFO | option::GO => return Ok(self.tell(which, data, out)),
            option::STARTTLS => refuse(out, which, option_reply::ERR_UNSUP, "this server has no TLS"),
            // Among these are STRUCTURED_REPLY, EXTENDED_HEADERS and the meta contexts.
            _ => refuse(out, which, option_reply::ERR_UNSUP, "this server has simple replies"),
        }
        Ok(Progress::Continues)
    }

    /// No option before it has left anything behind but its number, so there is nothing to forget.
    fn start_tls(&mut self, data: &[u8], out: &mut Vec<u8>) -> Progress {
        let sentence = match self.tls {
            Tls::Begun => "TLS has begun already",
            _ if !data.is_empty() => "STARTTLS has no data",
            _ => {
                reply(out, option::STARTTLS, option_reply::ACK, &[]);
                self.tls = Tls::Begun;
                return Progress::Seals;
            }
        };
        refuse(out, option::STARTTLS, option_reply::ERR_INVALID, sentence);
        Progress::Continues
    }

    fn begin_by_name(&self, name: &[u8], out: &mut Vec<u8>) -> Result<Progress, Ended> {
        if !self.export.is_called(name) {
            return Err(Ended::UnknownExport(String::from_utf8_lossy(name).into_owned()));
        }
        out.extend_from_slice(&self.export.size_bytes.to_be_bytes());
        out.extend_from_slice(&self.export.flags().to_be_bytes());
        if self.wants_zeroes {
            out.extend_from_slice(&[0; PADDING_BYTES]);
        }
        Ok(Progress::Transmits)
    }

    fn list(&self, data: &[u8], out: &mut Vec<u8>) {
        if !data.is_empty() {
            return refuse(out, option::LIST, option_reply::ERR_INVALID, "LIST has no data");
        }
        let name = self.export.name.as_bytes();
        let len = (name.len() as u32).to_be_bytes();
        reply(out, option::LIST, option_reply::SERVER, &[&len, name]);
        reply(out, option::LIST, option_reply::ACK, &[]);
    }

    fn tell(&self, which: u32, data: &[u8], out: &mut Vec<u8>) -> Progress {
        let Some(question) = Question::parse(data) else {
            refuse(out, which, option_reply::ERR_INVALID, "its lengths do not add up");
            return Progress::Continues;
        };
        if !self.export.is_called(question.name) {
            refuse(
                out,
                which,
                option_reply::ERR_UNKNOWN,
                "there is no such export; LIST names the one that is",
            );
            return Progress::Continues;
        }
        describe(out, which, self.export, question.wants_name);
        if which == option::GO { Progress::Transmits } else { Progress::Continues }
    }
}

#[cfg(test)]
mod tests;
