//! Links between documents: each leads to a file that is there, and to a heading of it; the book's contents list each page once.

use crate::Finding;
use crate::source::Source;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

/// The contents of the book.
const CONTENTS: &str = "docs/SUMMARY.md";
/// Where the book's pages are.
const PAGES: &str = "docs";
/// Texts that a program puts on a page in another folder: where they are, and where that page is.
const QUOTED: (&str, &str) = ("bench/notes", "docs/reference");

/// Finds relative links of Markdown that lead nowhere, and pages that [`CONTENTS`] misses or lists twice.
pub fn check(root: &Path, sources: &[Source]) -> Vec<Finding> {
    let is_there = |path: &Path| root.join(path).exists();
    compare(&documents(sources), is_there).into_iter().map(Finding::Broken).collect()
}

/// What links need of one file.
struct Document {
    /// Lines and targets, as they are written.
    links: Vec<(usize, String)>,
    anchors: BTreeSet<String>,
}

fn documents(sources: &[Source]) -> BTreeMap<PathBuf, Document> {
    let markdown = sources.iter().filter(|source| source.path.extension().is_some_and(|kind| kind == "md"));
    markdown.map(|source| (source.path.clone(), parse(&source.text))).collect()
}

fn compare(documents: &BTreeMap<PathBuf, Document>, is_there: impl Fn(&Path) -> bool) -> Vec<String> {
    let mut broken = Vec::new();
    for (path, document) in documents {
        for (line, target) in &document.links {
            let (to, anchor) = resolve(path, target);
            let place = format!("{}:{line}", path.display());
            if !is_there(&to) {
                broken.push(format!("{place}: {target} leads to no file"));
            } else if documents
                .get(&to)
                .is_some_and(|page| !anchor.is_empty() && !page.anchors.contains(anchor))
            {
                broken.push(format!("{place}: {} has no heading #{anchor}", to.display()));
            }
        }
    }
    broken.extend(unlisted(documents));
    broken
}

/// Pages that do not stand once in the contents.
fn unlisted(documents: &BTreeMap<PathBuf, Document>) -> Vec<String> {
    let Some(contents) = documents.get(Path::new(CONTENTS)) else { return Vec::new() };
    let listed = |page: &Path| {
        contents.links.iter().filter(|(_, target)| resolve(Path::new(CONTENTS), target).0 == page).count()
    };
    let pages = documents.keys().filter(|path| path.starts_with(PAGES) && *path != Path::new(CONTENTS));
    pages
        .filter_map(|page| match listed(page) {
            0 => Some(format!("{CONTENTS} does not list {}", page.display())),
            1 => None,
            n => Some(format!("{CONTENTS} lists {} {n} times", page.display())),
        })
        .collect()
}

/// The file, from the root, and the anchor that `target` means in `path`.
fn resolve<'a>(path: &Path, target: &'a str) -> (PathBuf, &'a str) {
    let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
    if file.is_empty() {
        return (path.to_owned(), anchor);
    }
    let folder = path.parent().unwrap_or(Path::new(""));
    let folder = if folder == Path::new(QUOTED.0) { Path::new(QUOTED.1) } else { folder };
    (normal(&folder.join(file)), anchor)
}

/// `path` without `.` and `..`, which stays in front if it leads out of the root.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir if normal.file_name().is_some() => {
                normal.pop();
            }
            part => normal.push(part),
        }
    }
    normal
}

fn parse(text: &str) -> Document {
    let prose = without_blocks(text);
    let links = links(&without_spans(&prose));
    let mut anchors = BTreeSet::new();
    for heading in prose.lines().filter_map(heading) {
        let slug = slug(heading);
        let numbered = (1..).map(|n| format!("{slug}-{n}"));
        let free = std::iter::once(slug.clone()).chain(numbered).find(|name| !anchors.contains(name));
        anchors.extend(free);
    }
    Document { links, anchors }
}

/// The text of a heading.
fn heading(line: &str) -> Option<&str> {
    let rest = line.trim_start_matches('#');
    let level = line.len() - rest.len();
    rest.strip_prefix(' ').filter(|_| (1..=6).contains(&level)).map(str::trim)
}

