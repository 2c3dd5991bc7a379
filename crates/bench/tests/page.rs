//! The page of measurements is what the stored runs make, so that no figure in it is typed.

use std::path::Path;
use std::process::Command;

fn page(arguments: &[&str]) -> (bool, String) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut command = Command::new(env!("CARGO_BIN_EXE_aquifer-bench"));
    let output = command.current_dir(root).arg("page").args(arguments).output().expect("the benchmark runs");
    let text = if output.status.success() { output.stdout } else { output.stderr };
    (output.status.success(), String::from_utf8_lossy(&text).into_owned())
}

#[test]
fn the_page_is_made_of_the_stored_runs() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let stands = std::fs::read_to_string(root.join("docs/reference/benchmarks.md")).expect("the page");
    let (is_made, made) = page(&[]);
    assert!(is_made, "{made}");
    assert!(
        stands == made,
        "docs/reference/benchmarks.md is not what bench/baseline makes: run `make benchmarks-page`"
    );
}

#[test]
fn a_file_of_no_study_is_refused() {
    let dir = std::env::temp_dir().join(format!("aquifer-bench-page-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a temporary directory");
    std::fs::write(dir.join("nothing.jsonl"), "").expect("writable");
    let (is_made, said) = page(&["--baseline", dir.to_str().expect("plain")]);
    std::fs::remove_dir_all(&dir).expect("exists");
    assert!(!is_made && said.contains("nothing.jsonl is of no study"), "{said}");
}
