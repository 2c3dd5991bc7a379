//! One client's connection to memcached or Redis: requests are queued, sent together, and answered in order.
//!
//! memcached's text protocol is that of `doc/protocol.txt` in its source; that of Redis is RESP 2.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use crate::error::Error;
use crate::server::Server;

/// A server that is silent for so long hangs.
const SILENCE_MAX: Duration = Duration::from_secs(120);
const READ_BYTES: usize = 64 << 10;
/// Longest line that is accepted: no reply to our requests comes near.
const LINE_BYTES_MAX: u64 = 2048;
/// Largest value that is accepted: memcached's own default limit of an item.
const VALUE_BYTES_MAX: usize = 1 << 20;
const NEWLINE: &[u8] = b"\r\n";

/// Why a client stopped.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Failure {
    /// The connection is of no use any more, as the end of a sentence about the server.
    Broken(String),
    /// The value of a key is not one that it can have.
    WrongData(String),
}

impl Failure {
    /// The error that it is, of `peer` at `server`.
    pub fn at(self, peer: &str, server: &mut Server) -> Error {
        match self {
            Self::Broken(what) => server.broken(what),
            Self::WrongData(what) => Error::WrongData { peer: peer.to_owned(), what },
        }
    }
}

/// What the server understands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Protocol {
    Memcached,
    Redis,
}

/// A socket of any family.
trait Stream: Read + Write + Send + Debug {}

impl<T: Read + Write + Send + Debug> Stream for T {}

/// A connection to memcached's UNIX socket, or to Redis.
#[derive(Debug)]
pub struct Connection {
    stream: BufReader<Box<dyn Stream>>,
    protocol: Protocol,
    requests: Vec<u8>,
    /// The last line that came, without its end.
    line: Vec<u8>,
    /// The last value that came, with its end.
    value: Vec<u8>,
}

impl Connection {
    /// Connects to a memcached.
    ///
    /// # Errors
    /// [`Error::Child`].
    pub fn open(server: &Server) -> Result<Self, Error> {
        let limited = UnixStream::connect(server.socket()).and_then(|stream| {
            stream.set_read_timeout(Some(SILENCE_MAX)).and(stream.set_write_timeout(Some(SILENCE_MAX)))?;
            Ok(stream)
        });
        let stream = limited.map_err(|error| server.error(format!("takes no connection: {error}")))?;
        Ok(Self::new(Box::new(stream), Protocol::Memcached))
    }

