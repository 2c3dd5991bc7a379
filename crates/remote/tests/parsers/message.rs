//! A message between a borrower and a donor.

use std::io::Cursor;

use aquifer_remote::control::{Answer, Call, Channel, Greeting, Notice, Refusal, Reply, Welcome};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// What a stream of these bytes begins with, if it is a message; it says the same when it is sent on.
fn is_stable<T: DeserializeOwned + Serialize + PartialEq + std::fmt::Debug>(input: &[u8]) {
    let Ok(message) = Channel::new(Cursor::new(input.to_vec())).receive::<T>() else { return };
    let mut stream = Cursor::new(Vec::new());
    Channel::new(&mut stream).send(&message).expect("what fits in a message fits again");
    stream.set_position(0);
    assert_eq!(Channel::new(&mut stream).receive::<T>().expect("it was a message"), message);
}

/// Every kind of message, from any bytes.
pub fn property(input: &[u8]) {
    is_stable::<Greeting>(input);
    is_stable::<Result<Option<Welcome>, Refusal>>(input);
    is_stable::<Call>(input);
    is_stable::<Answer>(input);
    is_stable::<Notice>(input);
    is_stable::<Reply>(input);
}
