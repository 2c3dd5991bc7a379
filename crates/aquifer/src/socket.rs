//! Statistics and checks for other processes.
//!
//! One request per connection, a line of text: `stats` or `check`. The answer is one line of JSON.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use aquifer_sys::SignalsBlocked;
use serde_json::json;

use crate::assembly::Assembly;
use crate::error::Error;
use crate::stats::Stats;

/// Longest request that is read.
const REQUEST_BYTES_MAX: u64 = 64;
/// A client that says nothing for this long is dropped.
const PATIENCE: Duration = Duration::from_secs(2);

/// The thread that answers; it ends when this is dropped.
pub(crate) struct Server {
    path: PathBuf,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    pub(crate) fn start(path: &Path, parts: &Arc<Assembly>) -> Result<Self, Error> {
        let failed =
            |error| Error::System { what: format!("the socket {} could not be made", path.display()), error };
        // A socket that a dead process left behind refuses connections.
        if UnixStream::connect(path).is_err_and(|e| e.kind() == std::io::ErrorKind::ConnectionRefused) {
            std::fs::remove_file(path).map_err(failed)?;
        }
        let listener = UnixListener::bind(path).map_err(failed)?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).map_err(failed)?;
        let stop = Arc::new(AtomicBool::new(false));
        let (weak, stopping) = (Arc::downgrade(parts), stop.clone());
        let thread = std::thread::Builder::new()
            .name("aquifer-socket".into())
            .stack_size(256 << 10)
            .spawn(move || {
                let _signals = SignalsBlocked::new();
                serve(&listener, &weak, &stopping);
            })
            .map_err(failed)?;
        Ok(Self { path: path.to_owned(), stop, thread: Some(thread) })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if aquifer_vm::fork::is_forked() {
            std::mem::forget(self.thread.take());
            return;
        }
        self.stop.store(true, Ordering::Release);
        // Wakes the thread from accept.
        let _ = UnixStream::connect(&self.path);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        let _ = std::fs::remove_file(&self.path);
    }
}

fn serve(listener: &UnixListener, parts: &Weak<Assembly>, stop: &AtomicBool) {
    for stream in listener.incoming() {
        if stop.load(Ordering::Acquire) {
            return;
        }
        // A client that fails is its own problem.
        let _ = stream.and_then(|stream| answer(stream, parts));
    }
}

fn answer(stream: UnixStream, parts: &Weak<Assembly>) -> std::io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut request = String::new();
    BufReader::new((&stream).take(REQUEST_BYTES_MAX)).read_line(&mut request)?;
    let reply = match parts.upgrade() {
        None => json!({ "error": "the heap is closing" }),
        Some(parts) => reply_to(request.trim(), &parts),
    };
    writeln!(&stream, "{reply}")
}

fn reply_to(request: &str, parts: &Assembly) -> serde_json::Value {
    match request {
        "stats" => json!({ "pid": std::process::id(), "version": crate::VERSION, "stats": Stats::of(parts) }),
        "check" => match parts.allocator.check() {
            Ok(()) => json!({ "pid": std::process::id(), "check": "ok" }),
            Err(problem) => json!({ "pid": std::process::id(), "check": "failed", "problem": problem }),
        },
        _ => json!({ "error": "unknown request; stats and check are known" }),
    }
}
