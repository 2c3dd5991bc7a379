//! The name of a target from a command line or a report.

use aquifer_probe::target::{FlashSpec, TargetSpec};

/// Whatever is written, it is refused with a reason, or it is parsed, and the same after it was written again.
pub fn property(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    match FlashSpec::parse(&text) {
        Ok(spec) => {
            let written = spec.parameters();
            assert_eq!(FlashSpec::parse(&written).ok().as_ref(), Some(&spec), "{written}");
            assert_eq!(FlashSpec::parse(&written).map(|spec| spec.parameters()).ok(), Some(written));
        }
        Err(error) => {
            let said = error.to_string();
            assert!(said.starts_with("nand: ") && !said.contains('\n'), "{said}");
        }
    }
    let is_flash = text.starts_with("nand:");
    match TargetSpec::parse(&text) {
        Ok(TargetSpec::Flash(_)) | Err(_) => assert!(is_flash),
        Ok(TargetSpec::Path(path)) => assert!(!is_flash && path.as_os_str() == &*text),
    }
}
