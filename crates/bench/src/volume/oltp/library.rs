//! Where the library with the volume's VFS is.

use std::path::{Path, PathBuf};

const NAME: &str = "libaquifer_sqlite.so";
const FOLDERS: [&str; 2] = ["build/lib", "/usr/local/lib"];

/// The library that was given, or the first that there is; an absolute path.
pub fn find(given: Option<&Path>) -> Option<PathBuf> {
    let program = std::env::current_exe().ok();
    let beside = program.iter().filter_map(|program| Some(program.parent()?.join(NAME)));
    let others = FOLDERS.iter().map(|folder| Path::new(folder).join(NAME));
    let candidates: Vec<PathBuf> = match given {
        Some(path) => vec![path.to_owned()],
        None => beside.chain(others).collect(),
    };
    candidates.into_iter().find_map(|path| path.canonicalize().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_given_counts_if_it_is_there() {
        let here = std::env::current_exe().expect("a test is a program");
        assert_eq!(find(Some(&here)), here.canonicalize().ok());
        assert_eq!(find(Some(Path::new("/nowhere/libaquifer_sqlite.so"))), None);
    }
}
