//! One question to a socket.

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use crate::error::Error;

/// Longest answer that is read. The library's own are below 4 KiB.
pub const REPLY_BYTES_MAX: usize = 64 << 10;

/// What can be asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Question {
    /// The heap's numbers.
    Stats,
    /// Whether its parts agree.
    Check,
}

impl Question {
    fn line(self) -> &'static [u8] {
        match self {
            Self::Stats => b"stats\n",
            Self::Check => b"check\n",
        }
    }
}

/// The line that the peer at `path` answers, without its end.
///
/// # Errors
/// [`Error`], which names the path. Whatever the peer does, at most [`REPLY_BYTES_MAX`] bytes are kept, and
/// the call returns when `patience` is over.
pub fn ask(path: &Path, question: Question, patience: Duration) -> Result<Vec<u8>, Error> {
    let (sender, receiver) = mpsc::sync_channel(1);
    let to = path.to_owned();
    // A thread of its own, because connecting blocks too, for as long as the peer accepts nobody. If it is
    // given up it ends with the process, which then has nothing else to do.
    std::thread::spawn(move || {
        let _ = sender.send(exchange(&to, question));
    });
    let shown = path.display().to_string();
    let line = match receiver.recv_timeout(patience) {
        Ok(answer) => answer.map_err(|error| explain(shown.clone(), error))?,
        Err(_) => return Err(Error::Silent { path: shown, seconds: patience.as_secs_f64() }),
    };
    whole_line(line, shown)
}

/// Everything up to the first end of line, or one byte more than is allowed.
fn exchange(path: &Path, question: Question) -> io::Result<Vec<u8>> {
    let mut stream = UnixStream::connect(path)?;
    stream.write_all(question.line())?;
    let mut line = Vec::new();
    BufReader::new(stream.take(REPLY_BYTES_MAX as u64 + 1)).read_until(b'\n', &mut line)?;
    Ok(line)
}

fn whole_line(mut line: Vec<u8>, path: String) -> Result<Vec<u8>, Error> {
    if line.pop_if(|last| *last == b'\n').is_some() {
        Ok(line)
    } else if line.len() > REPLY_BYTES_MAX {
        Err(Error::TooLong { path, limit: REPLY_BYTES_MAX })
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
