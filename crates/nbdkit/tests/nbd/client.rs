//! A client of NBD that can also say what no good client says.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use aquifer_remote::control::Identity;
use rustls::{ClientConfig, ClientConnection};

const OPTION_MAGIC: &[u8; 8] = b"IHAVEOPT";
const REPLY_MAGIC: u32 = 0x6744_6698;
/// No server of a test is silent for longer unless it hangs.
const PATIENCE: Duration = Duration::from_secs(60);

pub const STARTTLS: u32 = 5;

pub const READ: u16 = 0;
pub const WRITE: u16 = 1;
pub const DISC: u16 = 2;
pub const FLUSH: u16 = 3;
pub const TRIM: u16 = 4;
pub const WRITE_ZEROES: u16 = 6;
pub const FUA: u16 = 1;

pub const EIO: u32 = 5;
pub const EINVAL: u32 = 22;
pub const ENOSPC: u32 = 28;
pub const ESHUTDOWN: u32 = 108;

/// A connection, at whatever point of the protocol.
pub struct Client {
    pub stream: TcpStream,
    session: Option<ClientConnection>,
    /// As the server told it.
    pub size_bytes: u64,
    pub flags: u16,
    /// Least, preferred and largest transfer.
    pub block_sizes: [u32; 3],
}

/// Kind and data of a reply to an option.
pub type OptionReply = (u32, Vec<u8>);

impl Client {
    /// Connects, and answers the greeting.
    pub fn greeted(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        let mut client = Client { stream, session: None, size_bytes: 0, flags: 0, block_sizes: [0; 3] };
        assert_eq!(client.take(18), b"NBDMAGICIHAVEOPT\0\x03");
        client.send(&3u32.to_be_bytes());
        client
    }

    /// Connects, and begins transmission by `GO`.
    pub fn begun(address: SocketAddr) -> Self {
        Self::greeted(address).going()
    }

    /// Connects, seals the connection, and begins transmission by `GO`.
    pub fn sealed(address: SocketAddr, config: Arc<ClientConfig>) -> Self {
        let mut client = Self::greeted(address);
        client.option(STARTTLS, b"");
        assert_eq!(client.option_reply(STARTTLS), (1, vec![]));
        client.seal(config).unwrap();
        client.going()
    }

    /// Whatever is sent and taken from now on is sealed.
    pub fn seal(&mut self, config: Arc<ClientConfig>) -> io::Result<()> {
        let mut session = ClientConnection::new(config, Identity::server_name()).unwrap();
        while session.is_handshaking() {
            session.complete_io(&mut self.stream)?;
        }
        self.session = Some(session);
        Ok(())
    }

    /// Begins transmission by `GO`.
    fn going(self) -> Self {
        let mut client = self;
        // The empty name, and the wish to know the block sizes.
        client.option(7, &[0, 0, 0, 0, 0, 1, 0, 3]);
        loop {
            let (kind, data) = client.option_reply(7);
            match (kind, data.get(..2)) {
                (3, Some([0, 0])) => {
                    client.size_bytes = u64::from_be_bytes(data[2..10].try_into().unwrap());
                    client.flags = u16::from_be_bytes(data[10..].try_into().unwrap());
                }
                (3, Some([0, 3])) => {
                    client.block_sizes =
                        [2, 6, 10].map(|at| u32::from_be_bytes(data[at..at + 4].try_into().unwrap()));
                }
                (1, _) => return client,
                other => panic!("{other:?}"),
            }
        }
    }

    pub fn send(&mut self, bytes: &[u8]) {
        match &mut self.session {
            Some(session) => rustls::Stream::new(session, &mut self.stream).write_all(bytes).unwrap(),
            None => self.stream.write_all(bytes).unwrap(),
        }
    }

    pub fn take(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        match &mut self.session {
            Some(session) => rustls::Stream::new(session, &mut self.stream).read_exact(&mut bytes).unwrap(),
            None => self.stream.read_exact(&mut bytes).unwrap(),
        }
        bytes
    }

