//! The part of `include/aquifer.h` that the benchmarks use, loaded from the built library, so that
//! what is measured is what users link.

use std::env;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::ptr;

use dlopen2::wrapper::{Container, WrapperApi};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

const LIBRARY: &str = "libaquifer.so";
const LIBRARY_VARIABLE: &str = "AQUIFER_LIB";
/// Where `make lib` puts it, from the root of the workspace.
const BUILT: &str = "build/lib";

/// `aq_heap`.
pub type HeapPointer = *mut c_void;

/// `AQ_READ`: an object is used, not changed.
pub const READ: c_int = 0;

/// `AQ_COMPRESS_NEVER`: pages are not compressed before they leave RAM.
pub const COMPRESS_NEVER: c_int = 0;
/// `AQ_COMPRESS_ALWAYS`: they are.
pub const COMPRESS_ALWAYS: c_int = 1;
/// `AQ_COMPRESS_AUTO`: they are while that saves time and processors have some left.
pub const COMPRESS_AUTO: c_int = 2;

/// `aq_options`.
#[repr(C)]
#[derive(Debug)]
pub struct Options {
    /// Size of this structure.
    pub struct_bytes: usize,
    /// Everything the heap keeps in RAM.
    pub ram_bytes: u64,
    /// File, block device or directory.
    pub flash_path: *const c_char,
    /// Size of the flash file.
    pub flash_bytes: u64,
    /// `enum aq_faults`.
    pub faults: c_int,
    /// `enum aq_policy`.
    pub policy: c_int,
    /// Socket for `aquifer stats`.
    pub socket_path: *const c_char,
    /// The size that RAM is divided for.
    pub object_bytes: u64,
    /// Settings for the flash.
    pub device_profile_path: *const c_char,
    /// `enum aq_compression`.
    pub compression: c_int,
}

/// `aq_item`.
#[repr(C)]
#[derive(Debug)]
pub struct Item {
    /// An address in the heap.
    pub object: *mut c_void,
    /// The program's memory.
    pub memory: *mut c_void,
    /// Bytes to copy.
    pub bytes: usize,
}

macro_rules! stats {
    (sizes: $($size:ident),*; events: $($event:ident),*;) => {
        /// `aq_stats`; the header says what each field counts.
        #[repr(C)]
        #[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
        #[serde(default)]
        #[allow(missing_docs)]
        pub struct Stats {
            #[serde(skip)]
            pub struct_bytes: usize,
            $(pub $size: u64,)*
            $(pub $event: u64,)*
        }

        impl Stats {
            /// The events between `earlier` and this, with the sizes of this.
            pub fn since(&self, earlier: &Self) -> Self {
                Self { $($event: self.$event.saturating_sub(earlier.$event),)* ..*self }
            }
        }

        /// The fields in the order of the structure.
        #[cfg(test)]
        const STATS_FIELDS: &[&str] = &[$(stringify!($size),)* $(stringify!($event)),*];
    };
}

stats! {
    sizes:
        ram_budget_bytes, ram_used_bytes, metadata_bytes, page_buffer_bytes, page_table_bytes,
        cache_bytes, cache_objects, objects, object_bytes, flash_bytes, flash_live_bytes;
    events:
        faults, faults_write_upgrade, hits, misses, zero_fills, evicted_pages, evicted_objects,
        device_reads, device_read_bytes, device_writes, device_written_bytes, objects_written,
        objects_written_bytes, objects_cleaned, objects_cleaned_bytes, leaves_written,
        leaves_written_bytes, leaves_read, segments_cleaned, writer_waits, io_errors,
        flash_wait_ns, process_ram_bytes, group_used_bytes, group_limit_bytes,
        decompressed, compressed, compressed_bytes, incompressible;
}

impl Stats {
    /// An empty structure that says how long it is, as the library wants it.
    pub fn sized() -> Self {
        Self { struct_bytes: size_of::<Self>(), ..Self::default() }
    }
}

/// The functions of the library.
#[derive(Debug, WrapperApi)]
pub struct Api {
    /// `aq_options_init`.
    aq_options_init: unsafe extern "C" fn(options: *mut Options, struct_bytes: usize),
    /// `aq_heap_open`.
    aq_heap_open: unsafe extern "C" fn(options: *const Options, heap: *mut HeapPointer) -> c_int,
    /// `aq_heap_close`.
    aq_heap_close: unsafe extern "C" fn(heap: HeapPointer) -> c_int,
    /// `aq_heap_array`.
    aq_heap_array: unsafe extern "C" fn(
        heap: HeapPointer,
        count: usize,
        bytes: usize,
        stride: *mut usize,
    ) -> *mut c_void,
    /// `aq_heap_page_malloc`.
    aq_heap_page_malloc: unsafe extern "C" fn(heap: HeapPointer, bytes: usize) -> *mut c_void,
    /// `aq_heap_prefetch`.
    aq_heap_prefetch:
        unsafe extern "C" fn(heap: HeapPointer, objects: *const *mut c_void, count: usize) -> c_int,
    /// `aq_heap_ref_of`.
    aq_heap_ref_of: unsafe extern "C" fn(heap: HeapPointer, object: *const c_void) -> u64,
    /// `aq_heap_deref`.
    aq_heap_deref: unsafe extern "C" fn(heap: HeapPointer, reference: u64, access: c_int) -> *mut c_void,
    /// `aq_heap_release`.
    aq_heap_release: unsafe extern "C" fn(heap: HeapPointer, reference: u64) -> c_int,
    /// `aq_heap_read_batch`.
    aq_heap_read_batch: unsafe extern "C" fn(heap: HeapPointer, items: *const Item, count: usize) -> c_int,
    /// `aq_heap_write_batch`.
    aq_heap_write_batch: unsafe extern "C" fn(heap: HeapPointer, items: *const Item, count: usize) -> c_int,
    /// `aq_heap_stats_get`.
    aq_heap_stats_get: unsafe extern "C" fn(heap: HeapPointer, stats: *mut Stats) -> c_int,
    /// `aq_error_message`.
    aq_error_message: unsafe extern "C" fn() -> *const c_char,
}

