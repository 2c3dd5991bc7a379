//! Profiles that are right, and all the ways to be wrong.

use super::*;

const HEAD: &str = "aquifer-device-profile = 1\n";

fn fault(text: &str) -> (usize, String) {
    let error = Profile::parse(text.as_bytes()).expect_err(text);
    (error.line, error.fault.to_string())
}

#[test]
fn what_is_written_is_read() {
    let mut profile = Profile::default();
    for (setting, value) in [(Setting::Depth, 32), (Setting::SegmentBytes, 8 << 20)] {
        profile.set(setting, value).expect("in range");
    }
    let text = profile.format("made by hand", |setting| format!("why {}", setting.key()));
    assert!(text.starts_with("# made by hand\naquifer-device-profile = 1\n"), "{text}");
    assert!(text.contains("\n# why depth\ndepth = 32\n") && text.contains("\n# why write_depth\n"), "{text}");
    assert_eq!(Profile::parse(text.as_bytes()), Ok(profile));
}

#[test]
fn sizes_blanks_and_comments() {
    let text = "\r\n# first\n  aquifer-device-profile=1 # version\n\n write_bytes =256K\r\nwrite_depth= 4";
    let profile = Profile::parse(text.as_bytes()).expect("a profile");
    assert_eq!(profile.get(Setting::WriteBytes), Some(256 << 10));
    assert_eq!(profile.get(Setting::WriteDepth), Some(4));
    assert_eq!(profile.get(Setting::Depth), None);
}

#[test]
fn the_explicit_wins() {
    let parse = |text: &str| Profile::parse(format!("{HEAD}{text}").as_bytes()).expect("a profile");
    let both = parse("depth = 8").or(&parse("depth = 16\nwrite_depth = 2"));
    assert_eq!((both.get(Setting::Depth), both.get(Setting::WriteDepth)), (Some(8), Some(2)));
}

#[test]
fn errors_have_their_line_and_say_what_may_stand_there() {
    for (text, line, part) in [
        ("", 1, "begins with 'aquifer-device-profile = 1'"),
        ("# nothing\ndepth = 3\n", 2, "begins with"),
        ("aquifer-device-profile = 2\n", 1, "version '2', and this program reads version 1"),
        ("aquifer-device-profile = 01\n", 1, "version '01'"),
    ] {
        let (at, said) = fault(text);
        assert!(at == line && said.contains(part), "{text:?}: line {at}: {said}");
    }
    for (text, part) in [
        ("depht = 3", "no setting 'depht'; there are depth, "),
        ("depth 3", "neither 'key = value' nor a comment"),
        ("depth = many", "no number"),
        ("depth = +3", "no number"),
        ("depth =", "no number"),
        ("depth = 0", "1 to 256"),
        ("depth = 257", "1 to 256"),
        ("read_ahead_pages = 7", "8 to 256"),
        ("write_bytes = 100K", "power of two"),
        ("write_bytes = 4X", "no size"),
        ("segment_bytes = 2G", "65536 to 1073741824"),
        ("write_depth = 17", "1 to 16"),
        ("write_depth = 99999999999999999999", "no number"),
        ("aquifer-device-profile = 1", "no setting"),
    ] {
        let (at, said) = fault(&format!("{HEAD}\n{text}\n"));
        assert!(at == 3 && said.contains(part), "{text:?}: line {at}: {said}");
    }
    let (at, said) = fault(&format!("{HEAD}depth = 3\ndepth = 3\n"));
    assert!(at == 3 && said.contains("second time"), "line {at}: {said}");
}

#[test]
fn neither_binary_nor_endless() {
    let error = Profile::parse(b"aquifer-device-profile = 1\n# \xFF\n").expect_err("not text");
    assert_eq!((error.line, error.fault), (2, Fault::NotText));
    let endless = [HEAD.as_bytes(), &vec![b'#'; PROFILE_BYTES_MAX]].concat();
    assert_eq!(Profile::parse(&endless).expect_err("long").fault, Fault::TooLong);
}

/// The name of a device is whatever its owner says.
#[test]
fn comments_cannot_become_settings() {
    let text = Profile::default().format("disk\ndepth = 1\r\nwrite_depth = 2\rx", |_| "a\n\nb".into());
    assert_eq!(Profile::parse(text.as_bytes()), Ok(Profile::default()), "{text}");
}
