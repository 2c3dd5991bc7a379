//! The tasks of `aquifer-bench far` at tiny scale, as processes of their own; and what the command refuses.

use std::process::{Command, Output};

use aquifer_bench::far::Answer;

fn far(line: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_aquifer-bench"));
    command.arg("far").args(line.split_whitespace()).output().expect("the program is built")
}

/// The answer of a task; none, with the reason printed, where the machine lacks what it needs.
fn answer(line: &str) -> Option<Answer> {
    let output = far(line);
    let (said, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if error.contains("libsqlite3") {
        println!("SKIP {error}");
        return None;
    }
    assert!(output.status.success(), "{line}: {error}");
    assert_eq!(said.lines().count(), 1, "{said}");
    Some(serde_json::from_str(&said).expect("an answer"))
}

#[test]
fn every_task_says_one_line() {
    for task in ["tpcc", "pagerank", "shuffle"] {
        let Some(answer) = answer(&format!("--task {task} --data 4M --seconds 0.1 --warmup 0")) else {
            continue;
        };
        assert!(answer.ops > 0 && answer.ops_per_s() > 0.0, "{task}: {answer:?}");
        assert!(answer.memory.rss_bytes > 4 << 20, "{task}: {answer:?}");
        assert_eq!(answer.digest.is_some(), task != "tpcc");
    }
}

#[test]
fn the_same_rounds_have_the_same_result() {
    for task in ["pagerank", "shuffle"] {
        let run = |rounds| answer(&format!("--task {task} --data 2M --rounds {rounds}")).expect("no library");
        let (one, again, more) = (run(2), run(2), run(3));
        assert_eq!(one.digest, again.digest, "{task}");
        // Others need not do as many rounds of the shuffle.
        assert_eq!(one.rounds, (task == "pagerank").then_some(2));
        assert_eq!(more.ops, one.ops / 2 * 3, "{task}");
        // Ranks change from round to round, groups do not.
        assert_eq!(more.digest == one.digest, task == "shuffle");
    }
}

#[test]
fn what_is_no_task_is_refused() {
    for line in ["--task etc --data 4M", "--task shuffle --data 1K", "--rounds 3"] {
        let output = far(line);
        assert!(!output.status.success() && output.stdout.is_empty(), "{line}");
    }
}
