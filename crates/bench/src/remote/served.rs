//! The children that serve: one a bare port of libfabric, one a donor. While one is measured the other is stopped, so that it takes no processor by looking.

use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use clap::ValueEnum;

use aquifer_remote::donor::{Donor, DonorOptions, Looks};
use aquifer_remote::transport::ServeLink;
use aquifer_remote::transport::fabric::{self, Listener};
use aquifer_remote::transport::{Place, Staging};

use super::FILL_BYTES;
use super::Waiting;
use crate::error::{Error, Result};

/// Bytes of the donor's slabs, and of the bare one.
pub const SLAB_BYTES: u64 = 16 << 20;
/// What lets the bare client in.
pub const TOKEN: fabric::Token = [9; 32];
/// Hidden subcommand that a child is started with.
pub const SERVE_COMMAND: &str = "serve";
const LIMIT: Duration = Duration::from_secs(10);

/// What a child serves.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Kind {
    /// A port that knows nothing but libfabric.
    Bare,
    /// A donor.
    Donor,
}

/// A child, and where its port is.
pub struct Served {
    child: Child,
    /// Of a bare port its number, of a donor its address.
    pub place: String,
    answers: BufReader<std::process::ChildStdout>,
}

impl Served {
    /// Starts a child.
    ///
    /// # Errors
    /// It could not be started, or has no libfabric.
    pub fn start(kind: Kind, waiting: Waiting) -> Result<Served> {
        let program = std::env::current_exe().map_err(Error::io("finding", "this program"))?;
        let mut child = Command::new(&program)
            .arg(SERVE_COMMAND)
            .arg(kind.to_possible_value().expect("none is hidden").get_name())
            .arg(waiting.to_possible_value().expect("none is hidden").get_name())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(Error::io("starting", &program))?;
        let mut answers = BufReader::new(child.stdout.take().expect("a pipe"));
        let place = line(&mut answers)?;
        Ok(Served { child, place, answers })
    }

    /// Lets it go on.
    pub fn resume(&self) {
        self.signal(libc::SIGCONT);
    }

    /// Stops it, until it is to go on.
    pub fn pause(&self) {
        self.signal(libc::SIGSTOP);
    }

    fn signal(&self, signal: i32) {
        // SAFETY: a child that was not waited for, so the number is its own.
        let sent = unsafe { libc::kill(self.child.id() as i32, signal) };
        assert_eq!(sent, 0, "a child can be signalled");
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
        self.resume();
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
pub fn serve(kind: Kind, waiting: Waiting) -> Result<()> {
    match kind {
        Kind::Bare => {
            let mut listener = Listener::new(fabric::PROVIDER, "127.0.0.1", 0).map_err(unavailable)?;
            println!("{}", listener.port().map_err(unavailable)?);
            std::thread::spawn(move || {
                if let Err(error) = serve_bare(&mut listener, waiting) {
                    eprintln!("aquifer-bench: {error}");
                }
            });
            wait_for_end();
            // The thread has nothing that must be put in order.
        }
        Kind::Donor => {
            let donor = lend(waiting)?;
            println!("{}", donor.address());
            wait_for_end();
        }
    }
    Ok(())
}

fn wait_for_end() {
    let _ = io::copy(&mut io::stdin(), &mut io::sink());
}

/// A donor that has its slabs.
fn lend(waiting: Waiting) -> Result<Donor> {
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
    Ok(donor)
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
            Waiting::Spinning => served.look(LIMIT),
            Waiting::Blocking => served.serve(Duration::from_millis(2)),
        } {}
    }
}
