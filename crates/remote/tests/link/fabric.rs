//! Over libfabric and TCP, on this machine.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread::{Scope, ScopedJoinHandle};
use std::time::Duration;

use aquifer_remote::transport::fabric::{self, Listener, Token};
use aquifer_remote::transport::{Link, LinkError, LinkOptions, Place, ServeLink, Staging, TransportError};

use crate::contract;
use crate::network::{host, provider};

const SLAB_BYTES: usize = 4 << 20;
const TOKEN: Token = [3; 32];
const LIMIT: Duration = Duration::from_secs(10);

/// Whether there is a library to test.
fn is_there() -> bool {
    let version = fabric::version();
    if let Err(error) = &version {
        println!("SKIP {error}");
    }
    version.is_ok()
}

/// A provider that is named can be asked for, one that is not cannot.
#[test]
fn providers_are_those_that_work_here() {
    if !is_there() {
        return;
    }
    let providers = fabric::providers().expect("the library is there");
    assert!(providers.contains(&provider()), "{providers:?}");
    assert!(!providers.contains(&"made-up".to_owned()));
    let is_known =
        |name: &str| !matches!(Listener::new(name, &host(), 0), Err(TransportError::NoProvider { .. }));
    assert!(is_known(&provider()) && !is_known("made-up"));
}

#[test]
fn the_library_leaves_signals_to_the_program() {
    if !is_there() {
        return;
    }
    for signal in [libc::SIGINT, libc::SIGILL, libc::SIGABRT, libc::SIGTERM] {
        let mut action = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: it only asks; zeros are a valid action.
        let action = unsafe {
            assert_eq!(libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr()), 0);
            action.assume_init()
        };
        // A shell has its background jobs ignore SIGINT.
        let is_nobodys = [libc::SIG_DFL, libc::SIG_IGN].contains(&action.sa_sigaction);
        assert!(is_nobodys, "signal {signal} is somebody's");
    }
}

/// A donor that serves one borrower while it is told to.
struct Donor<'scope> {
    port: u16,
    place: Place,
    thread: ScopedJoinHandle<'scope, ()>,
}

/// Lets one borrower in, and serves it until `ends`; not while `rests`.
fn donate<'scope>(
    scope: &'scope Scope<'scope, '_>,
    ends: &'scope AtomicBool,
    rests: &'scope AtomicBool,
) -> (u16, impl FnOnce() -> Donor<'scope>) {
    let mut listener = Listener::new(&provider(), &host(), 0).expect("listen");
    let port = listener.port().expect("port");
    let (send, receive) = channel();
    let thread = scope.spawn(move || {
        let mut served = loop {
            if let Some(request) = listener.next(Duration::from_millis(100)).expect("wait") {
                if *request.token() != TOKEN {
                    continue;
                }
                break request.accept(LIMIT).expect("accept");
            }
            if ends.load(Ordering::Relaxed) {
                return;
            }
        };
        let slab = Staging::new(SLAB_BYTES).expect("memory");
        let place = served.lend(&slab, 0xfeed_f00d_1234_5678).expect("lend");
        send.send(place).expect("the test waits");
        while !ends.load(Ordering::Relaxed) {
            if rests.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(1));
            } else if !served.serve(Duration::from_millis(5)) {
                break;
            }
        }
        if rests.load(Ordering::Relaxed) {
            return;
        }
        assert!(served.take_back(place).expect("take back"));
        assert!(!served.take_back(place).expect("take back"));
    });
    (port, move || Donor { port, place: receive.recv().expect("the donor lends"), thread })
}

fn connect(port: u16, token: &Token, options: &LinkOptions) -> Result<Link, TransportError> {
    Link::new(options, |staging: &Arc<Staging>| {
        fabric::connect(&provider(), &host(), port, token, LIMIT, staging)
    })
}

