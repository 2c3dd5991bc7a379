//! The file in which a program leaves samples of its faults.

use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;

use aquifer_base::samples::{
    FAULTS_AT, FULL, Layout, MODULES_BYTES, MODULES_USED_AT, SLOT_BYTES, SampleHead, Samples,
};
use aquifer_cli::profile::callers::Callers;
use aquifer_cli::profile::image::Image;
use aquifer_cli::profile::modules;

/// Bytes of an input that go to a slot; the others are lines of modules.
pub const IN_SLOT_BYTES: usize = SampleHead::BYTES + 192;

thread_local! {
    static IMAGE: Option<Rc<Image>> = Image::open(Path::new("/proc/self/exe")).map(Rc::new);
    static FILE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Whatever a program writes, callers are looked for and the search ends.
pub fn property(input: &[u8]) {
    let _ = Samples::parse(input).map(|samples| samples.iter().count());
    FILE.with_borrow_mut(|file| {
        fill(file, input);
        look(&Samples::parse(file).expect("the layout is that of such a file"));
    });
}

/// A file with this input in it: files are longer than a fuzzer likes.
fn fill(file: &mut Vec<u8>, input: &[u8]) {
    let layout = Layout::new(0);
    let (in_slot, lines) = input.split_at(input.len().min(IN_SLOT_BYTES));
    file.resize(layout.file_bytes(), 0);
    file[..24].copy_from_slice(&layout.head(1));
    file[FAULTS_AT..][..8].copy_from_slice(&u64::MAX.to_ne_bytes());
    file[MODULES_USED_AT..][..8].copy_from_slice(&(lines.len() as u64).to_ne_bytes());
    file[layout.state_at(0)..][..4].copy_from_slice(&FULL.to_ne_bytes());
    let lines = &lines[..lines.len().min(MODULES_BYTES)];
    file[layout.modules_at()..][..lines.len()].copy_from_slice(lines);
    file[layout.slot_at(0)..][..SLOT_BYTES].fill(0);
    file[layout.slot_at(0)..][..in_slot.len()].copy_from_slice(in_slot);
}

fn look(samples: &Samples<'_>) {
    let processes = modules::parse(samples.modules());
    for modules in processes.values() {
        assert!(modules.is_sorted_by(|one, next| one.end <= next.start), "{modules:?}");
        for module in modules {
            assert_eq!(modules::find(modules, module.start), Some(module));
        }
    }
    let image = IMAGE.with(Clone::clone);
    for sample in samples.iter() {
        let modules = processes.get(&sample.head.process).map_or(&[][..], |modules| modules);
        for image in [None, image.clone()] {
            let callers = Callers::new(modules.iter().map(|module| (module, image.clone()))).of(&sample);
            assert_eq!(callers.first(), Some(&sample.head.pc));
        }
    }
}
