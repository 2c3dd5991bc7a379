//! The answer of a socket.

use aquifer_cli::reply::{parse_check, parse_stats};
use aquifer_cli::table::table;

/// A sample that is understood can be written again and shown without commanding the terminal.
pub fn property(input: &[u8]) {
    let _ = parse_check(input);
    let Ok(sample) = parse_stats(input) else { return };
    let again = serde_json::to_vec(&sample).expect("numbers and names can be written");
    assert_eq!(parse_stats(&again).as_ref(), Ok(&sample));
    for shown in [table(&sample, None), table(&sample, Some((&sample, 0.001)))] {
        assert!(!shown.contains(|c: char| c.is_control() && c != '\n'), "{shown:?}");
    }
}
