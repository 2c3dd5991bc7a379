//! Sizes that people write.

use aquifer_base::units::parse_size;

/// A size that is understood is the same in capitals, between blanks, and written as plain bytes.
pub fn property(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let parsed = parse_size(&text);
    assert_eq!(parse_size(&text.to_ascii_uppercase()).ok(), parsed.clone().ok());
    match parsed {
        Ok(bytes) => {
            assert_eq!(parse_size(&bytes.to_string()), Ok(bytes));
            assert_eq!(parse_size(&format!(" {text}\t")), Ok(bytes));
        }
        Err(error) => assert!(error.to_string().contains(&*text), "{error} does not name {text:?}"),
    }
}
