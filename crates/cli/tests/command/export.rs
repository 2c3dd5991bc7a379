//! `aquifer export` against a program that comes and goes.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStderr, Stdio};

use super::program::{Program, Told, socket};
use super::{command, complaint, name, run, text};

/// The running exporter. It ends when this is dropped.
struct Exporter {
    child: Child,
    address: String,
    said: Vec<String>,
    _stderr: BufReader<ChildStderr>,
}

impl Exporter {
    fn start(path: &Path, listen: &str) -> Self {
        let mut child = command(&["export", "--socket", name(path), "--listen", listen])
            .stderr(Stdio::piped())
            .spawn()
            .expect("it runs");
        let mut stderr = BufReader::new(child.stderr.take().expect("piped"));
        let mut said = Vec::new();
        let address = loop {
            let mut line = String::new();
            stderr.read_line(&mut line).expect("text");
            assert!(!line.is_empty(), "it ended: {said:?}");
            match line.trim_end().strip_prefix("http://").and_then(|line| line.strip_suffix("/metrics")) {
                Some(address) => break address.to_owned(),
                None => said.push(line),
            }
        };
        Self { child, address, said, _stderr: stderr }
    }

    /// Status line and body of the response.
    fn get(&self, path: &str) -> (String, String) {
        let mut stream = TcpStream::connect(&self.address).expect("it listens");
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {}\r\n\r\n", self.address).expect("written");
        let mut response = String::new();
        stream.read_to_string(&mut response).expect("text");
        let (head, body) = response.split_once("\r\n\r\n").expect("head and body");
        assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())), "{head}");
        (head.lines().next().expect("a line").to_owned(), body.to_owned())
    }

    fn metric(&self, series: &str) -> Option<u64> {
        let (status, body) = self.get("/metrics");
        assert_eq!(status, "HTTP/1.0 200 OK");
        body.lines().find_map(|line| line.strip_prefix(series)?.trim().parse().ok())
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_numbers_are_those_of_the_program_while_there_is_one() {
    let (_folder, path) = socket();
    let exporter = Exporter::start(&path, "127.0.0.1:0");
    assert_eq!(exporter.said, [""; 0], "nothing to warn of");
    assert_eq!(exporter.metric("aquifer_up "), Some(0), "before the program");
    let program = Program::start(Told::AsOption(&path));
    let of = |name: &str, pid: &str| exporter.metric(&format!("{name}{{pid=\"{pid}\"}} "));
    assert_eq!(exporter.metric("aquifer_up "), Some(1));
    assert_eq!(of("aquifer_ram_budget_bytes", &program.pid()), Some(8 << 20));
    assert_eq!(of("aquifer_objects", &program.pid()), Some(200_000));
    assert!(of("aquifer_faults_total", &program.pid()) > Some(0));
    let pid = program.pid();
    program.end();
    assert_eq!((exporter.metric("aquifer_up "), of("aquifer_objects", &pid)), (Some(0), None));
    let next = Program::start(Told::AsOption(&path));
    assert_eq!(of("aquifer_objects", &next.pid()), Some(200_000), "and after it");
}

#[test]
fn people_have_a_page_that_asks_for_numbers() {
    let (_folder, path) = socket();
    let exporter = Exporter::start(&path, "127.0.0.1:0");
    let (status, page) = exporter.get("/");
    assert!(status.ends_with("200 OK") && page.starts_with("<!doctype html>"), "{status}");
    assert!(page.contains("fetch(\"numbers\"") && !page.contains("src="), "it needs nothing else");
}

#[test]
fn numbers_are_those_of_the_page() {
    let (_folder, path) = socket();
    let exporter = Exporter::start(&path, "127.0.0.1:0");
    let (status, why) = exporter.get("/numbers");
    assert!(status.contains("503") && why.contains("there is no socket"), "{status} {why}");
    let program = Program::start(Told::AsOption(&path));
    let (_, numbers) = exporter.get("/numbers");
    let numbers: serde_json::Value = serde_json::from_str(&numbers).expect("JSON");
    assert_eq!(numbers["sample"]["pid"].to_string(), program.pid());
    assert_eq!(numbers["sample"]["stats"]["objects"], 200_000);
    assert!(numbers["latency"]["count"].is_array());
}

#[test]
fn there_is_nothing_else() {
    let (_folder, path) = socket();
    let exporter = Exporter::start(&path, "127.0.0.1:0");
    for path in ["/page", "/metrics/x", "/favicon.ico"] {
        assert_eq!(exporter.get(path).0, "HTTP/1.0 404 Not Found");
    }
}

#[test]
fn an_address_that_others_reach_is_warned_of() {
    let (_folder, path) = socket();
    let exporter = Exporter::start(&path, "0.0.0.0:0");
    assert!(
        exporter.said.concat().contains("aquifer: warning: whoever reaches 0.0.0.0"),
        "{:?}",
        exporter.said
    );
}

#[test]
fn a_port_that_is_taken_is_named() {
    let (_folder, path) = socket();
    let exporter = Exporter::start(&path, "127.0.0.1:0");
    let said = complaint(&["export", "--socket", name(&path), "--listen", &exporter.address]);
    assert!(said.contains(&exporter.address) && said.contains("--listen"), "{said}");
}

#[test]
fn once_prints_or_complains() {
    let (_folder, path) = socket();
    let said = complaint(&["export", "--socket", name(&path), "--once"]);
    assert!(said.contains("there is no socket"), "{said}");
    let program = Program::start(Told::AsOption(&path));
    let output = run(&["export", "--pid", &program.pid(), "--once"]);
    let shown = text(&output.stdout);
    assert!(output.status.success() && shown.starts_with("# HELP aquifer_up "), "{output:?}");
    assert!(shown.contains(&format!("aquifer_objects{{pid=\"{}\"}} 200000\n", program.pid())), "{shown}");
}