impl Api {
    /// Loads the library named by `AQUIFER_LIB`, else the one beside this program, else the one that `make lib` puts into
    /// `build/lib` of the workspace that one is in, or that this program was built in. It stays: unloading would pull the fault handler out from under
    /// the program.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if the library is missing or lacks a function.
    pub fn open() -> Result<&'static Self> {
        let places = places();
        let path = places.iter().find(|place| place.is_file()).ok_or_else(|| {
            let places: Vec<String> = places.iter().map(|place| place.display().to_string()).collect();
            Error::Unavailable(format!(
                "{LIBRARY} is not at {}; run `make lib` in the source folder, or name another in {LIBRARY_VARIABLE}",
                places.join(" or ")
            ))
        })?;
        // SAFETY: loading starts nothing, a heap is opened explicitly; the signatures are those of include/aquifer.h.
        let library = unsafe { Container::<Self>::load(path) };
        let unusable = |error| Error::Unavailable(format!("{} cannot be used: {error}", path.display()));
        Ok(Box::leak(Box::new(library.map_err(unusable)?)))
    }

    /// Options with the library's defaults.
    pub fn default_options(&self) -> Options {
        let mut options = Options {
            struct_bytes: 0,
            ram_bytes: 0,
            flash_path: ptr::null(),
            flash_bytes: 0,
            faults: 0,
            policy: 0,
            socket_path: ptr::null(),
            object_bytes: 0,
            device_profile_path: ptr::null(),
            compression: 0,
        };
        // SAFETY: the structure has this size.
        unsafe { self.aq_options_init(&mut options, size_of::<Options>()) };
        options
    }

    /// The library's sentence about the calling thread's last failure.
    pub fn message(&self) -> String {
        // SAFETY: the library returns a terminated string or NULL, valid until the next call.
        unsafe {
            let message = self.aq_error_message();
            if message.is_null() {
                return String::new();
            }
            CStr::from_ptr(message).to_string_lossy().into_owned()
        }
    }
}

fn places() -> Vec<PathBuf> {
    if let Some(path) = env::var_os(LIBRARY_VARIABLE) {
        return vec![PathBuf::from(path)];
    }
    let program = env::current_exe().ok();
    let folder = program.as_deref().and_then(Path::parent);
    places_around(folder)
}

/// Where the library may be for a program in this folder, which in a workspace is `target/PROFILE`.
fn places_around(folder: Option<&Path>) -> Vec<PathBuf> {
    let beside = folder.iter().map(|folder| folder.join(LIBRARY));
    let built = folder.iter().filter_map(|folder| Some(folder.parent()?.parent()?.join(BUILT).join(LIBRARY)));
    beside.chain([Path::new(BUILT).join(LIBRARY)]).chain(built).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = include_str!("../../../../include/aquifer.h");

    /// The declared names between `typedef struct NAME {` and `}`.
    fn fields_in_header(name: &str) -> Vec<String> {
        let start = HEADER.find(&format!("typedef struct {name} {{")).expect("declared in the header");
        let body = &HEADER[start..];
        let body = &body[body.find('{').expect("opened") + 1..body.find('}').expect("closed")];
        let without_comments: String =
            body.split("/*").enumerate().fold(String::new(), |text, (nth, piece)| {
                text + if nth == 0 { piece } else { piece.split_once("*/").expect("closed comment").1 }
            });
        let declarations = without_comments.split([';', ',']);
        let names = declarations.filter_map(|declaration| {
            declaration.split(|c: char| !(c.is_alphanumeric() || c == '_')).rfind(|word| !word.is_empty())
        });
        names.map(str::to_owned).collect()
    }

    /// `scripts/build-lib.sh` is what `make lib` runs.
    #[test]
    fn the_library_is_looked_for_where_make_puts_it() {
        let script = include_str!("../../../../scripts/build-lib.sh");
        assert!(script.contains(BUILT), "{script}");
        let places = places_around(Some(Path::new("/source/target/release")));
        let expected = [
            "/source/target/release/libaquifer.so",
            "build/lib/libaquifer.so",
            "/source/build/lib/libaquifer.so",
        ];
        assert_eq!(places, expected.map(PathBuf::from));
        assert_eq!(places_around(None), [PathBuf::from("build/lib/libaquifer.so")]);
    }

    #[test]
    fn structures_have_the_fields_of_the_header() {
        assert_eq!(fields_in_header("aq_stats")[1..], *STATS_FIELDS);
        assert_eq!(size_of::<Stats>(), 8 * (1 + STATS_FIELDS.len()));
        let options = [
            "struct_bytes",
            "ram_bytes",
            "flash_path",
            "flash_bytes",
            "faults",
            "policy",
            "socket_path",
            "object_bytes",
            "device_profile_path",
            "compression",
        ];
        assert_eq!(fields_in_header("aq_options"), options);
        assert_eq!(fields_in_header("aq_item"), ["object", "memory", "bytes"]);
        assert_eq!(size_of::<Options>(), 72);
    }

    #[test]
    fn events_are_subtracted_and_sizes_kept() {
        let earlier = Stats { cache_bytes: 10, faults: 3, ..Stats::sized() };
        let later = Stats { cache_bytes: 12, faults: 8, ..Stats::sized() };
        assert_eq!(later.since(&earlier), Stats { cache_bytes: 12, faults: 5, ..Stats::sized() });
    }
}
