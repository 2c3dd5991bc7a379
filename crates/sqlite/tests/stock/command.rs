//! The stock `sqlite3` command on a volume.

use crate::common::{Disk, complaint, have_sqlite3, library, printed};

const SIZE_BYTES: u64 = 48 << 20;

/// A table of 2,000 rows.
const FILL: &str = "CREATE TABLE t(a INTEGER PRIMARY KEY, b BLOB);
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<2000) INSERT INTO t SELECT i, randomblob(300) FROM n;";

#[test]
fn what_was_committed_is_there_afterwards() {
    if !have_sqlite3() {
        return;
    }
    let disk = Disk::new(SIZE_BYTES);
    for mode in ["delete", "truncate", "persist", "wal", "memory", "off"] {
        let database = format!("{mode}.db");
        disk.sqlite3(&database, &format!("PRAGMA journal_mode={mode}; {FILL}"));
        let changes = "BEGIN; DELETE FROM t; ROLLBACK; BEGIN; DELETE FROM t WHERE a>1000; COMMIT; SELECT count(*) FROM t;";
        // Without a journal there is no way back.
        if mode != "off" {
            assert_eq!(disk.sqlite3(&database, changes), "1000\n", "{mode}");
        }
        let checks = "VACUUM; PRAGMA integrity_check; SELECT min(a), max(length(b)) FROM t;";
        assert_eq!(disk.sqlite3(&database, checks), "ok\n1|300\n", "{mode}");
    }
    assert_eq!(std::fs::read_dir(disk.folder()).expect("folder").count(), 1, "nothing beside the volume");
    disk.check();
}

#[test]
fn pages_of_all_sizes_are_kept() {
    if !have_sqlite3() {
        return;
    }
    let disk = Disk::new(SIZE_BYTES);
    for page_bytes in [512, 1024, 4096, 8192, 65536] {
        let database = format!("{page_bytes}.db");
        disk.sqlite3(&database, &format!("PRAGMA page_size={page_bytes}; {FILL}"));
        let checks = "PRAGMA page_size; PRAGMA mmap_size=1000000; PRAGMA integrity_check; SELECT sum(length(b)) FROM t;";
        assert_eq!(disk.sqlite3(&database, checks), format!("{page_bytes}\n1000000\nok\n600000\n"));
    }
    disk.check();
}

/// A database larger than the volume's RAM, as memory: read, changed with journals of pages that are mapped, grown, cut, rolled back.
#[test]
fn databases_are_used_as_memory() {
    if !have_sqlite3() {
        return;
    }
    let disk = Disk::new(SIZE_BYTES);
    for mode in ["delete", "wal"] {
        let database = format!("{mode}.db");
        let mapped = format!("PRAGMA mmap_size=100000000; PRAGMA cache_size=20; PRAGMA journal_mode={mode};");
        disk.sqlite3(&database, &format!("{mapped} {FILL}"));
        let script = format!(
            "{mapped}
             SELECT sum(length(b)) FROM t; UPDATE t SET b=randomblob(301) WHERE a%2; SELECT sum(length(b)) FROM t;
             BEGIN; DELETE FROM t WHERE a>100; SELECT count(*) FROM t; ROLLBACK; SELECT count(*) FROM t;
             INSERT INTO t SELECT a+10000, b FROM t; SELECT count(*) FROM t; DELETE FROM t WHERE a>10000; VACUUM;
             SELECT count(*) FROM t; PRAGMA integrity_check;"
        );
        let expected = format!("100000000\n{mode}\n600000\n601000\n100\n2000\n4000\n2000\nok\n");
        assert_eq!(disk.sqlite3(&database, &script), expected, "{mode}");
    }
    disk.check();
}

#[test]
fn transactions_span_databases() {
    if !have_sqlite3() {
        return;
    }
    let disk = Disk::new(SIZE_BYTES);
    disk.sqlite3(
        "a.db",
        "ATTACH 'b.db' AS b; CREATE TABLE x(v); CREATE TABLE b.y(v); BEGIN; INSERT INTO x VALUES(1); INSERT INTO y VALUES(2); COMMIT;
         BEGIN; INSERT INTO x VALUES(3); INSERT INTO y VALUES(4); ROLLBACK;",
    );
    assert_eq!(
        disk.sqlite3("b.db", "ATTACH '/a.db' AS a; SELECT v FROM x UNION ALL SELECT v FROM y;"),
        "1\n2\n"
    );
    disk.check();
}

#[test]
fn an_extension_takes_the_volume_from_the_uri() {
    if !have_sqlite3() {
        return;
    }
    let (first, second) = (Disk::new(SIZE_BYTES), Disk::new(SIZE_BYTES));
    for (disk, value) in [(&first, 1), (&second, 2)] {
        disk.sqlite3(
            "same.db",
            &format!("PRAGMA journal_mode=wal; CREATE TABLE t(a); INSERT INTO t VALUES({value});"),
        );
    }
    // Both volumes have a file of that name, with a log each.
    let uri = |disk: &Disk| format!("file:/same.db?vfs=aquifer&ram=4M&volume={}", disk.path().display());
    let script = format!(
        "ATTACH '{}' AS other; INSERT INTO main.t VALUES(10); INSERT INTO other.t VALUES(20); SELECT a FROM main.t; SELECT a FROM other.t;",
        uri(&second)
    );
    let load = format!(".load {}", library().display());
    let open = format!(".open {}", uri(&first));
    let command = ["-cmd", &load, "-cmd", &open, ":memory:", &script];
    assert_eq!(printed(first.plain("sqlite3").args(command)), "1\n10\n2\n20\n");
    assert_eq!(second.sqlite3("same.db", "SELECT a FROM t;"), "2\n20\n");

    let native = ["-cmd", &load, "native.db", "CREATE TABLE t(a);"];
    printed(first.plain("sqlite3").args(native));
    assert!(first.folder().join("native.db").exists(), "an extension changes no default");
    let nowhere = ["-cmd", &load, ":memory:", "ATTACH 'file:/same.db?vfs=aquifer' AS a;"];
    assert!(complaint(first.plain("sqlite3").args(nowhere)).contains("unable to open database"));
    first.check();
    second.check();
}

