//! Each page of a volume is lost in turn: what salvaging brings out is right, and what it does not bring out is named.

use std::ops::ControlFlow;

use aquifer_volume::{Ino, Kind};

use super::*;

/// What a file held at its last moment and at those before, and what its number is.
struct Known {
    path: String,
    ino: Ino,
    versions: Vec<Vec<u8>>,
}

/// An image, and the files that it holds.
struct Image {
    bytes: Vec<u8>,
    files: Vec<Known>,
}

const FILES: usize = 12;

fn path(file: usize) -> String {
    match file % 3 {
        0 => format!("/file {file}"),
        1 => format!("/folder/file {file}"),
        _ => format!("/folder/inner/file {file}"),
    }
}

/// A volume with files in folders, most of them changed since they were made, and some made in place of others that are gone.
fn image(is_closed: bool) -> Image {
    let flash = Flash::new(3 << 20);
    Volume::create(flash.medium(), (0, 0)).expect("created");
    let mut volume = open(&flash).expect("opened");
    for folder in ["/folder", "/folder/inner"] {
        root(&volume).make_folder(folder.as_bytes(), 0o700).expect("room");
    }
    let mut files = Vec::<Known>::new();
    for file in 0..FILES {
        write(&volume, &format!("/gone {file}"), 0, &contents(file, 9, 20_000)).expect("room");
        volume.sync().expect("synced");
        if file % 2 == 0 {
            root(&volume).unlink(format!("/gone {file}").as_bytes()).expect("there");
        }
        let bytes = contents(file, 0, if file == 4 { 100 } else { 9000 });
        write(&volume, &path(file), 0, &bytes).expect("room");
        let (ino, _) = root(&volume).stat(path(file).as_bytes(), Last::Keep).expect("there");
        files.push(Known { path: path(file), ino, versions: vec![bytes] });
    }
    volume.close().expect("closed");
    for version in 1..4 {
        volume = open(&flash).expect("opened");
        for (file, known) in files.iter_mut().enumerate().filter(|(file, _)| file % 4 != 3) {
            let mut bytes = known.versions.last().expect("one").clone();
            let len = if version == 2 { bytes.len() } else { 40 };
            bytes[..len].copy_from_slice(&contents(file, version, len));
            write(&volume, &known.path, 0, &bytes[..len]).expect("room");
            volume.sync().expect("synced");
            known.versions.push(bytes);
        }
        if version < 3 || is_closed {
            volume.close().expect("closed");
        } else {
            flash.rest(&volume);
        }
    }
    Image { bytes: flash.image(), files }
}

#[derive(Default, Debug)]
struct Tally {
    /// Files that came out as they were.
    whole: usize,
    /// Files of which pages could not be read, which the reader is told.
    in_part: usize,
    /// Files whose names are lost.
    nameless: usize,
    /// Files that came out as they were at an earlier moment.
    earlier: usize,
    /// Files that are nowhere.
    missing: usize,
    /// Most pages of files that one damaged page made unreadable.
    most_pages: usize,
}

/// All pages of a file; `None` for one that cannot be read.
fn pages(volume: &Volume, ino: Ino, size_bytes: u64) -> Vec<Option<Vec<u8>>> {
    let read = |at: u64| {
        let mut page = vec![0; PAGE_BYTES.min((size_bytes - at) as usize)];
        volume.read(ino, at, &mut page).ok().map(|read| {
            assert_eq!(read, page.len());
            page
        })
    };
    (0..size_bytes).step_by(PAGE_BYTES).map(read).collect()
}

/// Path and number of every file that can be reached.
fn reachable(volume: &Volume) -> HashMap<String, Ino> {
    let mut found = HashMap::new();
    let mut waiting = vec![(String::new(), Ino::ROOT_FOLDER)];
    while let Some((path, folder)) = waiting.pop() {
        let _ = volume.list(folder, 0, |entry| {
            let path = format!("{path}/{}", String::from_utf8_lossy(entry.name));
            if entry.kind == Kind::Folder {
                waiting.push((path.clone(), entry.ino));
            }
            assert!(found.insert(path, entry.ino).is_none());
            ControlFlow::Continue(())
        });
    }
    found
}

