//! `aquifer export`: a heap's numbers for Prometheus.

use std::io::{self, ErrorKind, Write};
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::process::ExitCode;

use crate::arguments::ExportArguments;
use crate::error::Error;
use crate::heap::Heap;
use crate::prometheus;
use crate::server;

/// Offers the numbers until a signal ends the process; with `--once`, prints them.
///
/// # Errors
/// [`Error`] if there is nothing to ask, or the address cannot be listened at. A heap that does not answer
/// later is no error: it is reported as such to those who ask.
pub fn export(arguments: &ExportArguments) -> Result<ExitCode, Error> {
    let mut heap = Heap::of(&arguments.target, arguments.timeout)?;
    if arguments.once {
        return print(&prometheus::text(&heap.measure()?));
    }
    let listener = listen(arguments.listen)?;
    server::serve(&listener, move || match heap.measure() {
        Ok(measurement) => prometheus::text(&measurement),
        Err(_) => prometheus::down(),
    })
}

fn print(text: &str) -> Result<ExitCode, Error> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        // The reader has closed the pipe: it has seen enough.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
        written => Ok(written.map(|()| ExitCode::SUCCESS)?),
    }
}

/// Listens for those who want numbers, and says where.
///
/// # Errors
/// The address is taken, or not this machine's.
pub fn listen(address: SocketAddr) -> Result<TcpListener, Error> {
    let failed = |error| Error::Listen { address, error };
    let listener = TcpListener::bind(address).map_err(failed)?;
    // The port, if any would do, is known now.
    let address = listener.local_addr().map_err(failed)?;
    if let Some(warning) = warning(address.ip()) {
        eprintln!("aquifer: {warning}");
    }
    eprintln!("http://{address}/metrics");
    Ok(listener)
}

/// What to say of an address that others may reach.
fn warning(address: IpAddr) -> Option<String> {
    (!address.to_canonical().is_loopback()).then(|| {
        format!(
            "warning: whoever reaches {address} over the network can read these numbers; there is no password"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_that_others_reach_are_warned_of() {
        let warned = |address: &str| warning(address.parse().unwrap()).is_some();
        assert_eq!(["127.0.0.1", "127.8.9.1", "::1", "::ffff:127.0.0.1"].map(warned), [false; 4]);
        assert_eq!(["0.0.0.0", "::", "192.168.1.1", "8.8.8.8"].map(warned), [true; 4]);
    }
}
