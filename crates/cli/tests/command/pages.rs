//! Manual pages: made of the command line's definition, and held in `man/` as they are made.
//!
//! `make man` writes them.

use std::collections::BTreeMap;
use std::path::Path;

use aquifer_cli::manual::{self, divided};
use clap_mangen::Man;
use roff::{Roff, bold, line_break, roman};

/// A page for the command and for each subcommand, by its file name.
fn pages() -> BTreeMap<String, String> {
    let mut pages = BTreeMap::new();
    page(&manual::command(), "", &mut pages);
    pages
}

fn page(command: &clap::Command, above: &str, pages: &mut BTreeMap<String, String>) {
    let name = format!("{above}{}", command.get_name());
    let spoken = name.replace('-', " ");
    let below: Vec<String> =
        command.get_subcommands().map(|below| format!("{name}-{}", below.get_name())).collect();
    for subcommand in command.get_subcommands() {
        page(subcommand, &format!("{name}-"), pages);
    }
    let text = |text: Option<&clap::builder::StyledStr>| text.map(ToString::to_string).unwrap_or_default();
    let (purpose, rest) = (text(command.get_before_help()), text(command.get_after_help()));
    let (purpose, examples) = purpose.split_once("\n\n").unwrap_or((&purpose, ""));
    let (examples, _) = divided(examples);
    // The synopsis names the command as it is called, the title as the page is.
    let plain = command.clone().before_help(None::<&str>).after_help(None::<&str>).help_template("");
    let shown =
        Man::new(plain.clone().bin_name(spoken).display_name(name.clone()).disable_help_subcommand(true));
    let about = text(command.get_about());
    let mut out = Vec::new();
    let source = format!("Aquifer {}", aquifer::VERSION);
    let mut roff = Roff::new();
    roff.control("TH", [name.to_uppercase().as_str(), "1", "\"\"", source.as_str(), "User commands"]);
    roff.control("SH", ["NAME"]).text([roman(format!("{name} - {}", uncapitalized(&about)))]);
    roff.to_writer(&mut out).unwrap();
    shown.render_synopsis_section(&mut out).unwrap();
    let mut roff = Roff::new();
    roff.control("SH", ["DESCRIPTION"]).text([roman(purpose)]);
    roff.to_writer(&mut out).unwrap();
    let mut roff = Roff::new();
    roff.control("SH", ["EXAMPLES"]);
    literal(&mut roff, examples.trim_start_matches("Examples:\n"));
    roff.to_writer(&mut out).unwrap();
    shown.render_options_section(&mut out).unwrap();
    let mut roff = Roff::new();
    if !below.is_empty() {
        roff.control("SH", ["SUBCOMMANDS"]);
        for subcommand in command.get_subcommands() {
            let about = text(subcommand.get_about());
            roff.control("TP", [])
                .text([bold(format!("{name}-{}(1)", subcommand.get_name()))])
                .text([roman(about)]);
        }
    }
    notes(&mut roff, &rest);
    roff.control("SH", ["SEE ALSO"]);
    let mut others: Vec<String> =
        if above.is_empty() { below } else { vec![above.trim_end_matches('-').into()] };
    others.sort();
    let others: Vec<String> = others.iter().map(|other| format!("{other}(1)")).collect();
    roff.text([roman(others.join(", "))]);
    if above.is_empty() {
        roff.text([line_break(), roman("aquifer(3) is the library.")]);
    }
    roff.to_writer(&mut out).unwrap();
    let page = String::from_utf8(out).expect("it was made of text");
    // Each part begins with the same definition of an apostrophe; one is enough.
    let (definition, _) = page.split_at(page.find(".TH").expect("a title"));
    let page = format!("{definition}{}", page.replace(definition, ""));
    pages.insert(format!("{name}.1"), page);
}

fn uncapitalized(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_lowercase().chain(chars).collect()).unwrap_or_default()
}

/// What stands behind the options: exit statuses and the environment have sections of their own.
fn notes(roff: &mut Roff, rest: &str) {
    let mut is_begun = false;
    for part in rest.split("\n\n").filter(|part| !part.trim().is_empty()) {
        if let Some(statuses) = part.strip_prefix("Exit status:") {
            roff.control("SH", ["EXIT STATUS"]).text([roman(statuses.trim().replace('\n', " "))]);
        } else if let Some(variables) = part.strip_prefix("Environment:\n") {
            roff.control("SH", ["ENVIRONMENT"]);
            literal(roff, variables);
        } else {
            if !is_begun {
                roff.control("SH", ["NOTES"]);
            }
            is_begun = true;
            roff.control("PP", []);
            // Lines that are set in are commands or tables.
            let (lead, table) = match part.find("\n  ") {
                Some(at) => part.split_at(at + 1),
                None if part.starts_with("  ") => ("", part),
                None => (part, ""),
            };
            if !lead.is_empty() {
                roff.text([roman(lead.trim().replace('\n', " "))]);
            }
            if !table.is_empty() {
                literal(roff, table);
            }
        }
    }
}

/// Lines as they are.
fn literal(roff: &mut Roff, lines: &str) {
    roff.control("RS", ["2"]).control("nf", []);
    for line in lines.lines() {
        roff.text([roman(line.strip_prefix("  ").unwrap_or(line))]);
    }
    roff.control("fi", []).control("RE", []);
}

#[test]
fn pages_are_fresh() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../man");
    let pages = pages();
    assert!(pages.len() > 35 && pages["aquifer-run.1"].contains("device\\-profile"));
    if std::env::var_os("AQUIFER_BLESS").is_some() {
        for (name, page) in &pages {
            std::fs::write(folder.join(name), page).unwrap();
        }
    }
    let names =
        std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut held: Vec<String> = names.filter(|name| name.ends_with(".1")).collect();
    held.sort();
    assert_eq!(held, pages.keys().cloned().collect::<Vec<_>>(), "man/ has the pages that there are");
    for (name, page) in pages {
        let held = std::fs::read_to_string(folder.join(&name)).unwrap();
        assert!(held == page, "man/{name} is stale: `make man` writes it anew");
    }
}
