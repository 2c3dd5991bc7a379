//! Bytes from a socket, whatever they are.

mod message;
#[path = "../../../../fuzz/mutations.rs"]
mod mutations;

/// A message with its length before it.
fn framed(text: &[u8]) -> Vec<u8> {
    let mut bytes = (text.len() as u32).to_le_bytes().to_vec();
    bytes.extend_from_slice(text);
    bytes
}

const MESSAGES: [&str; 11] = [
    r#"{"version":2,"machine":"m","name":"n","weight":7,"role":{"Notices":"00"}}"#,
    r#"{"Ok":{"slab_bytes":1,"provider":"tcp","port":1,"token":"","domain":"","address":"127.0.0.1:7447"}}"#,
    r#""Members""#,
    r#"{"Members":[{"address":"[::1]:7447","domain":"d","offer":{"free_slabs":1,"slabs":2},"is_alive":true,"version":2}]}"#,
    r#"{"Err":{"Version":{"donor":1,"borrower":2}}}"#,
    r#"{"Take":18446744073709551615}"#,
    r#"{"GiveBack":7}"#,
    r#"{"Reserved":{"reservation":1,"offer":{"free_slabs":1,"slabs":2}}}"#,
    r#"{"Activity":[1,2,3]}"#,
    r#"{"Leave":{"slab":1,"within_ms":5000}}"#,
    r#"{"Uses":[1,2,3]}"#,
];

#[test]
fn messages() {
    let samples: Vec<_> = MESSAGES.iter().map(|text| framed(text.as_bytes())).collect();
    mutations::drive(&samples, 20_000, message::property);
}