impl Tally {
    fn look(&mut self, volume: &Volume, image: &Image, what: &str) {
        let reachable = reachable(volume);
        let mut lost_pages = 0;
        for known in &image.files {
            let what = format!("{what}: {} {}", known.path, known.ino);
            let by_name = reachable.get(&known.path).copied();
            let without_name =
                reachable.iter().find(|(path, ino)| path.contains("lost+found") && **ino == known.ino);
            let Some(ino) = by_name.or(without_name.map(|(_, ino)| *ino)) else {
                self.missing += 1;
                continue;
            };
            let is_named = volume.salvaged().doubts.contains_key(&ino);
            // Its own name is lost, or that of a folder above it.
            let is_below = |ino: &Ino| {
                let nameless = format!("/lost+found/inode-{}", ino.0);
                without_name.is_some_and(|(path, _)| path.starts_with(&nameless))
            };
            let is_told = volume.salvaged().nameless.iter().any(is_below);
            assert!(by_name.is_some() || is_told, "{what}: has no name");
            assert_eq!(ino, known.ino, "{what}");
            let Ok(inode) = volume.inode(ino) else {
                self.missing += 1;
                continue;
            };
            self.nameless += usize::from(by_name.is_none());
            let found = pages(volume, ino, inode.size_bytes);
            let last = known.versions.last().expect("one");
            let is_version = |bytes: &[u8], at: usize, version: &[u8]| {
                let end = version.len().min(at + bytes.len());
                at <= end
                    && bytes[..end - at] == version[at..end]
                    && bytes[end - at..].iter().all(|&byte| byte == 0)
            };
            let is_last = |nth: usize, page: &[u8]| is_version(page, nth * PAGE_BYTES, last);
            for (nth, page) in found.iter().enumerate() {
                let Some(page) = page else { continue };
                let is_known =
                    known.versions.iter().any(|version| is_version(page, nth * PAGE_BYTES, version));
                assert!(is_known, "{what}: page {nth} was never so");
            }
            let pages = last.len().div_ceil(PAGE_BYTES);
            let can_be_read = found.len() >= pages && found.iter().all(Option::is_some);
            let mut readable = found.iter().enumerate().filter_map(|(nth, page)| Some((nth, page.as_ref()?)));
            let is_newest = readable.all(|(nth, page)| is_last(nth, page));
            assert!(is_newest || is_named, "{what}: is older, and nothing says so");
            assert!(found.len() == pages || is_named, "{what}: has another size, and nothing says so");
            lost_pages += found.iter().filter(|page| page.is_none()).count();
            self.whole += usize::from(can_be_read && is_newest);
            self.in_part += usize::from(!can_be_read);
            self.earlier += usize::from(!is_newest);
        }
        self.most_pages = self.most_pages.max(lost_pages);
    }
}

/// How a page is damaged.
#[derive(Clone, Copy, Debug)]
enum Damage {
    Unreadable,
    Flipped,
}

fn each_page_is_lost(is_closed: bool, damage: Damage) -> Tally {
    let image = image(is_closed);
    let flash = Flash::new(image.bytes.len() as u64);
    let mut tally = Tally::default();
    for page in 0..image.bytes.len() / PAGE_BYTES {
        let is_used = image.bytes[page * PAGE_BYTES..][..PAGE_BYTES].iter().any(|&byte| byte != 0);
        // A head of the log may go on at a page that holds nothing.
        if !is_used && (is_closed || matches!(damage, Damage::Flipped)) {
            continue;
        }
        let what = format!("page {page}, {damage:?}");
        match damage {
            Damage::Unreadable => {
                flash.put(&image.bytes);
                flash.make_unreadable(page as u64);
            }
            Damage::Flipped => {
                let mut bytes = image.bytes.clone();
                bytes[page * PAGE_BYTES + 33] ^= 0x10;
                flash.put(&bytes);
            }
        }
        let volume =
            Volume::open_damaged(flash.medium(), 1 << 20).unwrap_or_else(|error| panic!("{what}: {error}"));
        tally.look(&volume, &image, &what);
    }
    tally
}