    /// Connects to Redis.
    ///
    /// # Errors
    /// What the system says.
    pub fn open_redis(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(SILENCE_MAX)).and(stream.set_write_timeout(Some(SILENCE_MAX)))?;
        Ok(Self::new(Box::new(stream), Protocol::Redis))
    }

    fn new(stream: Box<dyn Stream>, protocol: Protocol) -> Self {
        let stream = BufReader::with_capacity(READ_BYTES, stream);
        Self { stream, protocol, requests: Vec::new(), line: Vec::new(), value: Vec::new() }
    }

    /// Bytes of the requests that wait to be sent.
    pub fn queued_bytes(&self) -> usize {
        self.requests.len()
    }

    /// Queues the get of `key`.
    pub fn get(&mut self, key: &[u8]) {
        match self.protocol {
            Protocol::Memcached => self.queue(&[b"get ", key, NEWLINE]),
            Protocol::Redis => self.queue_array(&[b"GET", key]),
        }
    }

    /// Queues the set of `key` to `value`.
    pub fn set(&mut self, key: &[u8], value: &[u8]) {
        let length = value.len().to_string();
        match self.protocol {
            Protocol::Memcached => {
                self.queue(&[b"set ", key, b" 0 0 ", length.as_bytes(), NEWLINE, value, NEWLINE]);
            }
            Protocol::Redis => self.queue_array(&[b"SET", key, value]),
        }
    }

    /// Sends what is queued.
    ///
    /// # Errors
    /// [`Failure::Broken`].
    pub fn send(&mut self) -> Result<(), Failure> {
        let sent = self.stream.get_mut().write_all(&self.requests);
        self.requests.clear();
        sent.map_err(|error| broken(&error))
    }

    /// The reply to the oldest get, which was of `key`: its value, or none on a miss.
    ///
    /// # Errors
    /// [`Failure::Broken`]; [`Failure::WrongData`] if the value is said to be of another key.
    pub fn value(&mut self, key: &[u8]) -> Result<Option<&[u8]>, Failure> {
        self.read_line()?;
        let Some(bytes) = self.announced(key)? else { return Ok(None) };
        let end: &[u8] = if self.protocol == Protocol::Memcached { b"\r\nEND\r\n" } else { NEWLINE };
        self.value.resize(bytes + end.len(), 0);
        self.stream.read_exact(&mut self.value).map_err(|error| broken(&error))?;
        let (value, tail) = self.value.split_at(bytes);
        let is_whole = tail == end;
        let broken = || Failure::Broken("sent a value that is not as long as announced".to_owned());
        is_whole.then_some(Some(value)).ok_or_else(broken)
    }

    /// Bytes of the value that the line announces, `VALUE <key> <flags> <bytes>` or `$<bytes>`; none if it tells of a miss.
    fn announced(&self, key: &[u8]) -> Result<Option<usize>, Failure> {
        let length = match (self.protocol, &self.line[..]) {
            (Protocol::Memcached, b"END") | (Protocol::Redis, b"$-1") => return Ok(None),
            (Protocol::Redis, line) => line.strip_prefix(b"$"),
            (Protocol::Memcached, line) => match line.split(|byte| *byte == b' ').collect::<Vec<_>>()[..] {
                [b"VALUE", got, _, length] if got == key => Some(length),
                [b"VALUE", got, _, _] => {
                    let [wanted, found] = [key, got].map(<[u8]>::escape_ascii);
                    return Err(Failure::WrongData(format!(
                        "key {wanted}: wanted its value, found that of {found}"
                    )));
                }
                _ => None,
            },
        };
        let length = length.and_then(|length| std::str::from_utf8(length).ok()?.parse::<usize>().ok());
        length.filter(|length| *length <= VALUE_BYTES_MAX).map(Some).ok_or_else(|| self.unexpected())
    }

    /// The reply to the oldest set: whether the server had memory for it. If not, it has dropped the value before, too.
    ///
    /// # Errors
    /// [`Failure::Broken`].
    pub fn stored(&mut self) -> Result<bool, Failure> {
        self.read_line()?;
        match (self.protocol, &self.line[..]) {
            (Protocol::Memcached, b"STORED") | (Protocol::Redis, b"+OK") => Ok(true),
            (Protocol::Memcached, b"SERVER_ERROR out of memory storing object") => Ok(false),
            (Protocol::Redis, line) if line.starts_with(b"-OOM") => Ok(false),
            _ => Err(self.unexpected()),
        }
    }

    /// The counters of memcached. Nothing else may be on its way.
    ///
    /// # Errors
    /// [`Failure::Broken`].
    pub fn stats(&mut self) -> Result<BTreeMap<String, String>, Failure> {
        self.queue(&[b"stats\r\n"]);
        self.send()?;
        let mut stats = BTreeMap::new();
        loop {
            self.read_line()?;
            if self.line == b"END" {
                return Ok(stats);
            }
            let line = std::str::from_utf8(&self.line).ok().and_then(|line| line.strip_prefix("STAT "));
            let (name, value) =
                line.and_then(|line| line.split_once(' ')).ok_or_else(|| self.unexpected())?;
            stats.insert(name.to_owned(), value.to_owned());
        }
    }

    fn queue(&mut self, parts: &[&[u8]]) {
        parts.iter().for_each(|part| self.requests.extend_from_slice(part));
    }

    /// Redis takes each request as an array of strings.
    fn queue_array(&mut self, parts: &[&[u8]]) {
        self.queue(&[b"*", parts.len().to_string().as_bytes(), NEWLINE]);
        for part in parts {
            self.queue(&[b"$", part.len().to_string().as_bytes(), NEWLINE, part, NEWLINE]);
        }
    }

    fn read_line(&mut self) -> Result<(), Failure> {
        self.line.clear();
        let mut limited = (&mut self.stream).take(LINE_BYTES_MAX);
        limited.read_until(b'\n', &mut self.line).map_err(|error| broken(&error))?;
        match self.line.strip_suffix(NEWLINE).map(<[u8]>::len) {
            Some(length) => self.line.truncate(length),
            None if self.line.is_empty() => return Err(broken(&io::ErrorKind::UnexpectedEof.into())),
            None => return Err(self.unexpected()),
        }
        Ok(())
    }

    fn unexpected(&self) -> Failure {
        const SHOWN_BYTES_MAX: usize = 100;
        let shown = &self.line[..self.line.len().min(SHOWN_BYTES_MAX)];
        Failure::Broken(format!("answered '{}'", shown.escape_ascii()))
    }
}