    pub fn option(&mut self, option: u32, data: &[u8]) {
        let len = data.len() as u32;
        self.send(&[OPTION_MAGIC, &option.to_be_bytes()[..], &len.to_be_bytes(), data].concat());
    }

    pub fn option_reply(&mut self, option: u32) -> OptionReply {
        let head = self.take(20);
        assert_eq!(head[..8], 0x0003_e889_0455_65a9u64.to_be_bytes());
        assert_eq!(head[8..12], option.to_be_bytes());
        let [kind, len] = [12, 16].map(|at| u32::from_be_bytes(head[at..at + 4].try_into().unwrap()));
        (kind, self.take(len as usize))
    }

    /// Sends a request without waiting for the reply.
    pub fn request(&mut self, command: u16, flags: u16, cookie: u64, offset: u64, len: u32) {
        let mut bytes = 0x2560_9513u32.to_be_bytes().to_vec();
        bytes.extend_from_slice(&flags.to_be_bytes());
        bytes.extend_from_slice(&command.to_be_bytes());
        bytes.extend_from_slice(&cookie.to_be_bytes());
        bytes.extend_from_slice(&offset.to_be_bytes());
        bytes.extend_from_slice(&len.to_be_bytes());
        self.send(&bytes);
    }

    /// Error and cookie of the next reply.
    pub fn reply(&mut self) -> (u32, u64) {
        let reply = self.take(16);
        assert_eq!(reply[..4], REPLY_MAGIC.to_be_bytes());
        let error = u32::from_be_bytes(reply[4..8].try_into().unwrap());
        (error, u64::from_be_bytes(reply[8..].try_into().unwrap()))
    }

    /// Does a request that moves no bytes back; its error, 0 for none.
    pub fn ask(&mut self, command: u16, flags: u16, offset: u64, len: u32) -> u32 {
        self.request(command, flags, 77, offset, len);
        let (error, cookie) = self.reply();
        assert_eq!(cookie, 77);
        error
    }

    pub fn write(&mut self, flags: u16, offset: u64, bytes: &[u8]) -> u32 {
        self.request(WRITE, flags, 78, offset, bytes.len() as u32);
        self.send(bytes);
        let (error, cookie) = self.reply();
        assert_eq!(cookie, 78);
        error
    }

    pub fn read(&mut self, offset: u64, len: u32) -> Result<Vec<u8>, u32> {
        match self.ask(READ, 0, offset, len) {
            0 => Ok(self.take(len as usize)),
            error => Err(error),
        }
    }

    /// Whether the server has closed the connection, perhaps by a reset.
    pub fn is_left(&mut self) -> bool {
        match self.read_some(&mut [0]) {
            Ok(read) => read == 0,
            Err(error) => error.kind() == io::ErrorKind::ConnectionReset,
        }
    }

    /// Whether the server closes the connection, after whatever it still says.
    pub fn is_cut_off(&mut self) -> bool {
        loop {
            match self.read_some(&mut [0; 512]) {
                Ok(0) => return true,
                Ok(_) => {}
                Err(error) => return error.kind() == io::ErrorKind::ConnectionReset,
            }
        }
    }

    /// Reads what there is. A process that was stopped and goes on has been interrupted.
    fn read_some(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.stream.read(buf) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => return read,
            }
        }
    }

    /// Leaves in order.
    pub fn leave(mut self) {
        self.request(DISC, 0, 0, 0, 0);
        if let Some(session) = &mut self.session {
            // nbdkit waits for the client's last word.
            session.send_close_notify();
            session.complete_io(&mut self.stream).unwrap();
            // Nothing was cut off.
            assert_eq!(rustls::Stream::new(session, &mut self.stream).read(&mut [0]).unwrap(), 0);
        }
        assert!(self.is_left());
    }

    /// Says no more.
    pub fn fall_silent(&self) {
        // The server may have closed it.
        let _ = self.stream.shutdown(Shutdown::Write);
    }
}
