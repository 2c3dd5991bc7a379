//! A volume that is full, and then is not.

use aquifer_device::MemoryDevice;
use aquifer_volume::medium::DeviceMedium;
use aquifer_volume::{Ino, Kind, Volume, VolumeError};

use crate::{check, open};

#[test]
fn removing_makes_room_again_and_again() {
    let device = std::sync::Arc::new(MemoryDevice::new(8 << 20, 4096));
    let medium = || Box::new(DeviceMedium::new(std::sync::Arc::clone(&device), 32).expect("medium"));
    Volume::create(medium(), (0, 0)).expect("create");
    let volume = open(medium());
    let space = volume.space().expect("space");
    let mut written_before = None;
    for round in 0..8u8 {
        let mut names = Vec::new();
        let mut written = 0;
        let outcome = loop {
            let name = format!("file {}", names.len());
            let ino = match volume.make(Ino::ROOT_FOLDER, name.as_bytes(), Kind::File, 0o600, 0, 0) {
                Ok(ino) => ino,
                Err(error) => break error,
            };
            names.push(name);
            match volume.write(ino, 0, &[round; 100_000]) {
                Ok(100_000) => written += 100_000,
                Ok(part) => written += part,
                Err(error) => break error,
            }
            assert!(names.len() < 1000, "it is never full");
        };
        assert_eq!(outcome, VolumeError::NoSpace);
        assert!(written as u64 > space.capacity_bytes * 8 / 10, "{written} of {}", space.capacity_bytes);
        assert!(
            written_before.is_none_or(|before: usize| written >= before / 100 * 98),
            "{written_before:?}, then {written}"
        );
        written_before.get_or_insert(written);
        volume.sync().expect("a full volume can be synced");
        check(&volume);
        for name in names {
            volume.unlink(Ino::ROOT_FOLDER, name.as_bytes()).expect("a full volume lets files go");
        }
        if round % 2 == 0 {
            volume.sync().expect("sync");
        }
    }
    volume.close().expect("close");
    check(&open(medium()));
}
