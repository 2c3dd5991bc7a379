//! Every crate from outside has its reason in `docs/dependencies.md`.

use crate::Finding;
use crate::workspace::Workspace;
use std::collections::BTreeSet;
use std::fs;

const REASONS: &str = "docs/dependencies.md";

/// Compares the dependencies from outside the workspace with the rows of the table.
///
/// # Errors
/// If the table cannot be read.
pub fn check(workspace: &Workspace) -> Result<Vec<Finding>, String> {
    let text =
        fs::read_to_string(workspace.root.join(REASONS)).map_err(|error| format!("{REASONS}: {error}"))?;
    Ok(compare(&outside(workspace), &rows(&text)))
}

fn outside(workspace: &Workspace) -> BTreeSet<String> {
    let dependencies = workspace.packages.iter().flat_map(|package| &package.dependencies);
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
