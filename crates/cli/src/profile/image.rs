//! The file behind a module: where its code was loaded, and the tables by which callers are found.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use framehop::ExplicitModuleSectionInfo;
use object::elf::PF_X;
use object::{Object, ObjectSection, ObjectSegment, ReadCache, SegmentFlags};

/// Sections and segments of a file as they are needed here.
pub struct Image {
    segments: Vec<Segment>,
    sections: Sections,
    /// Where debug information is: in the file itself or in one that belongs to it.
    pub debug_file: PathBuf,
}

/// Bytes of a section.
pub type Bytes = Arc<[u8]>;
type Sections = ExplicitModuleSectionInfo<Bytes>;

struct Segment {
    address: u64,
    offset: u64,
    bytes: u64,
}

/// Longest section that is read.
const SECTION_BYTES_MAX: u64 = 256 << 20;
/// Where distributions keep debug information.
const DEBUG_FOLDER: &str = "/usr/lib/debug/.build-id";

impl Image {
    /// Reads a file; `None` if that is no program or library.
    pub fn open(path: &Path) -> Option<Self> {
        // Anything else than a file could keep us waiting.
        if !std::fs::metadata(path).ok()?.is_file() {
            return None;
        }
        let cache = ReadCache::new(File::open(path).ok()?);
        let object = object::File::parse(&cache).ok()?;
        let executable = |flags| matches!(flags, SegmentFlags::Elf { p_flags } if p_flags & PF_X != 0);
        let segments = object.segments().filter(|segment| executable(segment.flags())).map(|segment| {
            let (offset, bytes) = segment.file_range();
            Segment { address: segment.address(), offset, bytes }
        });
        let segments = segments.collect();
        let range = |name| {
            let section = object.section_by_name(name)?;
            Some(section.address()..section.address().checked_add(section.size())?)
        };
        let data = |name| {
            let section = object.section_by_name(name)?;
            let bytes = (section.size() <= SECTION_BYTES_MAX).then(|| section.uncompressed_data().ok())??;
            (!bytes.is_empty()).then(|| Bytes::from(&*bytes))
        };
        let sections = Sections {
            text_svma: range(".text"),
            text: data(".text"),
            got_svma: range(".got"),
            eh_frame_svma: range(".eh_frame"),
            eh_frame: data(".eh_frame"),
            eh_frame_hdr_svma: range(".eh_frame_hdr"),
            eh_frame_hdr: data(".eh_frame_hdr"),
            debug_frame: data(".debug_frame"),
            ..Sections::default()
        };
        let debug_file = object.build_id().ok().flatten().and_then(debug_file);
        Some(Self { segments, sections, debug_file: debug_file.unwrap_or_else(|| path.to_owned()) })
    }

    /// What is added to addresses in the file, if the byte at `offset` is at `start`.
    pub fn bias(&self, start: u64, offset: u64) -> Option<u64> {
        const PAGE_BYTES: u64 = 4096;
        let contains = |segment: &&Segment| {
            let begin = segment.offset / PAGE_BYTES * PAGE_BYTES;
            offset.checked_sub(begin).is_some_and(|behind| behind < segment.bytes.saturating_add(PAGE_BYTES))
        };
        let segment = self.segments.iter().find(contains)?;
        let address = offset.wrapping_sub(segment.offset).wrapping_add(segment.address);
        Some(start.wrapping_sub(address))
    }

    /// The sections by which callers are found.
    pub fn sections(&self) -> ExplicitModuleSectionInfo<Bytes> {
        self.sections.clone()
    }
}

fn debug_file(build_id: &[u8]) -> Option<PathBuf> {
    let (first, rest) = build_id.split_first()?;
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let path = Path::new(DEBUG_FOLDER).join(hex(&[*first])).join(hex(rest) + ".debug");
    path.is_file().then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_program_has_code_and_tables() {
        let image = Image::open(&std::env::current_exe().unwrap()).expect("it is a program");
        assert!(image.sections.eh_frame.is_some() && image.sections.text_svma.is_some());
        let first = &image.segments[0];
        // A page of code at an address of its own.
        let offset = first.offset / 4096 * 4096;
        let bias = image.bias(0x7000_0000, offset).expect("the code's bytes");
        assert_eq!(bias.wrapping_add(first.address) & 4095, (0x7000_0000 + first.offset - offset) & 4095);
        assert_eq!(image.bias(0, u64::MAX), None);
        assert!(
            Image::open(Path::new("/dev/null")).is_none() && Image::open(Path::new("/etc/passwd")).is_none()
        );
    }
}
