//! Answers one caller after the other.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use crate::http::{Content, HEAD_BYTES_MAX, is_complete, respond};

/// A caller that has not asked, or not taken the answer, after this long is dropped.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long a caller may take to notice that all has been said.
const FAREWELL: Duration = Duration::from_millis(200);
/// Read at a time.
const CHUNK_BYTES: usize = 1024;
/// After a failure to accept, such as too many open files.
const RECOVERY: Duration = Duration::from_millis(100);

/// Answers callers with what `content` makes of a path, for as long as the process lives.
pub fn serve(listener: &TcpListener, mut content: impl FnMut(&str) -> Option<Content>) -> ! {
    loop {
        match listener.accept() {
            // A caller that fails is its own problem.
            Ok((stream, _)) => drop(answer(&stream, &mut content)),
            Err(_) => std::thread::sleep(RECOVERY),
        }
    }
}

fn answer(mut stream: &TcpStream, content: impl FnOnce(&str) -> Option<Content>) -> io::Result<()> {
    let head = read_head(stream)?;
    let response = respond(&head, content).bytes();
    write_until(stream, &response, Instant::now() + PATIENCE)?;
    stream.shutdown(Shutdown::Write)?;
    // Closing with bytes unread would take the response back.
    stream.set_read_timeout(Some(FAREWELL))?;
    let mut rest = [0; CHUNK_BYTES];
    let deadline = Instant::now() + FAREWELL;
    while Instant::now() < deadline && stream.read(&mut rest)? > 0 {}
    Ok(())
}

/// Everything up to the empty line, the caller's end, or the limit; within bounded time however slowly it
/// comes.
fn read_head(mut stream: &TcpStream) -> io::Result<Vec<u8>> {
    let deadline = Instant::now() + PATIENCE;
    let mut head = Vec::new();
    let mut chunk = [0; CHUNK_BYTES];
    while head.len() < HEAD_BYTES_MAX && !is_complete(&head) {
        stream.set_read_timeout(Some(left_until(deadline)?))?;
        match stream.read(&mut chunk) {
            Ok(0) => break,
            Ok(read) => head.extend_from_slice(&chunk[..read]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(head)
}

fn write_until(mut stream: &TcpStream, mut bytes: &[u8], deadline: Instant) -> io::Result<()> {
    while !bytes.is_empty() {
        stream.set_write_timeout(Some(left_until(deadline)?))?;
        match stream.write(bytes) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Time that is left; never none, which the system would take for no limit.
fn left_until(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;

    fn start() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            serve(&listener, |path| (path == "/metrics").then(|| Content::metrics("up 1\n".into())))
        });
        address
    }

    fn ask(address: SocketAddr, request: &[u8]) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(request).unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        response
    }

    #[test]
    fn callers_are_answered_one_after_the_other() {
        let address = start();
        for _ in 0..3 {
            assert!(ask(address, b"GET /metrics HTTP/1.1\r\n\r\n").ends_with("\r\n\r\nup 1\n"));
            assert!(ask(address, b"GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.0 404 "));
        }
    }

    #[test]
    fn long_requests_and_silent_callers_do_not_stay() {
        let address = start();
        assert!(ask(address, &[b'x'; HEAD_BYTES_MAX + 500]).starts_with("HTTP/1.0 431 "));
        let began = Instant::now();
        let mut silent = TcpStream::connect(address).unwrap();
        silent.write_all(b"GET /metrics").unwrap();
        assert!(ask(address, b"GET /metrics HTTP/1.1\r\n\r\n").contains("200 OK"));
        assert!(began.elapsed() < PATIENCE * 10);
        let mut left = Vec::new();
        let _ = silent.read_to_end(&mut left);
        assert_eq!(left, b"", "a caller that said nothing gets nothing");
    }
}
