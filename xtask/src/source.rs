//! The project's text files, and Rust code without its comments and strings.

use std::fs;
use std::path::{Path, PathBuf};

/// One file.
pub struct Source {
    /// From the workspace's root.
    pub path: PathBuf,
    /// Its text.
    pub text: String,
}

impl Source {
    /// Whether it is Rust.
    pub fn is_rust(&self) -> bool {
        self.path.extension().is_some_and(|extension| extension == "rs")
    }

    /// Whether it holds nothing but tests or benchmarks.
    pub fn is_test(&self) -> bool {
        let in_tests = self.path.iter().any(|part| part == "tests" || part == "benches");
        in_tests || self.path.file_name().is_some_and(|name| name == "tests.rs")
    }
}

const FOLDERS: [&str; 12] = [
    ".ci", "bench", "crates", "docs", "examples", "fuzz", "include", "man", "research", "scripts", "tests",
    "xtask",
];
const EXTENSIONS: [&str; 8] = ["rs", "toml", "c", "h", "sh", "md", "1", "3"];
const NAMES: [&str; 2] = ["Makefile", "run"];

/// Reads the text files of the project's folders and of its root.
///
/// # Errors
/// The path and the reason, if a file cannot be read.
pub fn read_all(root: &Path) -> Result<Vec<Source>, String> {
    let mut paths = files_of(root)?;
    for folder in FOLDERS.iter().map(|folder| root.join(folder)).filter(|folder| folder.is_dir()) {
        walk(&folder, &mut paths)?;
    }
    paths.sort();
    paths.iter().filter(|path| is_text(path)).map(|path| read(root, path)).collect()
}

fn is_text(path: &Path) -> bool {
    let has =
        |list: &[&str], part: Option<&std::ffi::OsStr>| part.is_some_and(|p| list.iter().any(|l| p == *l));
    has(&EXTENSIONS, path.extension()) || has(&NAMES, path.file_name())
}

fn read(root: &Path, path: &Path) -> Result<Source, String> {
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(Source { path: path.strip_prefix(root).unwrap_or(path).to_owned(), text })
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let problem = |error| format!("{}: {error}", folder.display());
    let listing = fs::read_dir(folder).map_err(problem)?;
    listing.map(|entry| entry.map(|entry| entry.path()).map_err(problem)).collect()
}

fn files_of(folder: &Path) -> Result<Vec<PathBuf>, String> {
    Ok(entries(folder)?.into_iter().filter(|path| path.is_file()).collect())
}

fn walk(folder: &Path, paths: &mut Vec<PathBuf>) -> Result<(), String> {
    for path in entries(folder)? {
        if path.is_dir() && path.file_name().is_some_and(|name| name != "target") {
            walk(&path, paths)?;
        } else if path.is_file() {
            paths.push(path);
        }
    }
    Ok(())
}

/// The text with every comment and every literal's content replaced by spaces; lines keep their
/// numbers and columns.
pub fn code_only(text: &str) -> String {
    let mut scanner = Scanner { rest: text, code: String::with_capacity(text.len()) };
    while !scanner.rest.is_empty() {
        scanner.step();
    }
    scanner.code
}

struct Scanner<'a> {
    rest: &'a str,
    code: String,
}

impl Scanner<'_> {
    fn step(&mut self) {
        if self.rest.starts_with("//") {
            self.blank(self.rest.find('\n').unwrap_or(self.rest.len()));
        } else if self.rest.starts_with("/*") {
            self.blank(block_comment_end(self.rest));
        } else if let Some(end) = raw_string_end(self.rest).filter(|_| !self.after_word()) {
            self.blank(end);
        } else if self.rest.starts_with('"') {
            self.blank(quoted_end(self.rest, '"'));
        } else if let Some(end) = char_literal_end(self.rest) {
            self.blank(end);
        } else {
            let next = self.rest.chars().next().map_or(0, char::len_utf8);
            self.code.push_str(&self.rest[..next]);
            self.rest = &self.rest[next..];
        }
    }

    /// Whether the last character belongs to a name, so that an `r` here does too.
    fn after_word(&self) -> bool {
        self.code.ends_with(|c: char| c.is_alphanumeric() || c == '_')
    }

    fn blank(&mut self, bytes: usize) {
        let (gone, rest) = self.rest.split_at(bytes);
        self.code.extend(gone.chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
        self.rest = rest;
    }
}

fn block_comment_end(text: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < text.len() {
        if text[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if text[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += text[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    text.len()
}

fn raw_string_end(text: &str) -> Option<usize> {
    let body =
        text.strip_prefix("br").or_else(|| text.strip_prefix("cr")).or_else(|| text.strip_prefix('r'))?;
    let hashes = body.bytes().take_while(|byte| *byte == b'#').count();
    if !body[hashes..].starts_with('"') {
        return None;
    }
    let start = text.len() - body.len() + hashes + 1;
    let close = format!("\"{}", "#".repeat(hashes));
    Some(text[start..].find(&close).map_or(text.len(), |at| start + at + close.len()))
}

fn quoted_end(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        if !escaped && c == quote {
            return at + 1;
        }
        escaped = !escaped && c == '\\';
    }
    text.len()
}

/// The end of `'a'` or `'\n'`; `None` for a lifetime.
fn char_literal_end(text: &str) -> Option<usize> {
    let mut chars = text.strip_prefix('\'')?.chars();
    let first = chars.next()?;
    if first == '\\' {
        return Some(quoted_end(text, '\''));
    }
    (chars.next()? == '\'').then(|| 2 + first.len_utf8())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_vanish_and_columns_stay() {
        let text = "a /* x /* y */ */ b \"un\\\"safe\" r#\"un\"safe\"# '\"' 'a' c<'d> // unsafe\ne";
        let code = code_only(text);
        assert_eq!(code.chars().count(), text.chars().count());
        assert!(!code.contains("safe"));
        let words: Vec<_> = code.split_whitespace().collect();
        assert_eq!(words, ["a", "b", "c<'d>", "e"]);
    }

    #[test]
    fn names_that_end_in_r_are_no_raw_strings() {
        assert_eq!(code_only("for\"x\"y").trim_end(), "for   y");
    }

    #[test]
    fn unfinished_text_ends() {
        for text in ["\"abc", "/* abc", "r#\"abc", "'\\"] {
            assert_eq!(code_only(text).trim(), "");
        }
    }
}
