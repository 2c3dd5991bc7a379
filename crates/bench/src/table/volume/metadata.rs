//! Bytes of tables.

use aquifer_base::units::format_size;

use crate::sample::Record;
use crate::table::markdown;
use crate::volume::metadata::sample::Metadata;
use crate::volume::metadata::{LOG_TAG_BYTES, PAGE_TABLE_BYTES, stacks};

const COLUMNS: [&str; 7] = [
    "bytes for each page of 4 KiB",
    "on flash",
    "in RAM",
    "page table, if mapped",
    "extents",
    "FTL",
    "sum of what is in RAM, or could be",
];

pub fn render(records: &[Record]) -> String {
    let samples = records.iter().filter_map(|record| match record {
        Record::VolumeMetadata(sample) => Some(&**sample),
        _ => None,
    });
    let mut lines: Vec<_> = samples.map(line).collect();
    if lines.is_empty() {
        return String::new();
    }
    lines.extend(stacks().iter().map(|stack| {
        vec![
            stack.name.clone(),
            format!("{:.3}", stack.extents + stack.ftl),
            "-".to_owned(),
            format!("{:.3}", stack.page_table),
            format!("{:.3}", stack.extents),
            format!("{:.3}", stack.ftl),
            format!("{:.3}", stack.sum()),
        ]
    }));
    markdown("Bytes of tables", &COLUMNS, &lines) + &note()
}

fn line(sample: &Metadata) -> Vec<String> {
    vec![
        format!(
            "volume of {}: {} full leaves {} ({} pages, {} nodes)",
            format_size(sample.size_bytes),
            sample.leaves,
            sample.spread,
            sample.pages,
            sample.nodes
        ),
        format!("{:.3}", sample.flash_each()),
        format!("{:.3}", sample.ram_each()),
        format!("{PAGE_TABLE_BYTES:.3}"),
        "-".to_owned(),
        "-".to_owned(),
        format!("{:.3}", sample.ram_each() + PAGE_TABLE_BYTES),
    ]
}

fn note() -> String {
    format!(
        "\nRows of the volume are measured: nodes on flash, and nodes in RAM with what finds them, for the pages that they translate. A page that a \
         program has mapped has an entry of {PAGE_TABLE_BYTES} bytes in the processor's page table with everybody: the table of the volume does \
         not replace it; its upper levels are not counted, those of the volume are. Each page in the log also has its name and checksum there, {LOG_TAG_BYTES} bytes that are read to recover and to clean. The \
         other rows are computed: extents of 12 bytes, 340 in a block of 4 KiB, of at most 128 MiB (ext4); a map of 4 or 8 bytes a page in the \
         device, on top of which a volume on an ordinary disk has one too.\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Context;
    use crate::volume::metadata::sample::Spread;

    #[test]
    fn measured_rows_stand_above_computed_ones() {
        let sample = Metadata {
            spread: Spread::Apart,
            leaves: 64,
            size_bytes: 2 << 40,
            volume_ram_bytes: 64 << 20,
            pages: 32768,
            nodes: 128,
            node_bytes: 128 * 4096,
            nodes_in_ram: 128,
            node_bytes_in_ram: 128 * 4352,
            nodes_of_volume: 130,
            pages_of_volume: 32770,
            context: Context::default(),
        };
        let text = render(&[Record::VolumeMetadata(Box::new(sample))]);
        for line in [
            "| volume of 2 TiB: 64 full leaves at random (32768 pages, 128 nodes) | 16.000 | 17.000 | 8.000 | - | - | 25.000 |",
            "| conventional: extents of 128 MiB, FTL of 4 bytes | 4.000 | - | 8.000 | 0.000 | 4.000 | 12.000 |",
            "| conventional: an extent for each page, FTL of 8 bytes | 20.082 | - | 8.000 | 12.082 | 8.000 | 28.082 |",
        ] {
            assert!(text.contains(line), "{line} is not in {text}");
        }
        assert_eq!(render(&[]), "");
    }
}
