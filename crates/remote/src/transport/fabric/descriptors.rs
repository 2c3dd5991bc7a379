//! Descriptors that the library opens for a connection.
//!
//! A program that knows nothing of them may close all descriptors, or give their numbers to others; then the library would write to the program's files.

use std::fs;
use std::mem::ManuallyDrop;
use std::net::TcpStream;
use std::os::fd::{FromRawFd, RawFd};

use aquifer_sys::descriptors;

/// The descriptors of a connection.
pub struct Descriptors {
    noted: Vec<RawFd>,
}

impl Descriptors {
    /// The descriptors that `open` makes for a connection to `port`. Similar descriptors (`epoll`, `eventfd`)
    /// that other threads open meanwhile are noted, too: the program cannot close them before the connection
    /// ends.
    pub fn of<T>(port: u16, open: impl FnOnce() -> T) -> (T, Descriptors) {
        let before = all();
        let opened = open();
        let is_new = |descriptor: &(RawFd, String)| !before.contains(descriptor);
        let is_its = |(fd, target): &(RawFd, String)| {
            target.starts_with("anon_inode:[event") || (target.starts_with("socket:") && leads_to(*fd, port))
        };
        let noted: Vec<_> =
            all().into_iter().filter(|it| is_new(it) && is_its(it)).map(|(fd, _)| fd).collect();
        noted.iter().for_each(|fd| descriptors::note(*fd));
        (opened, Descriptors { noted })
    }

    /// They are closed next.
    pub fn forget(&mut self) {
        self.noted.drain(..).for_each(descriptors::forget);
    }
}

/// Whether a socket is connected to this port.
fn leads_to(fd: RawFd, port: u16) -> bool {
    // SAFETY: the descriptor is only asked for its peer, and not closed; if somebody else has closed it, there is none.
    let socket = ManuallyDrop::new(unsafe { TcpStream::from_raw_fd(fd) });
    socket.peer_addr().is_ok_and(|peer| peer.port() == port)
}

/// All descriptors of this process, and what they are open to.
fn all() -> Vec<(RawFd, String)> {
    let Ok(entries) = fs::read_dir("/proc/self/fd") else { return Vec::new() };
    let entries = entries.filter_map(|entry| {
        let entry = entry.ok()?;
        let fd = entry.file_name().to_str()?.parse().ok()?;
        let target = fs::read_link(entry.path()).ok()?;
        Some((fd, target.to_string_lossy().into_owned()))
    });
    entries.collect()
}
