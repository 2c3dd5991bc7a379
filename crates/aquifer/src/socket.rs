//! Statistics and checks for other processes.
//!
//! One request per connection, a line of text: `stats`, `latency`, `events` or `check`. The answer is one line of JSON.

use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use aquifer_device::own;
use aquifer_sys::descriptors;
use aquifer_sys::helper::Helper;
use serde_json::json;

use crate::assembly::Assembly;
use crate::error::Error;
use crate::stats::Stats;

/// Longest request that is read.
const REQUEST_BYTES_MAX: usize = 64;
/// A client that has not said all it wants after this long is dropped.
const PATIENCE: Duration = Duration::from_secs(2);
/// Between two looks for a client.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// The thread that answers; it ends when this is dropped.
pub(crate) struct Server {
    path: PathBuf,
    stop: Arc<AtomicBool>,
    thread: Option<Helper>,
}

impl Server {
    pub(crate) fn start(path: &Path, parts: &Arc<Assembly>) -> Result<Self, Error> {
        let failed =
            |error| Error::System { what: format!("the socket {} could not be made", path.display()), error };
        // A socket that a dead process left behind refuses connections. Anything else at the path stays.
        let is_socket = std::fs::symlink_metadata(path).is_ok_and(|meta| meta.file_type().is_socket());
        if is_socket && UnixStream::connect(path).is_err_and(|e| e.kind() == ErrorKind::ConnectionRefused) {
            std::fs::remove_file(path).map_err(failed)?;
        }
        let listener = own(UnixListener::bind(path).map_err(failed)?);
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).map_err(failed)?;
        // The thread looks for its end between clients; waking it by a connection would need the path.
        listener.set_nonblocking(true).map_err(failed)?;
        let stop = Arc::new(AtomicBool::new(false));
        let (weak, stopping) = (Arc::downgrade(parts), stop.clone());
        let thread = Helper::start(c"aquifer-socket", move || {
            serve(&listener, &weak, &stopping);
            descriptors::forget(listener.as_raw_fd());
        })
        .map_err(|errno| failed(std::io::Error::from_raw_os_error(errno.0)))?;
        Ok(Self { path: path.to_owned(), stop, thread: Some(thread) })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if aquifer_vm::fork::is_forked() {
            return;
        }
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.join();
        }
        let _ = std::fs::remove_file(&self.path);
    }
}

fn serve(listener: &UnixListener, parts: &Weak<Assembly>, stop: &AtomicBool) {
    while !stop.load(Ordering::Acquire) {
        match listener.accept() {
            // A client that fails is its own problem.
            Ok((stream, _)) => drop(answer(&stream, parts)),
            Err(_) => std::thread::sleep(LOOK_AGAIN),
        }
    }
}

fn answer(stream: &UnixStream, parts: &Weak<Assembly>) -> std::io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let request = read_request(stream)?;
    let reply = match parts.upgrade() {
        None => json!({ "error": "the heap is closing" }),
        Some(parts) => reply_to(request.trim(), &parts),
    };
    // As one write: a value writes itself in small pieces.
    let line = format!("{reply}\n");
    let mut stream = stream;
    stream.write_all(line.as_bytes())
}

/// The first line, of bounded length and within bounded time however slowly it comes.
fn read_request(mut stream: &UnixStream) -> std::io::Result<String> {
    let deadline = Instant::now() + PATIENCE;
    let mut request = [0; REQUEST_BYTES_MAX];
    let mut len = 0;
    while len < request.len() && !request[..len].contains(&b'\n') {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut request[len..])? {
            0 => break,
            read => len += read,
        }
    }
    Ok(String::from_utf8_lossy(&request[..len]).into_owned())
}

/// How long reads from flash took, by powers of two.
fn latency(parts: &Assembly) -> serde_json::Value {
    let (upper, count): (Vec<u64>, Vec<u64>) = parts.engine.read_durations().counts().unzip();
    json!({ "upper_ns": upper, "count": count })
}

fn reply_to(request: &str, parts: &Assembly) -> serde_json::Value {
    match request {
        "stats" => {
            let (pid, stats) = (std::process::id(), Stats::of(parts));
            match &parts.remote {
                None => json!({ "pid": pid, "version": crate::VERSION, "stats": stats }),
                Some(remote) => {
                    json!({ "pid": pid, "version": crate::VERSION, "stats": stats, "remote": remote.shown() })
                }
            }
        }
        "latency" => json!({ "pid": std::process::id(), "latency": latency(parts) }),
        "events" => match &parts.remote {
            None => json!({ "error": "this heap has no donors, and so no events" }),
            Some(remote) => {
                json!({ "pid": std::process::id(), "version": crate::VERSION, "events": remote.events() })
            }
        },
        "check" => {
            let (pid, waits) = (std::process::id(), parts.engine.long_waits());
            match parts.allocator.check() {
                Ok(()) => json!({ "pid": pid, "check": "ok", "waits": waits }),
                Err(problem) => json!({ "pid": pid, "check": "failed", "problem": problem, "waits": waits }),
            }
        }
        _ => json!({ "error": "unknown request; stats, latency, events and check are known" }),
    }
}
