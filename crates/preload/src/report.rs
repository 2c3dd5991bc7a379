//! What happened, when the program ends.

use aquifer::Strain;
use aquifer::group::Groups;
use aquifer_sys::process::{self, memory_of_self};
use aquifer_sys::stderr;
use serde_json::json;

use crate::libc_blocks;
use crate::route::{Route, program, route};

fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / (1 << 20) as f64)
}

/// Memory that is not managed is told of from here on, and where it is more than half of the RAM that was given.
const UNMANAGED_BYTES_MIN: u64 = 32 << 20;

/// Unmanaged memory up to one part of the RAM in `UNMANAGED_PART` is not reported.
const UNMANAGED_PART: u64 = 64;

/// RAM that this process has now beside blocks, which have `block_bytes` of it, as far as it is worth a smaller heap: small blocks of the C library,
/// stacks, what libraries write to their own pages.
pub fn outside_bytes(block_bytes: u64) -> u64 {
    let allowed = route().map_or(0, |route| route.settings.ram_bytes / UNMANAGED_PART);
    let all = memory_of_self(&mut [0; 2048])
        .map_or(0, |memory| (memory.anonymous_bytes + memory.page_table_bytes).saturating_sub(block_bytes));
    all.saturating_sub(allowed).max(libc_blocks::bytes())
}

/// RAM of this process beside what is managed, at the most.
fn unmanaged_bytes(route: &Route) -> u64 {
    let managed = route.heap.block_bytes_max().min(route.settings.ram_bytes);
    memory_of_self(&mut [0; 8192]).map_or(0, |memory| {
        (memory.rss_bytes_max + memory.page_table_bytes).saturating_sub(memory.file_bytes + managed)
    })
}

/// RAM of this process at the most, pages of files included.
fn rss_bytes_max() -> u64 {
    memory_of_self(&mut [0; 8192]).map_or(0, |memory| memory.rss_bytes_max)
}

/// The same of the largest of its children that have ended; 0 without any.
fn child_rss_bytes_max() -> u64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the structure is ours; zeros are a valid one.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_CHILDREN, usage.as_mut_ptr());
        usage.assume_init()
    };
    usage.ru_maxrss as u64 * 1024
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// Says so if most of the program's memory was none of the heap's.
pub fn tell_of_unmanaged(route: &Route) {
    let (bytes, ram) = (unmanaged_bytes(route), route.settings.ram_bytes);
    if ram > 0 && bytes >= UNMANAGED_BYTES_MIN && bytes > ram / 2 {
        let blocks = match route.settings.small_bytes_too {
            true => "memory that its libraries use themselves".into(),
            false if route.settings.threshold_bytes == usize::MAX => {
                "blocks of malloc; leave --malloc no out".into()
            }
            false => {
                format!("blocks below {} KiB; leave --threshold out", route.settings.threshold_bytes >> 10)
            }
        };
        crate::tell::tell!(
            "aquifer: {}: {} of its memory were not managed and came on top of --ram {}: a heap of its own, or {blocks}",
            program(),
            mib(bytes),
            mib(ram),
        );
    }
}

/// Says that the program waits for flash longer than it runs, and with how much RAM it would not.
pub fn tell_of_strain(route: &Route, strain: &Strain) {
    let (ram, blocks) = (route.settings.ram_bytes, route.heap.block_bytes());
    let helps = match strain.more_bytes.map(|more| ram + more) {
        Some(enough) if enough < blocks => {
            format!("with --ram {} three of four pages that it read would not have left", size(enough))
        }
        _ => "it takes --ram for nearly all of that to change much".into(),
    };
    crate::tell::tell!(
        "aquifer: {}: for {} s it has waited for flash longer than it has run. It has --ram {} and {} of managed memory: {helps}",
        program(),
        strain.period.as_secs(),
        size(ram),
        mib(blocks),
    );
}

/// As options take it, rounded up.
fn size(bytes: u64) -> String {
    format!("{}M", bytes.div_ceil(1 << 20))
}

/// Keeps standard error for what was asked for, as the program closes it.
pub fn keep_stderr() {
    if route().is_some_and(|route| route.settings.report) {
        stderr::keep();
    }
}

/// Writes what was asked for.
pub fn write(route: &Route) {
    let (settings, stats) = (&route.settings, route.heap.stats());
    // Of children only those that needed it.
    if settings.is_child && stats.is_none() {
        return;
    }
    if settings.report {
        crate::tell::write(format_args!("{}", text(route)));
    }
    if let Some(path) = &settings.report_json {
        let group = Groups::of_self().tightest();
        let report = json!({
            "program": program(),
            "pid": std::process::id(),
            "version": aquifer::VERSION,
            "block_bytes": route.heap.block_bytes(),
            "block_bytes_max": route.heap.block_bytes_max(),
            "unmanaged_bytes_max": unmanaged_bytes(route),
            "exceeded_ram": stats.is_some(),
            "rss_bytes_max": rss_bytes_max(),
            "child_rss_bytes_max": child_rss_bytes_max(),
            "group_used_bytes": group.map(|room| room.used),
            "group_limit_bytes": group.map(|room| room.limit),
            "cpu_seconds": seconds(process::cpu_ns()),
            "flash_wait_seconds": stats.map_or(0.0, |stats| seconds(stats.flash_wait_ns)),
            "stats": stats,
        });
        if let Err(error) = std::fs::write(path, format!("{report}\n")) {
            crate::tell::tell!("aquifer: the report could not be written to {}: {error}", path.display());
        }
    }
}

fn text(route: &Route) -> String {
    let mut text = format!("aquifer: {} (process {})\n", program(), std::process::id());
    let mut line = |name: &str, value: String| text += &format!("  {name:<26}{value:>14}\n");
    line("managed memory, most", mib(route.heap.block_bytes_max()));
    line("other memory, most", mib(unmanaged_bytes(route)));
    line("RAM of the process, most", mib(rss_bytes_max()));
    let of_children = child_rss_bytes_max();
    if of_children > 0 {
        line("  of a child, most", mib(of_children));
    }
    if let Some(room) = Groups::of_self().tightest() {
        line("its memory cgroup uses", mib(room.used));
        line("  of", mib(room.limit));
    }
    line("processor time", format!("{:.1} s", seconds(process::cpu_ns())));
    match route.heap.stats() {
        None => line("exceeded its RAM", "no".into()),
        Some(stats) => {
            line("exceeded its RAM", "yes".into());
            line("RAM in use", mib(stats.ram_used_bytes));
            line("threads waited for flash", format!("{:.1} s", seconds(stats.flash_wait_ns)));
            line("faults", stats.faults.to_string());
            line("  found in RAM", stats.hits.to_string());
            if stats.decompressed > 0 {
                line("  found compressed", stats.decompressed.to_string());
            }
            line("  read from flash", stats.misses.to_string());
            line("  never written before", stats.zero_fills.to_string());
            line("read from flash", mib(stats.device_read_bytes));
            line("written to flash", mib(stats.device_written_bytes));
        }
    }
    text
}
