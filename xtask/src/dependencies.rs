//! Every crate from outside has its reason in `docs/reference/dependencies.md`.

use crate::Finding;
use crate::workspace::Workspace;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

const REASONS: &str = "docs/reference/dependencies.md";

/// Compares what `workspaces` depend on from outside with the rows of the table, which is in the first of them.
///
/// # Errors
/// If the table cannot be read.
pub fn check(workspaces: &[Workspace]) -> Result<Vec<Finding>, String> {
    let root = workspaces.first().map_or(Path::new(""), |first| &first.root);
    let text = fs::read_to_string(root.join(REASONS)).map_err(|error| format!("{REASONS}: {error}"))?;
    Ok(compare(&outside(workspaces), &rows(&text)))
}

fn outside(workspaces: &[Workspace]) -> BTreeSet<String> {
    let packages = workspaces.iter().flat_map(|workspace| &workspace.packages);
    let dependencies = packages.flat_map(|package| &package.dependencies);
    dependencies
        .filter(|dependency| dependency.path.is_none())
        .map(|dependency| dependency.name.clone())
        .collect()
}

/// The names in the first column, which are in backquotes.
fn rows(text: &str) -> BTreeSet<String> {
    text.lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once('`'))
        .map(|(name, _)| name.into())
        .collect()
}

fn compare(used: &BTreeSet<String>, explained: &BTreeSet<String>) -> Vec<Finding> {
    let missing = used.difference(explained);
    let stale = explained.difference(used);
    missing
        .map(|name| Finding::Broken(format!("{REASONS}: no reason for {name}")))
        .chain(stale.map(|name| Finding::Notice(format!("{REASONS}: {name} is not used"))))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_is_broken_and_stale_is_noticed() {
        let used = BTreeSet::from(["a".to_owned(), "b".to_owned()]);
        let explained = rows("| crate | reason |\n|---|---|\n| `b` | x |\n| `c` | y |\n");
        let findings = compare(&used, &explained);
        assert!(matches!(findings[..], [Finding::Broken(_), Finding::Notice(_)]));
    }
}
