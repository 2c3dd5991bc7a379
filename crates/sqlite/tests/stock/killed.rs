//! Programs that are killed in the middle of transactions: what was committed is there, and the database is whole.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use crate::common::{Disk, have_python};

const ROUNDS_PER_MODE: u32 = 6;

/// Commits transactions for ever, and says the last number of each after it was committed. After `pause` of them it waits, so that it is killed with nothing
/// under way.
const WRITER: &str = r#"
import sqlite3, sys
mode, pause = sys.argv[1], int(sys.argv[2])
connection = sqlite3.connect("x.db", isolation_level=None)
connection.execute("PRAGMA journal_mode=" + mode)
connection.execute("PRAGMA cache_size=20")
connection.execute("CREATE TABLE IF NOT EXISTS t(n INTEGER PRIMARY KEY, round, filler)")
n = connection.execute("SELECT coalesce(max(n), 0) FROM t").fetchone()[0]
while True:
    connection.execute("BEGIN")
    for _ in range(10):
        n += 1
        connection.execute("INSERT INTO t VALUES(?, ?, randomblob(2000))", (n, n // 10))
    connection.execute("UPDATE t SET filler=randomblob(1500) WHERE n % 7 = ?", (n // 10 % 7,))
    connection.execute("DELETE FROM t WHERE n < ?", (n - 200,))
    connection.execute("COMMIT")
    print(n, flush=True)
    pause -= 1
    if pause == 0:
        sys.stdin.readline()
"#;

const CHECKER: &str = r#"
import sqlite3
connection = sqlite3.connect("x.db")
print(connection.execute("PRAGMA integrity_check").fetchone()[0])
print(connection.execute("SELECT coalesce(max(n), 0), coalesce(max(n), 0) % 10, count(*) = min(max(n), 201) OR max(n) IS NULL FROM t").fetchone())
"#;

#[test]
fn committed_transactions_survive() {
    if !have_python() {
        return;
    }
    for mode in ["delete", "truncate", "persist", "wal"] {
        let disk = Disk::new(32 << 20);
        let mut committed = 0;
        for round in 0..ROUNDS_PER_MODE {
            let transactions = 3 + round as usize * 5;
            // In every other round the kill comes in the middle of whatever the writer does then.
            let pause = if round % 2 == 0 { transactions } else { 0 };
            // Without a program in front that would be killed in its place.
            let mut writer = Command::new("python3");
            writer.args(["-c", WRITER, mode, &pause.to_string()]).current_dir(disk.folder());
            writer.stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut child = disk.with_library(&mut writer).spawn().expect("python3");
            let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
            let last = lines.take(transactions).last().expect("a line").expect("text");
            child.kill().expect("kill");
            child.wait().expect("wait");
            committed = last.parse::<u64>().expect("a number").max(committed);

            let found = disk.python(CHECKER);
            let (verdict, rest) = found.split_once('\n').expect("two lines");
            assert_eq!(verdict, "ok", "{mode}, round {round}");
            let (max, rest) = rest.trim_start_matches('(').split_once(", ").expect("three values");
            assert_eq!(rest.trim(), "0, 1)", "{mode}, round {round}: whole transactions");
            let max: u64 = max.parse().expect("a number");
            assert!(max >= committed, "{mode}, round {round}: {max} of {committed} committed");
            disk.check();
        }
    }
}
