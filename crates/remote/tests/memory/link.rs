//! A link keeps its promises, without a donor around it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use aquifer_remote::transport::memory::{Listener, connect};
use aquifer_remote::transport::{Link, LinkError, LinkOptions, Place, ServeLink, Staging, TransportError};

#[path = "../link/contract.rs"]
mod contract;

const SLAB_BYTES: usize = 4 << 20;
const TOKEN: [u8; 32] = [3; 32];
const KEY: u64 = 0xfeed_f00d_1234_5678;
const LIMIT: Duration = Duration::from_secs(10);

/// A link to a donor that lends one slab and serves it until `body` has ended.
fn with_link(token: [u8; 32], body: impl FnOnce(Result<Link, TransportError>)) {
    let mut listener = Listener::new(0).expect("listen");
    let number = listener.number();
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let request = loop {
                if let Some(request) = listener.next(LIMIT).expect("wait") {
                    break request;
                }
            };
            if *request.token() != TOKEN {
                return;
            }
            let mut served = request.accept().expect("accept");
            let slab = Staging::shareable(SLAB_BYTES).expect("memory");
            let place = served.lend(&slab, KEY).expect("lend");
            let mut is_there = true;
            while is_there && !ends.load(Ordering::Relaxed) {
                is_there = served.serve(Duration::from_millis(5));
            }
            assert!(served.take_back(place).expect("take back"));
            assert!(!served.take_back(place).expect("take back"));
        });
        let options = LinkOptions { deadline: LIMIT, ..LinkOptions::default() };
        body(Link::new(&options, |staging: &Arc<Staging>| connect(number, &token, LIMIT, staging)));
        ends.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_good_donor() {
    with_link(TOKEN, |link| {
        let link = link.expect("connect");
        assert_eq!(link.provider(), "memory");
        contract::keeps_its_word(&link, Place { address: 0, key: KEY });
    });
}

#[test]
fn a_wrong_key_or_a_wrong_place_reaches_nothing() {
    let end = SLAB_BYTES as u64;
    for (address, key) in [(0, KEY ^ 1), (end - 2048, KEY), (end, KEY), (u64::MAX - 100, KEY)] {
        with_link(TOKEN, |link| {
            let link = link.expect("connect");
            let outcome = link.read(Place { address, key }, &mut [0; 4096]);
            assert!(matches!(outcome, Err(LinkError::Failed(_))), "{address:#x} {key:#x}: {outcome:?}");
        });
    }
}

#[test]
fn who_has_no_token_is_refused() {
    with_link([4; 32], |link| {
        let refused = link.expect_err("a token that nobody gave");
        assert!(matches!(refused, TransportError::Refused { .. }), "{refused}");
    });
}

#[test]
fn nobody_is_told_so_and_a_number_is_good_for_one() {
    let listener = Listener::new(0).expect("listen");
    let number = listener.number();
    assert!(matches!(Listener::new(number), Err(TransportError::InUse(_))));
    drop(listener);
    let staging = Staging::new(4096).expect("memory");
    let error = connect(number, &TOKEN, LIMIT, &staging).err().expect("nobody is there").to_string();
    assert!(error.contains("--provider tcp"), "{error}");
}
