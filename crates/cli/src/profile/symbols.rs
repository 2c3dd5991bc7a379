//! Names and lines of addresses.

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::Path;
use std::rc::Rc;

use addr2line::Loader;

use crate::error::printable;
use crate::profile::image::Image;
use crate::profile::modules::Module;

/// A function that ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Its name, or where it is in its module.
    pub function: String,
    /// File and line, if they are known.
    pub line: Option<String>,
    /// The compiler made it part of the function behind it.
    pub is_inlined: bool,
    /// The module's name.
    pub module: Rc<str>,
}

/// What is known of one file.
struct Known {
    image: Option<Rc<Image>>,
    loader: Option<Loader>,
    name: Rc<str>,
}

/// The files of all modules.
#[derive(Default)]
pub struct Symbols {
    files: HashMap<Module, Known>,
    frames: HashMap<(Rc<str>, u64), Rc<[Frame]>>,
}

impl Symbols {
    /// The image of a module, read when it is first asked for.
    pub fn image(&mut self, module: &Module) -> Option<Rc<Image>> {
        self.known(module).image.clone()
    }

    fn known(&mut self, module: &Module) -> &Known {
        // Where a module is loaded makes no difference to its file.
        let key = Module { start: 0, end: 0, offset: 0, path: module.path.clone() };
        self.files.entry(key).or_insert_with(|| {
            let image = module.file().and_then(Image::open).map(Rc::new);
            let loader = image.as_ref().and_then(|image| Loader::new(&image.debug_file).ok());
            Known { image, loader, name: printable(&module.name()).into() }
        })
    }

    /// The functions at an address of a module: the one that was called last is first, behind it those that it was made part
    /// of by the compiler.
    pub fn frames(&mut self, module: &Module, address: u64) -> Rc<[Frame]> {
        let known = self.known(module);
        let bias = known.image.as_ref().and_then(|image| image.bias(module.start, module.offset));
        let inside = address.wrapping_sub(bias.unwrap_or(module.start));
        let key = (Rc::from(module.path.to_string_lossy()), inside);
        if let Some(frames) = self.frames.get(&key) {
            return frames.clone();
        }
        let known = self.known(module);
        let mut frames = known.loader.as_ref().filter(|_| bias.is_some()).map_or(Vec::new(), |loader| {
            let frames = described(loader, inside, &known.name);
            if frames.is_empty() { named(loader, inside, &known.name) } else { frames }
        });
        if frames.is_empty() {
            let function = match bias {
                Some(_) => format!("{}+{inside:#x}", known.name),
                None => known.name.to_string(),
            };
            frames.push(Frame { function, line: None, is_inlined: false, module: known.name.clone() });
        }
        let frames: Rc<[Frame]> = frames.into();
        self.frames.insert(key, frames.clone());
        frames
    }
}

/// As debug information describes them.
fn described(loader: &Loader, address: u64, module: &Rc<str>) -> Vec<Frame> {
    let mut frames = Vec::new();
    let Ok(mut found) = loader.find_frames(address) else { return frames };
    while let Ok(Some(frame)) = found.next() {
        let Some(function) = frame.function else { return Vec::new() };
        let Ok(name) = function.demangle() else { return Vec::new() };
        let line = frame.location.and_then(|location| {
            let file = Path::new(location.file?).file_name()?.to_string_lossy().into_owned();
            Some(printable(&format!("{file}:{}", location.line?)))
        });
        frames.push(Frame { function: printable(&name), line, is_inlined: true, module: module.clone() });
    }
    if let Some(outermost) = frames.last_mut() {
        outermost.is_inlined = false;
    }
    frames
}

/// As the table of symbols names it.
fn named(loader: &Loader, address: u64, module: &Rc<str>) -> Vec<Frame> {
    let name = loader.find_symbol(address).map(|name| addr2line::demangle_auto(Cow::Borrowed(name), None));
    let frame = |name: Cow<'_, str>| Frame {
        function: printable(&name),
        line: None,
        is_inlined: false,
        module: module.clone(),
    };
    name.map(frame).into_iter().collect()
}