#[test]
fn a_page_that_is_lost_costs_one_page_at_most() {
    for is_closed in [true, false] {
        for damage in [Damage::Unreadable, Damage::Flipped] {
            let tally = each_page_is_lost(is_closed, damage);
            assert_eq!((tally.missing, tally.most_pages), (0, 1), "{tally:?}");
            assert!(tally.in_part < 60 && tally.nameless > 0, "{tally:?}");
        }
    }
}

fn is_of_table(image: &[u8], page: usize) -> bool {
    key_of(image, page).is_some_and(|key| key.is_node() || key.ino() <= Ino::ROOT_FOLDER)
}

/// Numbers are given again, segments are cleaned and written again: the log has much that is no more.
#[test]
fn what_was_removed_does_not_come_back_in_silence() {
    let flash = Flash::new(5 << 20);
    Volume::create(flash.medium(), (0, 0)).expect("created");
    let mut files = HashMap::<String, (Ino, Vec<u8>)>::new();
    let mut state = 1_u64;
    let mut random = move |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    let mut volume = open(&flash).expect("opened");
    for round in 0..1500 {
        let path = format!("/{}", random(60));
        match (files.get_mut(&path), random(4)) {
            (Some(_), 0) => {
                root(&volume).unlink(path.as_bytes()).expect("there");
                files.remove(&path);
            }
            (Some((_, bytes)), 1) => {
                let len = random(bytes.len() + 1);
                root(&volume).truncate(path.as_bytes(), len as u64).expect("there");
                bytes.truncate(len);
            }
            (Some((_, bytes)), _) => {
                let at = random(bytes.len() + 1);
                let new = contents(round, 1, 1 + random(6000));
                write(&volume, &path, at as u64, &new).expect("room");
                bytes.resize(bytes.len().max(at + new.len()), 0);
                bytes[at..at + new.len()].copy_from_slice(&new);
            }
            (None, _) => {
                let bytes = contents(round, 0, 1 + random(20_000));
                write(&volume, &path, 0, &bytes).expect("room");
                let (ino, _) = root(&volume).stat(path.as_bytes(), Last::Keep).expect("there");
                files.insert(path, (ino, bytes));
            }
        }
        if round % 5 == 0 {
            volume.sync().expect("synced");
        }
        if round % 300 == 299 {
            volume.close().expect("closed");
            volume = open(&flash).expect("opened");
        }
    }
    volume.close().expect("closed");
    let image = flash.image();
    let known = files.into_iter().map(|(path, (ino, bytes))| Known { path, ino, versions: vec![bytes] });
    let image = Image { bytes: image, files: known.collect() };
    let (mut doubtful, mut complete) = (0, 0);
    for page in (0..image.bytes.len() / PAGE_BYTES).filter(|&page| is_of_table(&image.bytes, page)) {
        flash.put(&image.bytes);
        flash.make_unreadable(page as u64);
        let volume = Volume::open_damaged(flash.medium(), 1 << 20).expect("opened");
        let salvaged = volume.salvaged();
        if salvaged.doubts.is_empty() {
            continue;
        }
        doubtful += 1;
        let reachable = reachable(&volume);
        let mut is_complete = true;
        for known in &image.files {
            let what = format!("page {page}: {} {}", known.path, known.ino);
            let without_name = format!("/lost+found/inode-{}", known.ino.0);
            let found = reachable.get(&known.path).or(reachable.get(&without_name));
            let ino = *found.unwrap_or_else(|| panic!("{what} is missing: {salvaged:?}"));
            assert_eq!(ino, known.ino, "{what}: {salvaged:?}");
            let size_bytes = volume.inode(ino).expect("there").size_bytes;
            let found: Option<Vec<Vec<u8>>> = pages(&volume, ino, size_bytes).into_iter().collect();
            let is_as_it_was = found.is_some_and(|pages| pages.concat() == known.versions[0]);
            assert!(
                is_as_it_was || salvaged.doubts.contains_key(&ino),
                "{what}: differs, and nothing says so"
            );
            is_complete &= is_as_it_was;
        }
        complete += usize::from(is_complete);
    }
    println!("{doubtful} pages cost something, {complete} of them no byte of a file");
    assert!(doubtful > 40 && complete * 10 > doubtful * 8, "{complete} of {doubtful}");
}
