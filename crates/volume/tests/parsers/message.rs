//! A message between a volume's owner and a client.

use aquifer_volume::serve::entries;
use aquifer_volume::serve::protocol::{Answer, Request};

/// What is a message is the only encoding of what it says; of a list of names, as much as is whole is read.
pub fn property(input: &[u8]) {
    if let Some(request) = Request::decode(input) {
        assert_eq!(request.encode(), input);
    }
    if let Some(answer) = Answer::decode(input) {
        assert_eq!(answer.encode(), input);
    }
    let mut rest = input;
    while let Some((name, ..)) = entries::pop(&mut rest) {
        assert!(name.len() < 256 && rest.len() < input.len());
    }
}
