//! Python's `sqlite3` on a volume: connections that share it, and processes that do not.

use crate::common::{Disk, have_python};

const SIZE_BYTES: u64 = 48 << 20;

#[test]
fn connections_wait_for_each_other() {
    if !have_python() {
        return;
    }
    let disk = Disk::new(SIZE_BYTES);
    let printed = disk.python(
        r#"
import sqlite3
a = sqlite3.connect("x.db", isolation_level=None, timeout=0)
b = sqlite3.connect("x.db", isolation_level=None, timeout=0)
def refused(connection, statement):
    try:
        connection.execute(statement)
    except sqlite3.OperationalError as error:
        return str(error)
    return "done"
for mode in "delete", "wal":
    print(a.execute("PRAGMA journal_mode=" + mode).fetchone()[0])
    a.execute("CREATE TABLE IF NOT EXISTS t(a)")
    a.execute("BEGIN IMMEDIATE")
    a.execute("INSERT INTO t VALUES(1)")
    before = b.execute("SELECT count(*) FROM t").fetchone()[0]
    print(before, refused(b, "BEGIN IMMEDIATE"), refused(b, "INSERT INTO t VALUES(2)"))
    reader = b.execute("WITH RECURSIVE n(i) AS (SELECT count(*) FROM t UNION ALL SELECT i+1 FROM n WHERE i<99) SELECT i FROM n"); reader.fetchone()
    # A reader keeps a journal's writer from committing, but not a log's.
    print(refused(a, "COMMIT"))
    reader.fetchall(); reader.close()
    if a.in_transaction:
        print(refused(a, "COMMIT"))
    print(b.execute("SELECT count(*) FROM t").fetchone()[0] - before)
    a.execute("BEGIN EXCLUSIVE")
    print(refused(b, "SELECT * FROM t"))
    a.execute("ROLLBACK")
a.close()
b.close()
"#,
    );
    let locked = "database is locked";
    assert_eq!(
        printed,
        format!(
            "delete\n0 {locked} {locked}\n{locked}\ndone\n1\n{locked}\nwal\n1 {locked} {locked}\ndone\n1\ndone\n"
        )
    );
    disk.check();
}

#[test]
fn threads_write_in_turn() {
    if !have_python() {
        return;
    }
    let disk = Disk::new(SIZE_BYTES);
    for mode in ["delete", "wal"] {
        let printed = disk.python(&format!(
            r#"
import sqlite3, threading
def connect():
    return sqlite3.connect("{mode}.db", isolation_level=None, timeout=60)
main = connect()
main.execute("PRAGMA journal_mode={mode}")
main.execute("CREATE TABLE t(thread, n)")
def work(thread):
    connection = connect()
    for n in range(25):
        connection.execute("BEGIN IMMEDIATE")
        count = connection.execute("SELECT count(*) FROM t").fetchone()[0]
        connection.execute("INSERT INTO t VALUES(?, ?)", (thread, count))
        connection.execute("COMMIT")
    connection.close()
threads = [threading.Thread(target=work, args=(thread,)) for thread in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
# Each saw what all before it had written.
print(main.execute("SELECT count(*), count(DISTINCT n), max(n) FROM t").fetchone())
print(main.execute("PRAGMA integrity_check").fetchone()[0])
"#
        ));
        assert_eq!(printed, "(100, 100, 99)\nok\n", "{mode}");
    }
    disk.check();
}

#[test]
fn a_process_that_does_not_close_loses_nothing() {
    if !have_python() {
        return;
    }
    let disk = Disk::new(SIZE_BYTES);
    disk.python(
        r#"
import ctypes, sqlite3
connection = sqlite3.connect("x.db", isolation_level=None)
connection.execute("PRAGMA synchronous=OFF")
connection.execute("CREATE TABLE t(a)")
connection.execute("INSERT INTO t VALUES(1)")
# Ends in order, but nobody closes the connection.
ctypes.CDLL(None).exit(0)
"#,
    );
    assert_eq!(disk.python(READ), "[(1,)]\n");
    disk.check();
}

const READ: &str = r#"
import sqlite3
print(sqlite3.connect("x.db").execute("SELECT * FROM t").fetchall())
"#;

#[test]
fn a_child_cannot_use_what_its_parent_opened() {
    if !have_python() {
        return;
    }
    let disk = Disk::new(SIZE_BYTES);
    let printed = disk.python(
        r#"
import ctypes, os, sqlite3
connection = sqlite3.connect("x.db", isolation_level=None)
connection.execute("CREATE TABLE t(a)")
child = os.fork()
if child == 0:
    code = 0
    for attempt in (lambda: connection.execute("INSERT INTO t VALUES(2)"), lambda: sqlite3.connect("x.db").execute("SELECT 1 FROM t")):
        try:
            attempt()
            code = 1
        except sqlite3.Error:
            pass
    connection.close()
    ctypes.CDLL(None).exit(code)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
connection.execute("INSERT INTO t VALUES(1)")
connection.close()
"#,
    );
    assert_eq!(printed, "0\n");
    assert_eq!(disk.python(READ), "[(1,)]\n");
    disk.check();
}
