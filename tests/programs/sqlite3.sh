# shellcheck shell=sh disable=SC2034,SC2154
# SQLite with a database in memory, whose pages are blocks of 4.3 KiB.
needs='sqlite3:sqlite3'
ram=16M
options='--threshold 4K'

program() {
    sed "s/i < 240000/i < $(scaled 240000)/" "$here/sqlite3.sql" >commands
    launch sqlite3 -batch :memory: <commands
}
