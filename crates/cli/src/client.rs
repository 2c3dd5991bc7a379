//! Questions to a socket.

use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use aquifer_status::Question;

use crate::error::Error;

/// Longest answer that is read. The library's own are below 4 KiB, 1 KiB for each donor, and 256 KiB of events.
pub const REPLY_BYTES_MAX: usize = 1 << 20;
/// Read at a time.
const CHUNK_BYTES: usize = 4096;

/// Asks at one socket, one question at a time.
pub struct Client {
    path: PathBuf,
    /// The answer to a question that was given up. The next one waits for its thread, so that a peer that
    /// never answers costs one thread, not one for each question.
    late: Option<Receiver<io::Result<Vec<u8>>>>,
}

impl Client {
    /// A client of the socket at `path`; nothing is connected yet.
    pub fn new(path: PathBuf) -> Self {
        Self { path, late: None }
    }

    /// Where it asks.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The line that the peer answers, without its end.
    ///
    /// # Errors
    /// [`Error`], which names the path. Whatever the peer does, at most [`REPLY_BYTES_MAX`] bytes are kept,
    /// and the call returns when `patience` is over.
    pub fn ask(&mut self, question: Question, patience: Duration) -> Result<Vec<u8>, Error> {
        let deadline = Instant::now() + patience;
        let shown = self.path.display().to_string();
        let silent = || Error::Silent { path: shown.clone(), seconds: patience.as_secs_f64() };
        if let Some(late) = self.late.take()
            && matches!(late.recv_timeout(patience), Err(RecvTimeoutError::Timeout))
        {
            self.late = Some(late);
            return Err(silent());
        }
        let answer = self.begin(question, deadline);
        match answer.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(Ok(line)) => whole_line(line, shown),
            Ok(Err(error)) if is_timeout(&error) => Err(silent()),
            Ok(Err(error)) => Err(explain(shown, error)),
            Err(_) => {
                self.late = Some(answer);
                Err(silent())
            }
        }
    }

    /// Asks in a thread of its own, because connecting blocks for as long as the peer accepts nobody.
    fn begin(&self, question: Question, deadline: Instant) -> Receiver<io::Result<Vec<u8>>> {
        let (sender, receiver) = mpsc::sync_channel(1);
        let path = self.path.clone();
        std::thread::spawn(move || {
            let _ = sender.send(exchange(&path, question, deadline));
        });
        receiver
    }
}

/// Everything up to the first end of line, or one byte more than is allowed.
fn exchange(path: &Path, question: Question, deadline: Instant) -> io::Result<Vec<u8>> {
    let mut stream = UnixStream::connect(path)?;
    stream.set_write_timeout(Some(left_until(deadline)?))?;
    stream.write_all(format!("{}\n", question.word()).as_bytes())?;
    let mut line = Vec::new();
    let mut chunk = [0; CHUNK_BYTES];
    while line.len() <= REPLY_BYTES_MAX {
        stream.set_read_timeout(Some(left_until(deadline)?))?;
        let read = match stream.read(&mut chunk) {
            Ok(0) => break,
            Ok(read) => &chunk[..read],
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let end = read.iter().position(|&byte| byte == b'\n').map(|at| at + 1);
        line.extend_from_slice(&read[..end.unwrap_or(read.len())]);
        if end.is_some() {
            break;
        }
    }
    Ok(line)
}

/// Time that is left; never none, which the system would take for no limit.
fn left_until(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::WouldBlock)
}

fn whole_line(mut line: Vec<u8>, path: String) -> Result<Vec<u8>, Error> {
    let ended = line.pop_if(|last| *last == b'\n').is_some();
    if line.len() > REPLY_BYTES_MAX {
        Err(Error::TooLong { path, limit: REPLY_BYTES_MAX })
    } else if ended {
        Ok(line)
    } else {
        Err(Error::BrokeOff(path))
    }
}

fn explain(path: String, error: io::Error) -> Error {
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => Error::NothingThere(path),
        ErrorKind::ConnectionRefused => Error::NobodyThere(path),
        ErrorKind::PermissionDenied => Error::Denied(path),
        ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => Error::BrokeOff(path),
        _ => Error::Talk { path, error },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    #[test]
    fn a_peer_that_was_silent_is_asked_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("peer.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let mut client = Client::new(path);
        let brief = Duration::from_millis(30);
        for _ in 0..3 {
            assert!(matches!(client.ask(Question::Stats, brief), Err(Error::Silent { .. })));
        }
        let peer = std::thread::spawn(move || {
            // The three silent connections end here, before the one that is answered.
            for stream in listener.incoming().map_while(Result::ok) {
                let mut question = [0; 6];
                let mut stream = stream;
                if stream.read_exact(&mut question).is_ok() && stream.write_all(b"{}\n").is_ok() {
                    continue;
                }
            }
        });
        assert_eq!(client.ask(Question::Stats, Duration::from_secs(20)).unwrap(), b"{}");
        drop(peer);
    }

    #[test]
    fn a_peer_that_drips_is_left_in_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("peer.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let peer = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            while stream.write_all(b"x").is_ok() {
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        let began = Instant::now();
        let answer = Client::new(path).ask(Question::Stats, Duration::from_millis(100));
        assert!(matches!(answer, Err(Error::Silent { .. })), "{answer:?}");
        assert!(began.elapsed() < Duration::from_secs(10));
        peer.join().expect("the client hangs up");
    }
}
