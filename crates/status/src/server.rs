//! The socket, and the thread that answers.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use aquifer_device::own;
use aquifer_sys::descriptors;
use aquifer_sys::helper::Helper;
use serde_json::Value;

use crate::{Question, refusal};

/// Longest question that is read.
const QUESTION_BYTES_MAX: usize = 64;
/// A client that has not said all it wants after this long is dropped.
const PATIENCE: Duration = Duration::from_secs(2);
/// Between two looks for a client.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// The thread that answers; it ends when this is dropped.
#[derive(Debug)]
pub struct Server {
    path: PathBuf,
    stop: Arc<AtomicBool>,
    thread: Option<Helper>,
    process: u32,
}

impl Server {
    /// Answers at `path`, which only this user can reach, by what `answer` makes of questions. A socket that a dead process left behind is replaced;
    /// anything else at the path stays.
    ///
    /// # Errors
    /// The system's: the path is taken, too long or not to be written, or there is no room for a thread.
    pub fn start(path: &Path, answer: impl Fn(Question) -> Value + Send + 'static) -> io::Result<Self> {
        let is_socket = std::fs::symlink_metadata(path).is_ok_and(|meta| meta.file_type().is_socket());
        if is_socket && UnixStream::connect(path).is_err_and(|e| e.kind() == ErrorKind::ConnectionRefused) {
            std::fs::remove_file(path)?;
        }
        let listener = own(UnixListener::bind(path)?);
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
        // The thread looks for its end between clients; waking it by a connection would need the path.
        listener.set_nonblocking(true)?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopping = stop.clone();
        let thread = Helper::start(c"aquifer-socket", move || {
            serve(&listener, &answer, &stopping);
            descriptors::forget(listener.as_raw_fd());
        });
        let thread = thread.map_err(|errno| io::Error::from_raw_os_error(errno.0))?;
        Ok(Self { path: path.to_owned(), stop, thread: Some(thread), process: std::process::id() })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A child of the process that started it has no such thread, and the socket is not its own.
        if self.process != std::process::id() {
            return;
        }
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.join();
        }
        let _ = std::fs::remove_file(&self.path);
    }
}

fn serve(listener: &UnixListener, answer: &dyn Fn(Question) -> Value, stop: &AtomicBool) {
    while !stop.load(Ordering::Acquire) {
        match listener.accept() {
            // A client that fails is its own problem.
            Ok((stream, _)) => drop(reply(&stream, answer)),
            Err(_) => std::thread::sleep(LOOK_AGAIN),
        }
    }
}

fn reply(mut stream: &UnixStream, answer: &dyn Fn(Question) -> Value) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let value = match Question::of(&read_question(stream)?) {
        Some(question) => answer(question),
        None => refusal("unknown request; stats, latency, events and check are known"),
    };
    // As one write: a value writes itself in small pieces.
    let line = format!("{value}\n");
    stream.write_all(line.as_bytes())
}

/// The first line, of bounded length and within bounded time however slowly it comes.
fn read_question(mut stream: &UnixStream) -> io::Result<String> {
    let deadline = Instant::now() + PATIENCE;
    let mut question = [0; QUESTION_BYTES_MAX];
    let mut len = 0;
    while len < question.len() && !question[..len].contains(&b'\n') {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut question[len..])? {
            0 => break,
            read => len += read,
        }
    }
    Ok(String::from_utf8_lossy(&question[..len]).into_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn ask(path: &Path, question: &str) -> String {
        let mut stream = UnixStream::connect(path).unwrap();
        stream.write_all(question.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn each_question_has_an_answer_until_the_server_ends() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("status.sock");
        let server = Server::start(&path, |question| json!({ "asked": question.word() })).unwrap();
        for question in Question::ALL {
            let expected = format!("{{\"asked\":\"{}\"}}\n", question.word());
            assert_eq!(ask(&path, &format!("{}\n", question.word())), expected);
        }
        assert!(ask(&path, "stat\n").contains("unknown request"));
        assert!(ask(&path, &"x".repeat(QUESTION_BYTES_MAX)).contains("unknown request"));
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let taken = Server::start(&path, |_| Value::Null).unwrap_err();
        assert_eq!(taken.kind(), ErrorKind::AddrInUse);
        drop(server);
        assert!(!path.exists());
    }

    #[test]
    fn what_a_dead_process_left_is_replaced_and_a_file_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("status.sock");
        drop(UnixListener::bind(&path).unwrap());
        drop(Server::start(&path, |_| Value::Null).unwrap());
        std::fs::write(&path, "precious").unwrap();
        assert!(Server::start(&path, |_| Value::Null).is_err());
        assert_eq!(std::fs::read(&path).unwrap(), b"precious");
    }
}
