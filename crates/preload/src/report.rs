//! What happened, when the program ends.

use serde_json::json;

use crate::route::{Route, program};

fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / (1 << 20) as f64)
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
        let report = json!({
            "program": program(),
            "pid": std::process::id(),
            "version": aquifer::VERSION,
            "block_bytes": route.heap.block_bytes(),
            "block_bytes_max": route.heap.block_bytes_max(),
            "exceeded_ram": stats.is_some(),
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
    match route.heap.stats() {
        None => line("exceeded its RAM", "no".into()),
        Some(stats) => {
            line("exceeded its RAM", "yes".into());
            line("RAM in use", mib(stats.ram_used_bytes));
            line("faults", stats.faults.to_string());
            line("  found in RAM", stats.hits.to_string());
            line("  read from flash", stats.misses.to_string());
            line("  never written before", stats.zero_fills.to_string());
            line("read from flash", mib(stats.device_read_bytes));
            line("written to flash", mib(stats.device_written_bytes));
        }
    }
    text
}
