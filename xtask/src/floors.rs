//! Inside a crate whose root has a table of floors, a file may import only files of lower floors.
//!
//! The table stands in the documentation of the crate's root, behind a line that begins with [`HEAD`]. Each row names the files of one floor in
//! its first column, the highest floor first. A file with a folder of its name is one file here; what its parts need of each other is theirs.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use crate::Finding;
use crate::source::{Source, code_only};

const HEAD: &str = "//! Floors, the highest first.";

/// Checks the imports of every crate that has a table.
pub fn check(sources: &[Source]) -> Vec<Finding> {
    let roots = sources.iter().filter(|source| source.path.ends_with("src/lib.rs"));
    roots
        .filter_map(|root| Some((root, Floors::of(&root.text)?)))
        .flat_map(|(root, floors)| {
            let folder = root.path.parent().unwrap_or(Path::new(""));
            let mut findings = floors.check_names(root);
            let inside = |source: &&Source| source.path.starts_with(folder) && source.path != root.path;
            let code = sources.iter().filter(|source| source.is_rust() && !source.is_test()).filter(inside);
            findings.extend(code.flat_map(|source| floors.check_imports(folder, source)));
            findings
        })
        .collect()
}

/// The floor of each file, 0 for the highest.
struct Floors(HashMap<String, usize>);

impl Floors {
    /// `None` if the root has no table.
    fn of(text: &str) -> Option<Self> {
        let table = &text[text.find(HEAD)?..];
        let rows =
            table.lines().filter_map(|line| line.strip_prefix("//! | `")).take_while(|row| !row.is_empty());
        let mut floors = HashMap::new();
        for (floor, row) in rows.enumerate() {
            let names = row.split('|').next().unwrap_or_default();
            for name in names.split(',').map(|name| name.trim().trim_matches('`')) {
                floors.insert(name.to_owned(), floor);
            }
        }
        Some(Self(floors))
    }

    /// Every file of the crate has a floor, and every floor its files.
    fn check_names(&self, root: &Source) -> Vec<Finding> {
        let code = code_only(&root.text);
        let modules: BTreeSet<_> = code
            .lines()
            .filter_map(|line| line.trim_start_matches("pub ").strip_prefix("mod ")?.strip_suffix(';'))
            .collect();
        let path = root.path.display();
        let unnamed = modules.iter().filter(|name| !self.0.contains_key(**name));
        let unnamed = unnamed.map(|name| format!("{path}: {name} has no floor in the table"));
        let gone = self.0.keys().filter(|name| !modules.contains(name.as_str()));
        let gone = gone
            .map(|name| format!("{path}: the table has a floor for {name}, which is no file of the crate"));
        unnamed.chain(gone).map(Finding::Broken).collect()
    }

    fn check_imports(&self, folder: &Path, source: &Source) -> Vec<Finding> {
        let Ok(path) = source.path.strip_prefix(folder) else { return Vec::new() };
        let Some(first) = path.iter().next().and_then(|part| part.to_str()) else { return Vec::new() };
        let own = first.trim_end_matches(".rs");
        let Some(&floor) = self.0.get(own) else { return Vec::new() };
        let code = code_only(&source.text);
        let code = code.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
        let wrong = imports(code).into_iter().filter(|name| name != own);
        wrong
            .filter_map(|name| match self.0.get(&name) {
                Some(&other) if other > floor => None,
                Some(_) => Some(format!("imports {name}, which is on no lower floor")),
                None => Some(format!("imports crate::{name}: name the file that it is in")),
            })
            .map(|problem| Finding::Broken(format!("{}: {problem}", source.path.display())))
            .collect()
    }
}

/// The files that are named behind `crate::`.
fn imports(code: &str) -> BTreeSet<String> {
    let word = |text: &str| {
        let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
        text[..end].to_owned()
    };
    let mut found = BTreeSet::new();
    for (at, _) in code.match_indices("crate::") {
        // Another name that ends so, such as that of a macro's `$crate`.
        if code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == '$') {
            continue;
        }
        let rest = &code[at + "crate::".len()..];
        match rest.strip_prefix('{') {
            None => found.insert(word(rest)),
            Some(group) => {
                found.extend(of_group(group).map(|part| word(part.trim())).filter(|name| !name.is_empty()));
                continue;
            }
        };
    }
    found
}

/// The parts of a group in braces, of which the first is open.
fn of_group(text: &str) -> impl Iterator<Item = &str> {
    let (mut depth, mut start, mut parts) = (1, 0, Vec::new());
    for (at, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 || depth == 1 && c == ',' {
            parts.push(&text[start..at]);
            start = at + 1;
        }
        if depth == 0 {
            break;
        }
    }
    parts.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: &str = "//! A crate.\n//! Floors, the highest first. More.\n//!\n//! | file | noun |\n//! |---|---|\n\
        //! | `top` | all |\n//! | `left`, `right` | parts |\n//! | `base` | what all need |\n\n\
        mod base;\nmod left;\npub mod right;\nmod top;\n";

    fn findings(root: &str, files: &[(&str, &str)]) -> Vec<Finding> {
        let of = |path: &str, text: &str| Source { path: path.into(), text: text.into() };
        let mut sources = vec![of("crates/a/src/lib.rs", root)];
        sources.extend(files.iter().map(|(path, text)| of(&format!("crates/a/src/{path}"), text)));
        check(&sources)
    }

    #[test]
    fn down_is_allowed_and_up_or_sideways_is_not() {
        let down = "use crate::base::One;\nuse crate::{left, right::{Two, Three}};\n//! crate::top\n";
        assert_eq!(findings(ROOT, &[("top.rs", down), ("left/part.rs", "use crate::left::Own;\n")]), vec![]);
        for (file, text) in [
            ("base.rs", "use crate::top::All;\n"),
            ("left.rs", "fn f() { crate::right::g() }\n"),
            ("left/part.rs", "use crate::{base, right};\n"),
            ("base.rs", "use crate::{\n    left::{A, B},\n};\n"),
            ("left.rs", "use crate::Reexported;\n"),
        ] {
            assert_eq!(findings(ROOT, &[(file, text)]).len(), 1, "{file}: {text}");
        }
    }

    #[test]
    fn tests_may_use_everything() {
        let tests = "use crate::base;\n#[cfg(test)]\nmod tests {\n    use crate::top;\n}\n";
        assert_eq!(findings(ROOT, &[("left.rs", tests), ("left/tests.rs", "use crate::top;\n")]), vec![]);
    }

    #[test]
    fn the_table_names_the_files_that_there_are() {
        assert_eq!(findings(&ROOT.replace("mod top;\n", ""), &[]).len(), 1);
        assert_eq!(findings(&format!("{ROOT}mod new;\n"), &[]).len(), 1);
        assert_eq!(findings("mod base;\n", &[("base.rs", "use crate::top;\n")]), vec![], "no table");
    }
}
