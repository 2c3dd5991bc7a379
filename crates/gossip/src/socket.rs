//! The datagrams of gossip: sealed on their way out, opened on their way in.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chitchat::ChitchatMessage;
use chitchat::transport::{Socket, Transport};

use crate::drops::{Dropped, Drops};
use crate::message::{self, digest_bytes};
use crate::seal::{DATAGRAM_BYTES_MAX, Refused, Seal, now};

/// Longest list of donors in one message: some 700. The list of two such messages together still fits into a datagram with room for news, which the protocol takes
/// for granted.
const DIGEST_BYTES_MAX: usize = 32_000;
/// Pause after the system could not receive, which it says of datagrams that were sent, too.
const PAUSE: Duration = Duration::from_millis(10);

/// Opens sockets on one port of UDP, as often as gossip begins anew.
pub struct SealedTransport {
    pub socket: UdpSocket,
    pub key: Option<[u8; 32]>,
    pub drops: Arc<Drops>,
}

#[async_trait]
impl Transport for SealedTransport {
    async fn open(&self, _: SocketAddr) -> anyhow::Result<Box<dyn Socket>> {
        let socket = tokio::net::UdpSocket::from_std(self.socket.try_clone()?)?;
        Ok(Box::new(SealedSocket {
            socket,
            seal: Seal::new(self.key)?,
            drops: Arc::clone(&self.drops),
            // One byte more than the longest, so that what is longer shows.
            incoming: vec![0; DATAGRAM_BYTES_MAX + 1].into(),
            own_digest_bytes: 0,
        }))
    }
}

struct SealedSocket {
    socket: tokio::net::UdpSocket,
    seal: Seal,
    drops: Arc<Drops>,
    incoming: Box<[u8]>,
    /// Of the last message that went out.
    own_digest_bytes: usize,
}

#[async_trait]
impl Socket for SealedSocket {
    async fn send(&mut self, to: SocketAddr, message: ChitchatMessage) -> anyhow::Result<()> {
        self.own_digest_bytes = digest_bytes(&message).unwrap_or(self.own_digest_bytes);
        let datagram = self.seal.seal(&message::bytes(&message), now());
        if datagram.len() > DATAGRAM_BYTES_MAX {
            self.drops.note(to, Dropped::Refused(Refused::Oversize));
        } else if self.socket.send_to(&datagram, to).await.is_ok() {
            self.drops.note_sent();
        }
        // What does not arrive is told again in the next round.
        Ok(())
    }

    async fn recv(&mut self) -> anyhow::Result<(SocketAddr, ChitchatMessage)> {
        loop {
            let Ok((len, from)) = self.socket.recv_from(&mut self.incoming).await else {
                tokio::time::sleep(PAUSE).await;
                continue;
            };
            match self.read(len) {
                Ok(message) => {
                    self.drops.note_received();
                    return Ok((from, message));
                }
                Err(why) => self.drops.note(from, why),
            }
        }
    }
}

impl SealedSocket {
    fn read(&mut self, len: usize) -> Result<ChitchatMessage, Dropped> {
        let opened = self.seal.open(&mut self.incoming[..len], now()).map_err(Dropped::Refused)?;
        let message = message::parse(opened).ok_or(Dropped::Refused(Refused::Malformed))?;
        let theirs = digest_bytes(&message);
        if theirs.is_some_and(|theirs| theirs.max(self.own_digest_bytes) > DIGEST_BYTES_MAX) {
            return Err(Dropped::Crowded);
        }
        Ok(message)
    }
}
