//! A crate may depend only on crates above it in the table.

use crate::Finding;
use crate::rules::{LAYERS, layer};
use crate::workspace::{Package, Workspace};

/// Compares every dependency inside the workspace with the order of the layers.
pub fn check(workspace: &Workspace) -> Vec<Finding> {
    let gone =
        LAYERS.iter().filter(|rule| !workspace.packages.iter().any(|package| package.name == rule.package));
    let gone = gone.map(|rule| {
        Finding::Broken(format!(
            "xtask/src/rules.rs has a layer for {}, which is no crate of the workspace",
            rule.package
        ))
    });
    gone.chain(workspace.packages.iter().flat_map(check_package)).collect()
}

fn check_package(package: &Package) -> Vec<Finding> {
    let Some(own) = layer(&package.name) else {
        return vec![Finding::Broken(format!("{} has no layer in xtask/src/rules.rs", package.name))];
    };
    let inside = package.dependencies.iter().filter(|dependency| dependency.path.is_some());
    inside
        .filter(|dependency| layer(&dependency.name).is_some_and(|other| other >= own))
        .map(|dependency| {
            let kind = dependency.kind.as_deref().unwrap_or("normal");
            Finding::Broken(format!(
                "{} depends on {} ({kind}), which is not above it in the layers",
                package.name, dependency.name
            ))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Dependency;

    fn package(name: &str, on: &[&str]) -> Package {
        let dependencies = on
            .iter()
            .map(|name| Dependency { name: (*name).into(), kind: None, path: Some("crates/x".into()) })
            .collect();
        Package { name: name.into(), dependencies, targets: vec![] }
    }

    #[test]
    fn downward_is_allowed_and_upward_is_not() {
        assert_eq!(check_package(&package("aquifer-log", &["aquifer-base", "aquifer-device"])), vec![]);
        assert_eq!(check_package(&package("aquifer-log", &["aquifer-map"])).len(), 1);
        assert_eq!(check_package(&package("aquifer-log", &["aquifer-log"])).len(), 1);
    }

    #[test]
    fn a_layer_without_a_crate_is_broken() {
        let every = LAYERS.iter().map(|rule| package(rule.package, &[])).collect();
        let mut workspace = Workspace { root: "/".into(), target: "/".into(), packages: every };
        assert_eq!(check(&workspace), vec![]);
        workspace.packages.pop();
        assert!(matches!(&check(&workspace)[..], [Finding::Broken(text)] if text.contains("xtask")));
    }

    #[test]
    fn an_unknown_crate_is_broken() {
        assert_eq!(check_package(&package("aquifer-novelty", &[])).len(), 1);
    }
}