/// The name that GitHub and mdBook give a heading.
fn slug(heading: &str) -> String {
    let mut text = String::new();
    let mut rest = heading;
    // Of a link its text counts.
    while let Some((before, target)) = rest.split_once("](") {
        text.push_str(before);
        rest = target.split_once(')').map_or("", |(_, after)| after);
    }
    text.push_str(rest);
    let kept = text.chars().filter(|c| c.is_alphanumeric() || ['-', '_', ' '].contains(c));
    kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// `text` with empty lines in place of fenced code.
fn without_blocks(text: &str) -> String {
    let mut fence = None;
    let mut prose = String::with_capacity(text.len());
    for line in text.lines() {
        let opened = ["```", "~~~"].into_iter().find(|fence| line.trim_start().starts_with(fence));
        match (fence, opened) {
            (None, None) => prose.push_str(line),
            (None, Some(_)) => fence = opened,
            (Some(_), _) if fence == opened => fence = None,
            (Some(_), _) => {}
        }
        prose.push('\n');
    }
    prose
}

/// `text` without code spans; lines keep their numbers. A span ends in its paragraph.
fn without_spans(text: &str) -> String {
    let mut prose = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('`') {
        let (before, span) = rest.split_at(at);
        prose.push_str(before);
        let inner = span.trim_start_matches('`');
        let marks = &span[..span.len() - inner.len()];
        let paragraph = inner.find("\n\n").map_or(inner, |end| &inner[..end]);
        let end = paragraph.find(marks).map_or(0, |end| end + marks.len());
        prose.extend(inner[..end].chars().filter(|c| *c == '\n'));
        rest = &inner[end..];
    }
    prose.push_str(rest);
    prose
}

/// Relative targets of links and images, and of link definitions, with their lines.
fn links(prose: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (at, line) in prose.lines().enumerate() {
        let inline =
            line.match_indices("](").filter_map(|(at, mark)| line[at + mark.len()..].split_once(')'));
        let defined = line.trim_start().strip_prefix('[').and_then(|rest| rest.split_once("]: "));
        let targets = inline.map(|(target, _)| target).chain(defined.map(|(_, target)| target));
        let targets = targets.filter_map(|target| target.split_whitespace().next());
        found.extend(targets.filter(|target| is_relative(target)).map(|target| (at + 1, target.to_owned())));
    }
    found
}

fn is_relative(target: &str) -> bool {
    !target.contains("://") && !target.starts_with("mailto:")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broken(files: &[(&str, &str)]) -> Vec<String> {
        let source = |(path, text): &(&str, &str)| Source { path: path.into(), text: (*text).to_owned() };
        let sources: Vec<_> = files.iter().map(source).collect();
        let is_there = |path: &Path| path == Path::new("src") || sources.iter().any(|file| file.path == path);
        compare(&documents(&sources), is_there)
    }

    #[test]
    fn a_link_to_no_file_is_broken() {
        let text = "[a](b.md)\n\n![c](../d.png) [e](src) [f](https://g) [h]: x\n[i]: j.md\n";
        assert_eq!(
            broken(&[("a/a.md", text)]),
            [
                "a/a.md:1: b.md leads to no file",
                "a/a.md:3: ../d.png leads to no file",
                "a/a.md:3: src leads to no file",
                "a/a.md:4: j.md leads to no file"
            ]
        );
        assert_eq!(broken(&[("a/a.md", "[b](../b.md), [c](../src)"), ("b.md", "")]), [""; 0]);
    }

    #[test]
    fn an_anchor_without_a_heading_is_broken() {
        let other = "# One `two`: three\n## Same\n## Same\n```\n## Code\n```\n";
        let good = "[a](b.md#one-two-three) [b](b.md#same-1) [c](#here)\n# Here\n";
        assert_eq!(broken(&[("a.md", good), ("b.md", other)]), [""; 0]);
        let bad = "[a](b.md#code) [b](b.md#same-2)\n[c](#there)";
        assert_eq!(
            broken(&[("a.md", bad), ("b.md", other)]),
            [
                "a.md:1: b.md has no heading #code",
                "a.md:1: b.md has no heading #same-2",
                "a.md:2: a.md has no heading #there"
            ]
        );
    }

    #[test]
    fn code_has_no_links() {
        let text = "```\n[a](b.md)\n```\n`[a](b.md)` and `x\ny` [c](d.md)\n\n`unfinished\n\n[e](f.md)\n";
        let lines = ["a.md:5: d.md leads to no file", "a.md:9: f.md leads to no file"];
        assert_eq!(broken(&[("a.md", text)]), lines);
    }

    #[test]
    fn a_page_stands_in_the_contents_once() {
        let contents = "[a](a.md)\n[b](start/b.md)\n[b](start/b.md)\n";
        let files = [
            ("docs/SUMMARY.md", contents),
            ("docs/a.md", ""),
            ("docs/start/b.md", ""),
            ("docs/c.md", ""),
            ("d.md", ""),
        ];
        assert_eq!(
            broken(&files),
            ["docs/SUMMARY.md does not list docs/c.md", "docs/SUMMARY.md lists docs/start/b.md 2 times"]
        );
    }

    #[test]
    fn notes_are_read_on_the_page_that_quotes_them() {
        let page = ("docs/reference/corpus.md", "");
        assert_eq!(broken(&[("bench/notes/a.md", "[a](corpus.md)"), page]), [""; 0]);
        assert_eq!(broken(&[("bench/a.md", "[a](corpus.md)"), page]).len(), 1);
    }

    #[test]
    fn slugs_are_those_of_github() {
        assert_eq!(slug("`aquifer probe`: what a *device* does"), "aquifer-probe-what-a-device-does");
        assert_eq!(slug("Who may: [TLS](tls.md#keys), and ADR 7"), "who-may-tls-and-adr-7");
        assert_eq!(slug("4 GiB of 128-byte objects"), "4-gib-of-128-byte-objects");
    }
}
