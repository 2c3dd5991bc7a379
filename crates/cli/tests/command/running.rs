//! A heap in a running program.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Stdio;

use super::program::{Program, Told, socket};
use super::{command, complaint, name, run, text};
use aquifer_cli::reply::{Sample, parse_stats};

#[test]
fn the_table_shows_what_the_program_did() {
    let (_folder, path) = socket();
    let _program = Program::start(Told::AsOption(&path));
    let output = run(&["stats", "--socket", name(&path)]);
    let table = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    for part in ["RAM\n", "8 MiB", "% of the budget", "Faults\n", "200 000", "Flash\n", "Errors\n"] {
        assert!(table.contains(part), "{part} is not in\n{table}");
    }
    assert!(!table.contains("Other"), "{table}");
}

#[test]
fn json_is_one_line_with_all_numbers() {
    let (_folder, path) = socket();
    let program = Program::start(Told::AsOption(&path));
    let output = run(&["stats", "--socket", name(&path), "--json"]);
    let line = text(&output.stdout);
    assert_eq!(line.lines().count(), 1, "{line}");
    let Sample { pid, version, subject: _, stats, remote } =
        parse_stats(line.trim_end().as_bytes()).expect("a sample");
    assert_eq!((pid.to_string(), version.as_str()), (program.pid(), aquifer::VERSION));
    assert!(remote.is_none() && !line.contains("remote"), "it borrows nothing");
    assert_eq!((stats["ram_budget_bytes"], stats["objects"]), (8 << 20, 200_000));
    assert!(stats["faults"] > 0 && stats["objects_written"] > 0, "{stats:?}");
}

#[test]
fn a_process_is_found_by_environment_and_by_its_open_files() {
    let (_folder, path) = socket();
    for told in [Told::InEnvironment(&path), Told::AsOption(&path)] {
        let program = Program::start(told);
        let output = run(&["stats", "--pid", &program.pid()]);
        assert!(
            text(&output.stdout).starts_with(&format!("heap of process {}, ", program.pid())),
            "{output:?}"
        );
        program.end();
    }
}

#[test]
fn the_command_reads_the_variable_too() {
    let (_folder, path) = socket();
    let _program = Program::start(Told::AsOption(&path));
    let output = command(&["stats"]).env("AQUIFER_SOCKET", &path).output().expect("it runs");
    assert!(output.status.success(), "{}", text(&output.stderr));
}

#[test]
fn a_heap_at_rest_is_in_order() {
    let (_folder, path) = socket();
    let program = Program::start(Told::AsOption(&path));
    let output = run(&["check", "--socket", name(&path)]);
    assert_eq!(text(&output.stdout), format!("process {}: the heap is in order\n", program.pid()));
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(run(&["check", "--pid", &program.pid()]).status.success());
}

#[test]
fn a_process_without_a_socket_is_told_how_to_get_one() {
    let program = Program::start(Told::Nowhere);
    let said = complaint(&["stats", "--pid", &program.pid()]);
    assert!(said.contains("AQUIFER_SOCKET=/path") && said.contains("options.socket_path"), "{said}");
}

#[test]
fn a_socket_that_was_left_behind_says_so() {
    let (_folder, path) = socket();
    Program::start(Told::AsOption(&path)).end();
    let said = complaint(&["stats", "--socket", name(&path)]);
    assert!(said.contains("there is no socket") && said.contains("AQUIFER_SOCKET="), "{said}");
}

#[test]
fn a_watch_repeats_until_the_program_ends() {
    let (_folder, path) = socket();
    let program = Program::start(Told::AsOption(&path));
    let arguments = ["stats", "--socket", name(&path), "--json", "--interval", "50ms"];
    let mut watch =
        command(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
    let mut lines = BufReader::new(watch.stdout.take().expect("piped")).lines();
    for _ in 0..3 {
        let line = lines.next().expect("another sample").expect("text");
        parse_stats(line.as_bytes()).expect("a sample");
    }
    program.end();
    lines.for_each(drop);
    let mut said = String::new();
    watch.stderr.take().expect("piped").read_to_string(&mut said).expect("text");
    assert!(watch.wait().expect("it ends").success(), "{said}");
    assert!(said.contains("has closed its heap"), "{said}");
}

#[test]
fn a_reader_that_goes_away_ends_the_watch() {
    let (_folder, path) = socket();
    let _program = Program::start(Told::AsOption(&path));
    let arguments = ["stats", "--socket", name(&path), "--interval", "10ms"];
    let mut watch =
        command(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
    drop(watch.stdout.take());
    let output = watch.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(text(&output.stderr), "");
}

/// What the library's own socket answers to a request.
fn answer(path: &Path, request: &[u8]) -> String {
    let mut stream = UnixStream::connect(path).expect("the heap listens");
    // The library stops reading at its limit, and may be gone before all is written.
    let _ = stream.write_all(request);
    let _ = stream.shutdown(std::net::Shutdown::Write);
    let mut reply = Vec::new();
    let _ = stream.read_to_end(&mut reply);
    text(&reply)
}

#[test]
fn the_library_answers_nonsense_with_an_error_and_goes_on() {
    let (_folder, path) = socket();
    let _program = Program::start(Told::AsOption(&path));
    for request in [&b"\n"[..], b"stats now\n", b"STATS\n", b"{}\n", b"", &[b'x'; 63]] {
        let reply = answer(&path, request);
        assert!(reply.contains("unknown request"), "{request:?} was answered with {reply}");
    }
    // Not text, and far too long: no answer is promised, only that the next one is asked in vain no more.
    let mut seed = 7u64;
    for length in [1, 63, 64, 65, 4096, 1 << 20] {
        let request: Vec<u8> = (0..length)
            .map(|_| {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (seed >> 56) as u8
            })
            .collect();
        answer(&path, &request);
    }
    assert!(answer(&path, b"stats\n").contains("ram_budget_bytes"));
    assert!(answer(&path, b"stats").contains("ram_budget_bytes"), "the end of the input ends a line too");
}
