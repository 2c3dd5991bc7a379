//! The child process that serves: a bare port of libfabric, and a donor.

use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use aquifer_remote::donor::{Donor, DonorOptions, Looks};
use aquifer_remote::transport::fabric::{self, Listener};
use aquifer_remote::transport::{Place, Staging};

use super::FILL_BYTES;
use super::sample::Waiting;
use crate::error::{Error, Result};

/// Bytes of the donor's slabs, and of the bare one.
pub const SLAB_BYTES: u64 = 16 << 20;
/// What lets the bare client in.
pub const TOKEN: fabric::Token = [9; 32];
const LIMIT: Duration = Duration::from_secs(10);

/// The child and where its ports are.
pub struct Served {
    child: Child,
    /// Of the bare port.
    pub bare_port: u16,
    /// The donor's.
    pub donor: String,
    answers: BufReader<std::process::ChildStdout>,
}

impl Served {
    /// Starts the child.
    ///
    /// # Errors
    /// It could not be started, or has no libfabric.
    pub fn start(waiting: Waiting) -> Result<Served> {
        let program = std::env::current_exe().map_err(Error::io("finding", "this program"))?;
        let mut child = Command::new(&program)
            .args(["remote", "--serve", &waiting.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(Error::io("starting", &program))?;
        let mut answers = BufReader::new(child.stdout.take().expect("a pipe"));
        let port = line(&mut answers)?;
        let donor = line(&mut answers)?;
        let bare_port = port.parse().map_err(|_| unavailable("the child says no port"))?;
        Ok(Served { child, bare_port, donor, answers })
    }

    /// Where the bare slab is; known when somebody has connected.
    ///
    /// # Errors
    /// The child ended.
    pub fn bare_place(&mut self) -> Result<Place> {
        let said = line(&mut self.answers)?;
        let mut words = said.split(' ').map(str::parse);
        match (words.next(), words.next()) {
            (Some(Ok(address)), Some(Ok(key))) => Ok(Place { address, key }),
            _ => Err(unavailable("the child says no place")),
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // The end of its input tells it to end.
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

fn line(answers: &mut impl BufRead) -> Result<String> {
    let mut text = String::new();
    match answers.read_line(&mut text) {
        Ok(1..) => Ok(text.trim_end().to_owned()),
        _ => Err(unavailable("the child that serves has ended; is libfabric installed?")),
    }
}

fn unavailable(what: impl std::fmt::Display) -> Error {
    Error::Unavailable(what.to_string())
}

/// Serves until the input ends.
///
/// # Errors
/// No libfabric, no memory.
pub fn serve(waiting: Waiting) -> Result<()> {
    let mut listener = Listener::new(fabric::PROVIDER, "127.0.0.1", 0).map_err(unavailable)?;
    let options = DonorOptions {
        address: ([127, 0, 0, 1], 0).into(),
        slab_bytes: SLAB_BYTES,
        lend_bytes: 4 * SLAB_BYTES,
        headroom_bytes: 0,
        lends_to_own_machine: true,
        looks: match waiting {
            Waiting::Spinning => Looks::Always,
            Waiting::Blocking => Looks::Never,
        },
        ..DonorOptions::default()
    };
    let donor = Donor::start(options).map_err(unavailable)?;
    while donor.now().slabs < 4 {
        std::thread::sleep(Duration::from_millis(10));
    }
    println!("{}\n{}", listener.port().map_err(unavailable)?, donor.address());
    std::thread::spawn(move || {
        if let Err(error) = serve_bare(&mut listener, waiting) {
            eprintln!("aquifer-bench: {error}");
        }
    });
    let _ = io::copy(&mut io::stdin(), &mut io::sink());
    // The thread has nothing that must be put in order.
    Ok(())
}

/// Lends one slab to who connects.
fn serve_bare(listener: &mut Listener, waiting: Waiting) -> Result<()> {
    loop {
        let Some(request) = listener.next(LIMIT).map_err(unavailable)? else { continue };
        let mut served = request.accept(LIMIT).map_err(unavailable)?;
        let slab = Staging::new(FILL_BYTES.max(SLAB_BYTES as usize)).map_err(unavailable)?;
        let place = served.lend(&slab, 0x0bad_cafe_0bad_cafe).map_err(unavailable)?;
        println!("{} {}", place.address, place.key);
        let _ = io::stdout().flush();
        while match waiting {
            Waiting::Spinning => served.look(Instant::now() + LIMIT),
            Waiting::Blocking => served.serve(Duration::from_millis(2)),
        } {}
    }
}
