//! The same statements on a file system and on a volume must print the same.

use std::fmt::Write;

use crate::common::{Disk, all, have_sqlite3, printed};

/// Numbers that look random and are the same each time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

fn script(seed: u64) -> String {
    let mut dice = Dice(seed);
    let mode = ["delete", "truncate", "persist", "wal"][dice.below(4) as usize];
    let page_bytes = 512 << dice.below(6);
    let mut script = format!(
        "PRAGMA page_size={page_bytes}; PRAGMA auto_vacuum={}; PRAGMA cache_size={}; PRAGMA journal_mode={mode};\n",
        dice.below(3),
        10 + dice.below(100)
    );
    let mut is_open = false;
    for table in 0..3 {
        let _ = writeln!(
            script,
            "CREATE TABLE t{table}(a INTEGER PRIMARY KEY, b, c TEXT); CREATE INDEX i{table} ON t{table}(c, b);"
        );
    }
    for _ in 0..250 {
        let (table, row) = (dice.below(3), dice.below(400));
        let text = "x".repeat(dice.below(900) as usize);
        let line = match dice.below(16) {
            0 if !is_open => "BEGIN;".into(),
            0 => "COMMIT;".into(),
            1 if is_open => "ROLLBACK;".into(),
            2 if is_open => "SAVEPOINT s; UPDATE t0 SET b=b+1; ROLLBACK TO s; RELEASE s;".into(),
            3 => format!("DELETE FROM t{table} WHERE a BETWEEN {row} AND {};", row + dice.below(60)),
            4 => format!("UPDATE t{table} SET c=c||'{text}', b=b*3 WHERE a % {} = 1;", 3 + dice.below(20)),
            5 if !is_open => {
                ["VACUUM;", "PRAGMA incremental_vacuum;", "REINDEX;"][dice.below(3) as usize].into()
            }
            6 if !is_open => "PRAGMA wal_checkpoint(TRUNCATE);".into(),
            7 => format!("SELECT count(*), sum(b), sum(length(c)) FROM t{table};"),
            8 => format!(
                "INSERT INTO t{table}(b, c) SELECT b, c FROM t{} LIMIT {};",
                dice.below(3),
                dice.below(80)
            ),
            9 => "PRAGMA page_count; PRAGMA freelist_count;".into(),
            _ => format!("REPLACE INTO t{table} VALUES({row}, {}, '{text}');", dice.below(1000)),
        };
        is_open = match line.as_str() {
            "BEGIN;" => true,
            "COMMIT;" | "ROLLBACK;" => false,
            _ => is_open,
        };
        script.push_str(&line);
        script.push('\n');
    }
    if is_open {
        script.push_str("COMMIT;\n");
    }
    script.push_str(".dump\nPRAGMA integrity_check;\n");
    script
}

#[test]
fn a_volume_and_a_file_system_agree() {
    if !have_sqlite3() {
        return;
    }
    for seed in 0..10 {
        let disk = Disk::new(48 << 20);
        let script_path = disk.folder().join("script.sql");
        std::fs::write(&script_path, script(seed)).expect("script");
        let read = format!(".read {}", script_path.display());
        let run = |command: &mut std::process::Command| {
            let output = command.args(["same.db", &read]).output().expect("sqlite3");
            all(&output)
        };
        let native = run(&mut disk.plain("sqlite3"));
        let managed = run(&mut disk.preloaded("sqlite3"));
        assert!(native.ends_with("ok\n"), "seed {seed}: {native}");
        if native != managed {
            let differs = native.lines().zip(managed.lines()).find(|(native, managed)| native != managed);
            panic!("seed {seed}: {differs:?}");
        }
        let checks = "SELECT (SELECT count(*) FROM t0), (SELECT sum(b) FROM t1), (SELECT sum(length(c)) FROM t2); PRAGMA integrity_check;";
        let native = printed(disk.plain("sqlite3").args(["same.db", checks]));
        assert_eq!(disk.sqlite3("same.db", checks), native, "seed {seed}, opened again");
        disk.check();
    }
}
