//! A volume that is made where another was: nothing of the old one is left to be found.

use super::*;

#[test]
fn a_volume_made_over_another_is_empty() {
    let flash = Flash::new(8 << 20);
    Volume::create(flash.medium(), (0, 0)).expect("created");
    let volume = open(&flash).expect("opened");
    for number in 0..20 {
        root(&volume).make_folder(format!("/old {number}").as_bytes(), 0o700).expect("room");
        volume.sync().expect("synced");
    }
    volume.close().expect("closed");
    Volume::create(flash.medium(), (0, 0)).expect("created again");
    let volume = open(&flash).expect("opened again");
    let found = volume.check(aquifer_volume::Depth::Contents, |_, _| ()).expect("checked");
    assert_eq!((found.files, found.problems), (1, vec![]));
    write(&volume, "/new", 0, b"bytes").expect("room");
    volume.close().expect("closed");
    let volume = open(&flash).expect("opened");
    assert_eq!(read(&volume, "/new"), Ok(b"bytes".to_vec()));
}