#[test]
fn why_a_volume_cannot_be_opened_is_said() {
    if !have_sqlite3() {
        return;
    }
    let disk = Disk::new(SIZE_BYTES);
    let refused = |name: &str, value: &str| {
        let mut command = disk.preloaded("sqlite3");
        complaint(command.env(name, value).args(["a.db", "CREATE TABLE t(a);"]))
    };
    let missing = refused("AQUIFER_VOLUME", "/nowhere/disk.vol");
    assert!(missing.contains("`aquifer volume create /nowhere/disk.vol --size SIZE`"), "{missing}");
    assert_eq!(missing.matches("aquifer: the volume").count(), 1, "{missing}");
    assert!(refused("AQUIFER_VOLUME_RAM", "64X").contains("RAM for a volume is a size such as 64M"));
}

#[test]
fn a_volume_tells_its_numbers_while_it_is_open() {
    if !have_sqlite3() {
        return;
    }
    let disk = Disk::new(SIZE_BYTES);
    let socket = disk.folder().join("socket");
    disk.sqlite3("a.db", "CREATE TABLE t(a); INSERT INTO t VALUES(7);");
    let load = format!(".load {}", library().display());
    let (volume, at) = (disk.path().display().to_string(), socket.display());
    let open = format!(".open file:/a.db?vfs=aquifer&volume={volume}&socket={at}");
    let look = format!(".shell test -S {at} && echo there");
    let command =
        ["-cmd", &load, "-cmd", &open, "-cmd", "SELECT a FROM t;", "-cmd", &look, ":memory:", "SELECT 1;"];
    let said = printed(disk.plain("sqlite3").args(command));
    assert!(["7\n", "there\n"].iter().all(|line| said.contains(line)), "{said}");
    assert!(!socket.exists());
    disk.check();
}

#[test]
fn without_a_volume_files_are_where_they_were() {
    if !have_sqlite3() {
        return;
    }
    let disk = Disk::new(SIZE_BYTES);
    let command = ["native.db", "CREATE TABLE t(a); INSERT INTO t VALUES(7);"];
    printed(disk.plain("sqlite3").env("LD_PRELOAD", library()).args(command));
    assert_eq!(printed(disk.plain("sqlite3").args(["native.db", "SELECT a FROM t;"])), "7\n");
}

#[test]
fn what_cannot_be_opened_is_said() {
    if !have_sqlite3() {
        return;
    }
    let disk = Disk::new(SIZE_BYTES);
    disk.make_folder("there");
    disk.sqlite3("/there/a.db", "CREATE TABLE t(a);");
    let refused =
        |database: &str| complaint(disk.preloaded("sqlite3").args([database, "CREATE TABLE new(a);"]));
    assert!(refused("/missing/a.db").contains("unable to open database"));
    assert!(refused("/there").contains("unable to open database"));
    let read_only = refused("file:/there/a.db?mode=ro");
    assert!(read_only.contains("attempt to write a readonly database"), "{read_only}");
    assert!(refused("file:/there/b.db?mode=rw").contains("unable to open database"));

    let volume = disk.open();
    assert!(refused("/there/a.db").contains("database is locked"), "a volume has one process");
    volume.close().expect("close");
    std::fs::write(disk.path(), vec![7; 1 << 20]).expect("overwritten");
    assert!(refused("/there/a.db").contains("unable to open database"));
}

#[test]
fn a_full_volume_recovers_when_something_is_removed() {
    if !have_sqlite3() {
        return;
    }
    let disk = Disk::new(12 << 20);
    disk.sqlite3("small.db", FILL);
    for mode in ["delete", "wal"] {
        let database = format!("{mode}.db");
        disk.sqlite3(&database, &format!("PRAGMA journal_mode={mode}; {FILL}"));
        let flood = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n) INSERT INTO t(b) SELECT randomblob(3000) FROM n;";
        let complaint = complaint(disk.preloaded("sqlite3").args([&database, flood]));
        assert!(complaint.contains("database or disk is full"), "{complaint}");
        let after = "PRAGMA integrity_check; SELECT count(*) FROM t; DELETE FROM t WHERE a>500; VACUUM; INSERT INTO t(b) VALUES(zeroblob(200000));
            SELECT count(*) FROM t;";
        assert_eq!(disk.sqlite3(&database, after), "ok\n2000\n501\n", "{mode}");
    }
    assert_eq!(disk.sqlite3("small.db", "PRAGMA integrity_check; SELECT count(*) FROM t;"), "ok\n2000\n");
    disk.check();
}
