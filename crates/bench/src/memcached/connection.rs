//! One client's connection: requests are queued, sent together, and answered in order.

use std::fmt::Debug;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use super::protocol::{self, Malformed, Parsed, Stored};
use super::resp;
use super::stats::ServerStats;

/// A server that is silent for so long hangs.
const SILENCE_MAX: Duration = Duration::from_secs(120);
const READ_BYTES: usize = 64 << 10;
const NEWLINE: &[u8] = b"\r\n";

/// Why a connection is of no use any more, as the end of a sentence about the server.
pub type Broken = String;

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
    stream: Box<dyn Stream>,
    protocol: Protocol,
    requests: Vec<u8>,
    replies: Vec<u8>,
    /// Bytes of `replies` that were answered already.
    used: usize,
}

impl Connection {
    /// Connects to the socket of memcached at `path`.
    ///
    /// # Errors
    /// What the system says.
    pub fn open(path: &Path) -> io::Result<Self> {
        let stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(SILENCE_MAX))?;
        stream.set_write_timeout(Some(SILENCE_MAX))?;
        Ok(Self::new(Box::new(stream), Protocol::Memcached))
    }

    /// Connects to Redis.
    ///
    /// # Errors
    /// What the system says.
    pub fn open_redis(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(SILENCE_MAX))?;
        stream.set_write_timeout(Some(SILENCE_MAX))?;
        Ok(Self::new(Box::new(stream), Protocol::Redis))
    }

    fn new(stream: Box<dyn Stream>, protocol: Protocol) -> Self {
        Self { stream, protocol, requests: Vec::new(), replies: Vec::new(), used: 0 }
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
    /// [`Broken`].
    pub fn send(&mut self) -> Result<(), Broken> {
        let sent = self.stream.write_all(&self.requests);
        self.requests.clear();
        sent.map_err(describe)
    }

    /// The reply to the oldest get: its value, or none on a miss.
    ///
    /// # Errors
    /// [`Broken`].
    pub fn value(&mut self, key: &[u8]) -> Result<Option<&[u8]>, Broken> {
        let (place, start) = match self.protocol {
            Protocol::Memcached => self.reply(|bytes| protocol::get(bytes, key))?,
            Protocol::Redis => self.reply(resp::get)?,
        };
        Ok(place.map(|place| &self.replies[start + place.start..start + place.end]))
    }

    /// The reply to the oldest set.
    ///
    /// # Errors
    /// [`Broken`].
    pub fn stored(&mut self) -> Result<Stored, Broken> {
        match self.protocol {
            Protocol::Memcached => Ok(self.reply(protocol::set)?.0),
            Protocol::Redis => Ok(self.reply(resp::set)?.0),
        }
    }

    /// The counters of memcached. Nothing else may be on its way.
    ///
    /// # Errors
    /// [`Broken`].
    pub fn stats(&mut self) -> Result<ServerStats, Broken> {
        self.queue(&[b"stats\r\n"]);
        self.send()?;
        let mut stats = ServerStats::default();
        while let (Some((name, value)), _) = self.reply(protocol::stat)? {
            stats.set(&name, &value);
        }
        Ok(stats)
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

    /// Reads until `parse` has a whole reply; with it, where in `replies` it begins.
    fn reply<T>(&mut self, parse: impl Fn(&[u8]) -> Parsed<T>) -> Result<(T, usize), Broken> {
        loop {
            let parsed = parse(&self.replies[self.used..]).map_err(|error: Malformed| error.to_string())?;
            if let Some((reply, bytes)) = parsed {
                let start = self.used;
                self.used += bytes;
                return Ok((reply, start));
            }
            self.read()?;
        }
    }

    fn read(&mut self) -> Result<(), Broken> {
        self.replies.drain(..std::mem::take(&mut self.used));
        let length = self.replies.len();
        self.replies.resize(length + READ_BYTES, 0);
        let read = self.stream.read(&mut self.replies[length..]);
        self.replies.truncate(length + *read.as_ref().unwrap_or(&0));
        match read {
            Ok(0) => Err("closed a connection".to_owned()),
            Ok(_) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            Err(error) => Err(describe(error)),
        }
    }
}

fn describe(error: io::Error) -> Broken {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            format!("was silent for {} s", SILENCE_MAX.as_secs())
        }
        _ => format!("lost a connection: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A connection to somebody who sends `pieces` and hangs up.
    fn fed(pieces: &'static [&'static [u8]]) -> Connection {
        let (stream, mut server) = UnixStream::pair().expect("a pair of sockets");
        std::thread::spawn(move || pieces.iter().all(|piece| server.write_all(piece).is_ok()));
        Connection::new(Box::new(stream), Protocol::Memcached)
    }

    #[test]
    fn replies_arrive_in_any_pieces() {
        let mut connection = fed(&[
            b"VALUE k 0 3\r",
            b"\nabc\r\nEN",
            b"D\r\nSTORED\r\nEND\r\nVALUE k 0 1\r\nx\r\n",
            b"END\r\n",
        ]);
        assert_eq!(connection.value(b"k"), Ok(Some(&b"abc"[..])));
        assert_eq!(connection.stored(), Ok(Stored::Stored));
        assert_eq!(connection.value(b"k"), Ok(None));
        assert_eq!(connection.value(b"k"), Ok(Some(&b"x"[..])));
        assert_eq!(connection.value(b"k"), Err("closed a connection".to_owned()));
    }

    #[test]
    fn redis_is_asked_and_understood_in_its_own_words() {
        let (stream, mut server) = UnixStream::pair().expect("a pair of sockets");
        let mut connection = Connection::new(Box::new(stream), Protocol::Redis);
        connection.set(b"k", b"abc");
        connection.get(b"k");
        connection.send().expect("somebody listens");
        server.write_all(b"+OK\r\n$3\r\nabc\r\n$-1\r\n").expect("we listen");
        assert_eq!(connection.stored(), Ok(Stored::Stored));
        assert_eq!(connection.value(b"k"), Ok(Some(&b"abc"[..])));
        assert_eq!(connection.value(b"k"), Ok(None));
        drop(connection);
        let mut asked = String::new();
        server.read_to_string(&mut asked).expect("text");
        let set = "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$3\r\nabc\r\n";
        assert_eq!(asked, format!("{set}*2\r\n$3\r\nGET\r\n$1\r\nk\r\n"));
    }

    #[test]
    fn what_is_wrong_is_said() {
        let error = fed(&[b"SERVER_ERROR odd\r\n"]).stored();
        assert_eq!(error, Err("answered 'SERVER_ERROR odd'".to_owned()));
    }
}
