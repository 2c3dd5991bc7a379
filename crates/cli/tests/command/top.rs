//! `aquifer top` where nobody can watch.

use std::time::Instant;

use super::program::{Program, Told, socket};
use super::{command, name, run, text};

#[test]
fn without_a_terminal_there_is_one_snapshot() {
    let (_folder, path) = socket();
    let program = Program::start(Told::AsOption(&path));
    for arguments in [&["--once"][..], &[]] {
        let arguments = [&["top", "--socket", name(&path), "--interval", "0.1"], arguments].concat();
        let output = run(&arguments);
        let shown = text(&output.stdout);
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert_eq!(text(&output.stderr), "");
        assert!(shown.starts_with(&format!(
            "heap of process {}, aquifer {}\n",
            program.pid(),
            aquifer::VERSION
        )));
        for part in ["RAM used", "8.00 MiB", "found in RAM", "0/s", "write amplification", "Latency of reads"]
        {
            assert!(shown.contains(part), "{part} is not in\n{shown}");
        }
        assert!(!shown.contains('\x1b'), "{shown:?}");
    }
}

#[test]
fn the_process_is_found_by_its_number() {
    let (_folder, path) = socket();
    let program = Program::start(Told::InEnvironment(&path));
    let output = run(&["top", "--pid", &program.pid(), "--interval", "0.01"]);
    assert!(text(&output.stdout).contains("RAM used"), "{output:?}");
}

#[test]
fn the_interval_is_kept() {
    let (_folder, path) = socket();
    let _program = Program::start(Told::AsOption(&path));
    let began = Instant::now();
    let output =
        command(&["top", "--interval", "0.5"]).env("AQUIFER_SOCKET", &path).output().expect("it runs");
    assert!(output.status.success());
    assert!(began.elapsed().as_millis() >= 500);
}
