//! Files and folders in plain memory, and steps that change them.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use aquifer_volume::{IfTaken, Ino, Kind, Result, Volume, VolumeError};

/// Random numbers (Marsaglia, "Xorshift RNGs", 2003).
#[derive(Clone)]
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % limit
    }
}

/// What a path stands for. Paths are `/`-separated, without one at either end. States of a history share the bytes that they have in common.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Object {
    File(Arc<Vec<u8>>),
    Folder,
}

#[derive(Clone, Default, Debug)]
pub struct Model {
    pub objects: BTreeMap<String, Object>,
}

#[derive(Clone, Debug)]
pub enum Step {
    Make { path: String, kind: Kind },
    Write { path: String, offset: u64, len: usize, value: u8 },
    Truncate { path: String, size: u64 },
    Punch { path: String, offset: u64, len: u64 },
    Reserve { path: String, offset: u64, len: u64, keeps_size: bool, is_zeroed: bool },
    Remove { path: String },
    Rename { from: String, to: String },
    Sync,
}

fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

impl Step {
    pub fn random(dice: &mut Dice, model: &Model) -> Self {
        let name = |dice: &mut Dice| {
            let leaf = format!("n{}", dice.below(12));
            match dice.below(3) {
                0 => format!("d{}/{leaf}", dice.below(3)),
                1 => leaf,
                _ => model
                    .objects
                    .keys()
                    .nth(dice.below(model.objects.len().max(1) as u64) as usize)
                    .cloned()
                    .unwrap_or(leaf),
            }
        };
        let path = name(dice);
        match dice.below(21) {
            0 | 1 => Step::Make { path, kind: Kind::File },
            2 => Step::Make { path: format!("d{}", dice.below(3)), kind: Kind::Folder },
            3 => Step::Remove { path },
            4 => Step::Rename { from: path, to: name(dice) },
            5 => Step::Truncate { path, size: dice.below(200_000) },
            6 => Step::Punch { path, offset: dice.below(100_000), len: dice.below(60_000) },
            7 => Step::Sync,
            20 => Step::Reserve {
                path,
                offset: dice.below(150_000),
                len: dice.below(60_000) + 1,
                keeps_size: dice.below(2) == 0,
                is_zeroed: dice.below(2) == 0,
            },
            8..=12 => Step::Write {
                path,
                offset: dice.below(150_000),
                len: dice.below(40) as usize + 1,
                value: dice.below(256) as u8,
            },
            _ => Step::Write {
                path,
                offset: dice.below(150_000),
                len: dice.below(30_000) as usize + 1,
                value: dice.below(256) as u8,
            },
        }
    }

    /// Does it, and says what was done if that is less: a write to a volume that is nearly full may end early.
    pub fn apply(&self, volume: &Volume) -> Result<Option<Step>> {
        if let Step::Write { path, offset, len, value } = self {
            let written = volume.write(find(volume, path)?, *offset, &pattern(*value, *len))?;
            let (path, offset, value) = (path.clone(), *offset, *value);
            return Ok((written < *len).then_some(Step::Write { path, offset, len: written, value }));
        }
        self.apply_whole(volume).map(|()| None)
    }

