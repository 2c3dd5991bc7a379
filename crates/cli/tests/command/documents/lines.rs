//! Commands of a program in all documents.

use std::fs;
use std::path::{Path, PathBuf};

/// Texts about versions and figures of the past.
const PAST: [&str; 3] = ["CHANGELOG.md", "docs/adr", "docs/reference/benchmarks"];

fn documents(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap()) {
        let (path, kind) = (entry.path(), entry.file_type().unwrap());
        if kind.is_dir() {
            documents(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
}

/// Lines of code: those of fences, and those that are set in by four spaces; continued lines are one.
fn code(text: &str) -> Vec<(usize, String)> {
    let (mut is_fenced, mut lines, mut begun) = (false, Vec::new(), None::<(usize, String)>);
    for (at, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            is_fenced = !is_fenced;
            continue;
        }
        if !is_fenced && !line.starts_with("    ") {
            continue;
        }
        let (number, before) = begun.take().unwrap_or((at + 1, String::new()));
        let line = format!("{before}{}", line.trim());
        match line.strip_suffix('\\') {
            Some(part) => begun = Some((number, part.to_owned())),
            None => lines.push((number, line)),
        }
    }
    lines
}

/// Words of each command of `program` in a line of a shell. What explains it stands behind two spaces or a number sign.
fn commands(line: &str, program: &str) -> Vec<Vec<String>> {
    let line = line.split("  ").next().unwrap_or_default();
    let line = line.split(" #").next().unwrap_or_default();
    let mut found = Vec::new();
    // What a shell, or another command, puts around ours.
    for part in line.split([';', '|', '>', '&', '(', ')', '`']) {
        let mut words: Vec<&str> = part.split_whitespace().skip_while(is_before).collect();
        if words.first().and_then(|word| word.rsplit('/').next()) != Some(program) {
            continue;
        }
        // What is run is another program's.
        if let Some(at) = words.iter().position(|word| *word == "--") {
            words.truncate(at + 2);
        }
        let quotes = |word: &&str| word.replace(['"', '\''], "").replace("$!", "4711");
        found.push(words.iter().map(quotes).collect());
    }
    found
}

/// Words in front of a command: a prompt, `sudo`, variables.
fn is_before(word: &&str) -> bool {
    matches!(*word, "$" | "sudo" | "exec" | "time" | "if" | "then" | "!")
        || (word.contains('=') && !word.starts_with('-'))
}

/// Whether a line shows a form, an answer or another thing of this name, and not a command.
fn is_a_form(words: &[String]) -> bool {
    let is_other = |word: &String| {
        matches!(word.as_str(), "..." | "ARGS" | "OPTIONS")
            || word.starts_with(['[', '<'])
            || word.ends_with(':')
    };
    let is_subcommand = |word: &String| word.starts_with('-') || word.chars().all(|c| c.is_ascii_lowercase());
    !words.get(1).is_some_and(is_subcommand) || words.iter().any(is_other)
}

/// The words of each command of `program`, and where it stands.
pub fn commands_of(program: &str) -> Vec<(String, Vec<String>)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let mut paths = vec![root.join("README.md"), root.join("CONTRIBUTING.md")];
    for folder in ["docs", "examples", "crates/python", "bench"] {
        documents(&root.join(folder), &mut paths);
    }
    let mut found = Vec::new();
    for path in paths {
        let name = path.strip_prefix(&root).unwrap().display().to_string();
        if PAST.iter().any(|past| name.starts_with(past)) {
            continue;
        }
        for (number, line) in code(&fs::read_to_string(&path).unwrap()) {
            let words = commands(&line, program).into_iter().filter(|words| !is_a_form(words));
            found.extend(words.map(|words| (format!("{name}:{number}"), words)));
        }
    }
    found
}
