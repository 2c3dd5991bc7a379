# Commits transactions for ever and says the last number of each after it was committed; or, with the word check, says what is there.

sqlite3 db killed.db
if {[lindex $argv 0] eq "check"} {
    puts [db eval {PRAGMA integrity_check; SELECT max(n), max(n) % 10, count(*) = min(max(n), 201) FROM t}]
    db close
    exit
}
db eval {CREATE TABLE IF NOT EXISTS t(n INTEGER PRIMARY KEY, filler)}
if {![atomic_batch_write killed.db]} {
    puts "no atomic batches"
    exit 1
}
set n [db one {SELECT coalesce(max(n), 0) FROM t}]
while 1 {
    db eval BEGIN
    for {set i 0} {$i < 10} {incr i} {
        incr n
        db eval {INSERT INTO t VALUES($n, randomblob(2000))}
    }
    db eval {UPDATE t SET filler = randomblob(1500) WHERE n % 7 = $n / 10 % 7}
    db eval {DELETE FROM t WHERE n < $n - 200}
    db eval COMMIT
    puts $n
    flush stdout
}