#[test]
fn a_good_donor() {
    if !is_there() {
        return;
    }
    let (ends, rests) = (AtomicBool::new(false), AtomicBool::new(false));
    for spins in [true, false] {
        ends.store(false, Ordering::Relaxed);
        std::thread::scope(|scope| {
            let (port, lends) = donate(scope, &ends, &rests);
            let options = LinkOptions { deadline: LIMIT, spins, ..LinkOptions::default() };
            let link = connect(port, &TOKEN, &options).expect("connect");
            assert_eq!(link.provider(), provider());
            let donor = lends();
            contract::keeps_its_word(&link, donor.place);
            assert_eq!(donor.port, port);
            ends.store(true, Ordering::Relaxed);
            donor.thread.join().expect("the donor ends in order");
        });
    }
}

#[test]
fn a_stopped_donor_costs_a_deadline() {
    if !is_there() {
        return;
    }
    let (ends, rests) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let (port, lends) = donate(scope, &ends, &rests);
        let deadline = Duration::from_millis(300);
        let options = LinkOptions { deadline, ..LinkOptions::default() };
        let link = connect(port, &TOKEN, &options).expect("connect");
        let donor = lends();
        link.write(&[1; 4096], donor.place).expect("write");
        rests.store(true, Ordering::Relaxed);
        // It may be in the middle of a round.
        std::thread::sleep(Duration::from_millis(20));
        let outcome = link.read(donor.place, &mut [0; 4096]);
        ends.store(true, Ordering::Relaxed);
        // RDMA needs nobody at the other side.
        let is_emulated = provider() == "tcp";
        assert_eq!(outcome, if is_emulated { Err(LinkError::Timeout(deadline)) } else { Ok(()) });
    });
}

#[test]
fn a_wrong_key_or_a_wrong_place_reaches_nothing() {
    if !is_there() {
        return;
    }
    let wrong: [fn(Place) -> Place; 2] =
        [|place| Place { key: place.key ^ 1, ..place }, |place| place.at(SLAB_BYTES as u64 - 2048)];
    for wrong in wrong {
        let (ends, rests) = (AtomicBool::new(false), AtomicBool::new(true));
        std::thread::scope(|scope| {
            rests.store(false, Ordering::Relaxed);
            let (port, lends) = donate(scope, &ends, &rests);
            let link = connect(port, &TOKEN, &LinkOptions::default()).expect("connect");
            let place = wrong(lends().place);
            rests.store(false, Ordering::Relaxed);
            let outcome = link.read(place, &mut [0; 4096]);
            ends.store(true, Ordering::Relaxed);
            assert!(outcome.is_err(), "{outcome:?}");
        });
    }
}

#[test]
fn who_has_no_token_is_refused() {
    if !is_there() {
        return;
    }
    let (ends, rests) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let (port, _lends) = donate(scope, &ends, &rests);
        let outcome = connect(port, &[4; 32], &LinkOptions::default());
        ends.store(true, Ordering::Relaxed);
        assert!(matches!(outcome, Err(TransportError::Refused { .. })), "{outcome:?}");
    });
}

#[test]
fn nobody_and_nothing_are_told_apart() {
    if !is_there() {
        return;
    }
    let port = {
        let mut listener = Listener::new(&provider(), &host(), 0).expect("listen");
        let port = listener.port().expect("port");
        let second = Listener::new(&provider(), &host(), port);
        let is_told = match &second {
            Err(TransportError::InUse(_)) => true,
            // Providers other than `tcp` look at the address before they report a port in use.
            Err(TransportError::NoProvider { .. }) => provider() != "tcp",
            _ => false,
        };
        assert!(is_told, "{:?}", second.err());
        port
    };
    let outcome = connect(port, &TOKEN, &LinkOptions::default());
    assert!(matches!(outcome, Err(TransportError::Refused { .. })), "{outcome:?}");
    let other = Listener::new("no-such-provider", &host(), 0);
    assert!(matches!(other, Err(TransportError::NoProvider { .. })), "{:?}", other.err());
}
