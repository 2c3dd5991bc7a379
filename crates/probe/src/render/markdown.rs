//! A document as Markdown, without its plots.

use super::document::{Document, Part, Section, Table};
use super::escape::markdown as escaped;

pub(crate) fn markdown(document: &Document) -> String {
    let mut text = format!("# {}\n\n", escaped(&document.title));
    for warning in &document.warnings {
        text.push_str(&format!("**{}**\n\n", escaped(warning)));
    }
    for finding in &document.summary {
        text.push_str(&format!("- {}\n", escaped(finding)));
    }
    for section in &document.sections {
        write_section(&mut text, section);
    }
    text
}

fn write_section(text: &mut String, section: &Section) {
    text.push_str(&format!("\n## {}\n\n", escaped(section.title)));
    if !section.text.is_empty() {
        text.push_str(&format!("{}\n\n", escaped(&section.text)));
    }
    for part in &section.parts {
        match part {
            Part::Verdict(_, verdict) => text.push_str(&format!("**{}**\n\n", escaped(verdict))),
            Part::Plots(_) => {}
            Part::Table(table) => write_table(text, table),
        }
    }
}

/// Written with bars; the caption stands before it, because Markdown has none.
pub(crate) fn write_table(text: &mut String, table: &Table) {
    if !table.caption.is_empty() {
        text.push_str(&format!("{}:\n\n", escaped(&table.caption)));
    }
    write_row(text, &table.columns);
    text.push_str("|---|");
    text.push_str(&"--:|".repeat(table.columns.len().saturating_sub(1)));
    text.push('\n');
    for row in &table.rows {
        write_row(text, row);
    }
    text.push('\n');
}

fn write_row(text: &mut String, cells: &[String]) {
    text.push('|');
    for cell in cells {
        text.push_str(&format!(" {} |", escaped(cell)));
    }
    text.push('\n');
}
