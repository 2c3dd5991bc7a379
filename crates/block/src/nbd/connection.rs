//! One client, from its greeting to its end.

use std::io::{Read, Write};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use aquifer_device::{Device, DeviceError};
use rustls::ServerConfig;

use super::buffer::RequestBuffer;
use super::ended::Ended;
use super::export::Export;
use super::negotiation::{Negotiation, Progress};
use super::stream::Stream;
use super::transfer::{Transfer, broken_off};
use super::transmission::Transmission;

/// A client that has not asked for its first block after this long is dropped.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Stack of each thread. Little, because a process whose memory is locked pays for all of it.
pub const STACK_BYTES: usize = 256 << 10;

/// What the clients of one server share.
pub struct Served {
    pub device: Arc<dyn Device>,
    pub export: Export,
    /// Requests of one connection that are done at once.
    pub threads: usize,
    /// If there is TLS, nobody is served without.
    pub tls: Option<Arc<ServerConfig>>,
}

/// Serves one client until it leaves.
///
/// # Errors
/// [`Ended`], if it did not leave in order.
pub fn serve(
    served: &Served,
    stream: &Stream,
    on_failure: &(dyn Fn(&DeviceError) + Sync),
) -> Result<(), Ended> {
    stream.prepare()?;
    if negotiate(served, stream)? == Progress::Leaves {
        stream.say_farewell();
        return Ok(());
    }
    stream.set_patience(None)?;
    let transfer = Transfer::new(&*served.device, on_failure);
    let transmission = Transmission::new(stream, &served.export, transfer);
    // Allocates all buffers before the first request: later the machine may have no free memory.
    let mut buffers: Vec<RequestBuffer> = (0..served.threads.max(1)).map(|_| RequestBuffer::new()).collect();
    thread::scope(|scope| {
        let (own, others) = buffers.split_first_mut().expect("there is one at least");
        for buffer in others {
            let builder = thread::Builder::new().name("aq-block-io".into()).stack_size(STACK_BYTES);
            // With fewer threads it is slower, and goes on.
            if builder.spawn_scoped(scope, || transmission.work(buffer)).is_err() {
                break;
            }
        }
        transmission.work(own);
    });
    match transmission.why() {
        Some(ended) => Err(ended),
        None => {
            stream.say_farewell();
            Ok(())
        }
    }
}

/// Takes the client's options until it begins or leaves.
fn negotiate(served: &Served, mut stream: &Stream) -> Result<Progress, Ended> {
    let deadline = Instant::now() + PATIENCE;
    let mut negotiation = Negotiation::new(&served.export, served.tls.is_some());
    let (mut message, mut answer) = (Vec::new(), Vec::new());
    stream.set_patience(Some(PATIENCE))?;
    stream.write_all(&Negotiation::greeting())?;
    loop {
        message.resize(negotiation.awaits_bytes(), 0);
        read_until(stream, &mut message, deadline)?;
        answer.clear();
        let progress = negotiation.take(&message, &mut answer)?;
        if progress == Progress::Transmits {
            // Before the client knows: from then on it keeps its place while it is idle.
            stream.pace().begin_transmission();
        }
        stream.write_all(&answer).map_err(slow)?;
        match (progress, &served.tls) {
            (Progress::Continues, _) => {}
            // Nothing was read ahead, so that nothing that came unsealed is believed.
            (Progress::Seals, Some(config)) => stream.seal(config, deadline)?,
            _ => return Ok(progress),
        }
    }
}

/// Fills `buf` before the deadline, however slowly the bytes come.
fn read_until(mut stream: &Stream, buf: &mut [u8], deadline: Instant) -> Result<(), Ended> {
    let mut filled = 0;
    while filled < buf.len() {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Ended::Slow(PATIENCE));
        }
        stream.set_patience(Some(left))?;
        match stream.read(&mut buf[filled..]) {
            Ok(0) => return Err(Ended::BrokeOff),
            Ok(read) => filled += read,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(slow(error)),
        }
    }
    Ok(())
}

fn slow(error: std::io::Error) -> Ended {
    use std::io::ErrorKind::{TimedOut, WouldBlock};
    if matches!(error.kind(), TimedOut | WouldBlock) { Ended::Slow(PATIENCE) } else { broken_off(error) }
}
