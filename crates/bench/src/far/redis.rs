//! A Redis server on the loopback interface.

use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::Command;

use crate::error::{Error, Result};
use crate::service::Service;

/// A server that keeps everything in RAM and nothing on a disk; ended when dropped.
#[derive(Debug)]
pub struct Redis {
    address: SocketAddr,
    _service: Service,
}

impl Redis {
    /// Starts it.
    ///
    /// # Errors
    /// [`Error::Unavailable`] with its last words.
    pub fn start(program: &Path) -> Result<Self> {
        let address = free_address()?;
        let mut command = Command::new(program);
        command.args(["--bind", "127.0.0.1", "--port", &address.port().to_string()]);
        command.args(["--save", "", "--appendonly", "no", "--daemonize", "no"]);
        let mut service = Service::start("Redis server", command)?;
        service.wait_for(|line| line.contains("eady to accept connections").then_some(()))?;
        Ok(Self { address, _service: service })
    }

    /// Where it is.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// Redis does not choose a port by itself.
fn free_address() -> Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0");
    listener.and_then(|listener| listener.local_addr()).map_err(Error::io("finding", "a free port"))
}