    fn apply_whole(&self, volume: &Volume) -> Result<()> {
        match self {
            Step::Make { path, kind } => {
                let (folder, name) = split(path);
                volume.make(find(volume, folder)?, name.as_bytes(), *kind, 0o644, 1, 2).map(drop)
            }
            Step::Write { .. } => unreachable!("a write may be done in part"),
            Step::Truncate { path, size } => volume.truncate(find(volume, path)?, *size),
            Step::Punch { path, offset, len } => volume.punch(find(volume, path)?, *offset, *len),
            Step::Reserve { path, offset, len, keeps_size, is_zeroed } => {
                let (ino, bytes) = (find(volume, path)?, *offset..offset + len);
                if *is_zeroed {
                    volume.zero_and_reserve(ino, bytes, *keeps_size)
                } else {
                    volume.reserve(ino, bytes, *keeps_size)
                }
            }
            Step::Remove { path } => {
                let (folder, name) = split(path);
                let folder = find(volume, folder)?;
                let ino = volume.lookup(folder, name.as_bytes())?;
                match volume.inode(ino)?.kind {
                    Kind::Folder => volume.remove_folder(folder, name.as_bytes()),
                    _ => volume.unlink(folder, name.as_bytes()),
                }
            }
            Step::Rename { from, to } => {
                let ((from_folder, from_name), (to_folder, to_name)) = (split(from), split(to));
                let source = (find(volume, from_folder)?, from_name.as_bytes());
                let target = (find(volume, to_folder)?, to_name.as_bytes());
                volume.rename(source, target, IfTaken::Replace)
            }
            Step::Sync => volume.sync(),
        }
    }

    /// The error that the volume should give.
    pub fn expected(&self, model: &Model) -> Option<VolumeError> {
        match self {
            Step::Make { path, .. } => model
                .folder_of(path)
                .err()
                .or(model.objects.contains_key(path).then_some(VolumeError::Exists)),
            Step::Write { path, .. }
            | Step::Truncate { path, .. }
            | Step::Punch { path, .. }
            | Step::Reserve { path, .. } => match model.find(path) {
                Ok(Object::File(_)) => None,
                Ok(Object::Folder) => Some(VolumeError::IsAFolder),
                Err(error) => Some(error),
            },
            Step::Remove { path } => match model.find(path) {
                Ok(Object::Folder) if model.has_below(path) => Some(VolumeError::NotEmpty),
                Ok(_) => None,
                Err(error) => Some(error),
            },
            Step::Rename { from, to } => model.rename_error(from, to),
            Step::Sync => None,
        }
    }
}

impl Model {
    fn find(&self, path: &str) -> std::result::Result<&Object, VolumeError> {
        self.folder_of(path)?;
        self.objects.get(path).ok_or(VolumeError::NotFound)
    }

    fn folder_of(&self, path: &str) -> std::result::Result<(), VolumeError> {
        match split(path).0 {
            "" => Ok(()),
            folder => match self.objects.get(folder) {
                Some(Object::Folder) => Ok(()),
                Some(Object::File(_)) => Err(VolumeError::NotAFolder),
                None => Err(VolumeError::NotFound),
            },
        }
    }

    fn has_below(&self, path: &str) -> bool {
        let below = format!("{path}/");
        self.objects.keys().any(|key| key.starts_with(&below))
    }

    fn rename_error(&self, from: &str, to: &str) -> Option<VolumeError> {
        if let Err(error) = self.folder_of(from).and(self.folder_of(to)) {
            return Some(error);
        }
        let Some(moved) = self.objects.get(from) else { return Some(VolumeError::NotFound) };
        if *moved == Object::Folder && (to.starts_with(&format!("{from}/"))) {
            return Some(VolumeError::Invalid("a folder cannot be moved into itself"));
        }
        match (moved, self.objects.get(to)) {
            _ if from == to => None,
            (Object::Folder, Some(Object::File(_))) => Some(VolumeError::NotAFolder),
            (Object::File(_), Some(Object::Folder)) => Some(VolumeError::IsAFolder),
            (Object::Folder, Some(Object::Folder)) if self.has_below(to) => Some(VolumeError::NotEmpty),
            _ => None,
        }
    }

