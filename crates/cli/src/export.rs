//! `aquifer export`: a heap's numbers for Prometheus, and as a page that is live.

use std::io::{self, ErrorKind, Write};
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::process::ExitCode;

use serde_json::json;

use crate::arguments::ExportArguments;
use crate::error::{Error, printable};
use crate::heap::{Heap, Measurement};
use crate::http::Content;
use crate::prometheus;
use crate::server;

/// It brings its styles and its program, and asks for `/numbers` once a second.
const PAGE: &str = include_str!("export/page.html");

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
    eprintln!("http://{}/ is a page for people", listener.local_addr()?);
    server::serve(&listener, move |path| match path {
        "/" => Some(Content { content_type: "text/html; charset=utf-8", body: Ok(PAGE.into()) }),
        "/metrics" => Some(Content::metrics(match heap.measure() {
            Ok(measurement) => prometheus::text(&measurement),
            Err(_) => prometheus::down(),
        })),
        "/numbers" => Some(Content { content_type: "application/json", body: numbers(heap.measure()) }),
        _ => None,
    })
}

/// What the page asks for, or why there is nothing.
fn numbers(measured: Result<Measurement, Error>) -> Result<String, String> {
    let Measurement { sample, latency, .. } = measured.map_err(|error| printable(&error.to_string()))?;
    Ok(json!({ "sample": sample, "latency": latency.ok() }).to_string())
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
