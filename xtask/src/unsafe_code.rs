//! Unsafe code only where the table allows it, and never without the reason why it is sound.

use crate::Finding;
use crate::rules::{LAYERS, Unsafe};
use crate::source::{Source, code_only};
use crate::workspace::{Package, Workspace};

/// Checks the roots of crates that may not hold unsafe code, and the comments in those that may.
pub fn check(workspace: &Workspace, sources: &[Source]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in &workspace.packages {
        let rule = LAYERS.iter().find(|rule| rule.package == package.name);
        if rule.is_some_and(|rule| rule.unsafe_code == Unsafe::Forbidden) {
            findings.extend(roots_without_forbid(workspace, package, sources));
        }
    }
    for source in sources.iter().filter(|source| source.is_rust()) {
        findings.extend(undocumented_lines(&source.text).into_iter().map(|line| {
            Finding::Broken(format!(
                "{}:{line}: unsafe without a SAFETY comment above",
                source.path.display()
            ))
        }));
    }
    findings
}

fn roots_without_forbid(workspace: &Workspace, package: &Package, sources: &[Source]) -> Vec<Finding> {
    let products = package.targets.iter().filter(|target| target.is_product());
    products
        .filter_map(|target| {
            let path = target.src_path.strip_prefix(&workspace.root).ok()?;
            let source = sources.iter().find(|source| source.path == path)?;
            let forbids = code_only(&source.text).contains("#![forbid(unsafe_code)]");
            let text = format!("{}: lacks #![forbid(unsafe_code)]", path.display());
            (!forbids).then_some(Finding::Broken(text))
        })
        .collect()
}

/// Numbers of the lines that open an unsafe block or impl without a SAFETY comment directly above
/// their statement.
fn undocumented_lines(text: &str) -> Vec<usize> {
    let code = code_only(text);
    let code: Vec<&str> = code.lines().collect();
    let lines: Vec<&str> = text.lines().collect();
    (0..code.len())
        .filter(|at| opens_unsafe(&code, *at))
        .filter(|at| {
            !lines[*at].contains("SAFETY:") && !comment_above(&code, &lines, *at).contains("SAFETY:")
        })
        .map(|at| at + 1)
        .collect()
}

/// Whether `unsafe {` or `unsafe impl` begins on this line; the brace may stand on the next.
fn opens_unsafe(code: &[&str], at: usize) -> bool {
    let next = code.get(at + 1).map_or("", |line| line.trim_start());
    code[at].match_indices("unsafe").any(|(start, word)| {
        let before = code[at][..start].chars().next_back();
        if before.is_some_and(|c| c.is_alphanumeric() || c == '_') {
            return false;
        }
        let after = code[at][start + word.len()..].trim_start();
        let after = if after.is_empty() { next } else { after };
        after.starts_with('{') || after.starts_with("impl")
    })
}

/// The comment lines above the statement that contains line `at`.
fn comment_above(code: &[&str], lines: &[&str], at: usize) -> String {
    let mut first = at;
    while first > 0 && continues(code[first - 1]) {
        first -= 1;
    }
    let is_comment = |line: &&&str| line.trim_start().starts_with("//");
    let comment: Vec<&str> = lines[..first].iter().rev().take_while(is_comment).copied().collect();
    comment.join("\n")
}

/// Whether a line of code goes on in the next one: an attribute or the beginning of a statement.
fn continues(code: &str) -> bool {
    let code = code.trim();
    !code.is_empty() && (code.starts_with("#[") || !code.ends_with([';', '{', '}', ',']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comment_above_the_statement_counts() {
        let text = "// SAFETY: ours\nlet a =\n    unsafe { b() };\n\n// SAFETY: ours\n#[x]\nunsafe impl Send for A {}\n";
        assert_eq!(undocumented_lines(text), Vec::<usize>::new());
    }

    #[test]
    fn its_absence_is_found() {
        assert_eq!(undocumented_lines("let a = 1;\nlet b = unsafe { c() };\n"), [2]);
        assert_eq!(undocumented_lines("// SAFETY: far away\n\nunsafe impl Send for A {}\n"), [3]);
        assert_eq!(undocumented_lines("f(\n    a,\n    unsafe { b() },\n);\n"), [3]);
    }

    #[test]
    fn functions_strings_and_names_are_no_blocks() {
        let text =
            "unsafe fn a() {}\nlet b = \"unsafe {\"; // unsafe {\nnot_unsafe {}\nunsafe extern \"C\" {}\n";
        assert_eq!(undocumented_lines(text), Vec::<usize>::new());
    }
}