fn broken(error: &io::Error) -> Failure {
    Failure::Broken(match error.kind() {
        io::ErrorKind::UnexpectedEof => "closed a connection".to_owned(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            format!("was silent for {} s", SILENCE_MAX.as_secs())
        }
        _ => format!("lost a connection: {error}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A connection to somebody who sends `pieces` and hangs up.
    fn fed(protocol: Protocol, pieces: &[&[u8]]) -> Connection {
        let (stream, mut server) = UnixStream::pair().expect("a pair of sockets");
        pieces.iter().for_each(|piece| server.write_all(piece).expect("room"));
        Connection::new(Box::new(stream), protocol)
    }

    #[test]
    fn replies_are_told_apart() {
        let refused = b"SERVER_ERROR out of memory storing object\r\n";
        let mut connection =
            fed(Protocol::Memcached, &[b"VALUE k 0 5\r\na\r\nbc\r\nEND\r\nSTORED\r\nEND\r\n", refused]);
        assert_eq!(connection.value(b"k"), Ok(Some(&b"a\r\nbc"[..])));
        assert_eq!(connection.stored(), Ok(true));
        assert_eq!(connection.value(b"k"), Ok(None));
        assert_eq!(connection.stored(), Ok(false));
        assert_eq!(connection.value(b"k"), Err(Failure::Broken("closed a connection".to_owned())));
    }

    #[test]
    fn redis_is_asked_and_understood_in_its_own_words() {
        let (stream, mut server) = UnixStream::pair().expect("a pair of sockets");
        let mut connection = Connection::new(Box::new(stream), Protocol::Redis);
        connection.set(b"k", b"abc");
        connection.get(b"k");
        connection.send().expect("somebody listens");
        server.write_all(b"+OK\r\n$3\r\nabc\r\n$-1\r\n-OOM no\r\n").expect("we listen");
        assert_eq!(connection.stored(), Ok(true));
        assert_eq!(connection.value(b"k"), Ok(Some(&b"abc"[..])));
        assert_eq!(connection.value(b"k"), Ok(None));
        assert_eq!(connection.stored(), Ok(false));
        drop(connection);
        let mut asked = String::new();
        server.read_to_string(&mut asked).expect("text");
        let set = "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$3\r\nabc\r\n";
        assert_eq!(asked, format!("{set}*2\r\n$3\r\nGET\r\n$1\r\nk\r\n"));
    }

    #[test]
    fn what_is_no_reply_is_refused() {
        let long = "x".repeat(LINE_BYTES_MAX as usize);
        let lines = "ERROR|VALUE k 0|VALUE k 0 -1|VALUE k 0 1048577|VALUE k 0 1\r\nabcdefgh|VALUE  0 5|$1\r\nabc|$x|\0";
        for reply in lines.split('|').chain([&long[..]]) {
            for protocol in [Protocol::Memcached, Protocol::Redis] {
                let reply = format!("{reply}\r\n");
                assert!(fed(protocol, &[reply.as_bytes()]).value(b"k").is_err(), "{reply}");
                assert!(fed(protocol, &[reply.as_bytes()]).stored().is_err(), "{reply}");
            }
        }
        let other = fed(Protocol::Memcached, &[b"VALUE q 0 1\r\na\r\nEND\r\n"]).value(b"k").map(drop);
        assert_eq!(other, Err(Failure::WrongData("key k: wanted its value, found that of q".to_owned())));
    }
}