    pub fn apply(&mut self, step: &Step) {
        match step {
            Step::Make { path, kind } => {
                let object =
                    if *kind == Kind::Folder { Object::Folder } else { Object::File(Arc::default()) };
                self.objects.insert(path.clone(), object);
            }
            Step::Write { path, offset, len, value } => {
                let bytes = self.bytes(path);
                let (start, end) = (*offset as usize, *offset as usize + len);
                bytes.resize(bytes.len().max(end), 0);
                bytes[start..end].copy_from_slice(&pattern(*value, *len));
            }
            Step::Truncate { path, size } => self.bytes(path).resize(*size as usize, 0),
            Step::Reserve { path, offset, len, keeps_size, is_zeroed } => {
                let bytes = self.bytes(path);
                let (start, end) = (*offset as usize, (offset + len) as usize);
                if *is_zeroed && start < bytes.len() {
                    let end = end.min(bytes.len());
                    bytes[start..end].fill(0);
                }
                if !keeps_size {
                    bytes.resize(end.max(bytes.len()), 0);
                }
            }
            Step::Punch { path, offset, len } => {
                let bytes = self.bytes(path);
                let end = ((offset + len) as usize).min(bytes.len());
                if (*offset as usize) < end {
                    bytes[*offset as usize..end].fill(0);
                }
            }
            Step::Remove { path } => {
                self.objects.remove(path);
            }
            Step::Rename { from, to } if from != to => {
                let below = format!("{from}/");
                let moved: Vec<String> = self
                    .objects
                    .keys()
                    .filter(|key| *key == from || key.starts_with(&below))
                    .cloned()
                    .collect();
                for old in moved {
                    let object = self.objects.remove(&old).expect("was listed");
                    self.objects.insert(format!("{to}{}", &old[from.len()..]), object);
                }
            }
            Step::Rename { .. } | Step::Sync => {}
        }
    }

    fn bytes(&mut self, path: &str) -> &mut Vec<u8> {
        match self.objects.get_mut(path) {
            Some(Object::File(bytes)) => Arc::make_mut(bytes),
            _ => panic!("{path} is no file of the model"),
        }
    }

    /// Says that the volume has the same names and bytes.
    pub fn compare(&self, volume: &Volume) {
        let found = read_all(volume);
        let names = |objects: &BTreeMap<String, Object>| objects.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&found), names(&self.objects));
        for (path, object) in &self.objects {
            if let (Object::File(expected), Object::File(got)) = (object, &found[path]) {
                assert_eq!(expected.len(), got.len(), "size of {path}");
                let differs = expected.iter().zip(got.iter()).position(|(a, b)| a != b);
                assert_eq!(
                    differs,
                    None,
                    "{path}: {differs:?} should be {:?}, is {:?}",
                    differs.map(|at| expected[at]),
                    differs.map(|at| got[at])
                );
            }
            assert_eq!(object, &found[path], "{path}");
        }
    }
}

/// All names and bytes of a volume.
pub fn read_all(volume: &Volume) -> BTreeMap<String, Object> {
    let mut found = BTreeMap::new();
    let mut folders = vec![(Ino::ROOT_FOLDER, String::new())];
    while let Some((folder, prefix)) = folders.pop() {
        let mut entries = Vec::new();
        volume
            .list(folder, 0, |entry| {
                entries.push((
                    String::from_utf8(entry.name.to_vec()).expect("a name"),
                    entry.ino,
                    entry.kind,
                ));
                ControlFlow::Continue(())
            })
            .expect("list");
        for (name, ino, kind) in entries {
            let path = format!("{prefix}{name}");
            let object = match kind {
                Kind::Folder => {
                    folders.push((ino, format!("{path}/")));
                    Object::Folder
                }
                _ => {
                    let mut bytes = vec![0; volume.inode(ino).expect("inode").size_bytes as usize];
                    assert_eq!(volume.read(ino, 0, &mut bytes).expect("read"), bytes.len());
                    Object::File(Arc::new(bytes))
                }
            };
            assert_eq!(found.insert(path.clone(), object), None, "{path} twice");
        }
    }
    found
}

fn find(volume: &Volume, path: &str) -> Result<Ino> {
    path.split('/')
        .filter(|name| !name.is_empty())
        .try_fold(Ino::ROOT_FOLDER, |folder, name| volume.lookup(folder, name.as_bytes()))
}

fn pattern(value: u8, len: usize) -> Vec<u8> {
    (0..len).map(|at| value.wrapping_add((at / 7) as u8)).collect()
}
