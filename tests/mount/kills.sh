#!/bin/sh
# The process that serves a mounted volume is killed while SQLite, git and fio write to it. After mounting again each
# transaction, commit and block that was acknowledged is there, databases and repository are in order, and scrub finds
# nothing. One result line for each round; exits with 1 if one failed.
#
#   ROUNDS=N tests/mount/kills.sh      how often it is killed [5]
#   AQUIFER=PATH    the aquifer command
#   AQUIFER_KILLS_DIR=PATH    where the volume and the mount are made [$TMPDIR or /var/tmp]
set -u
cd "$(dirname "$0")/../.." || exit 1
rounds=${ROUNDS:-5}

subject='mount kills'
. tests/lib.sh
[ -c /dev/fuse ] || skip_all 'there is no /dev/fuse here'
[ "$(id -u)" = 0 ] || command -v fusermount3 >/dev/null || skip_all 'this user may not mount (Debian package fuse3)'
writers=''
for program in sqlite3 git fio; do
    if command -v $program >/dev/null; then
        writers="$writers $program"
    else
        skip "$program is not installed (Debian package $program)"
    fi
done
[ -n "$writers" ] || exit 0

work=$(mktemp -d "${AQUIFER_KILLS_DIR:-${TMPDIR:-/var/tmp}}/aquifer-kills.XXXXXX") || exit 1
at=$work/mounted
server='' running=''

clean() {
    # shellcheck disable=SC2086 # a list
    [ -z "$running" ] || kill -9 $running 2>/dev/null
    [ -z "$server" ] || kill -9 "$server" 2>/dev/null
    if [ "$(id -u)" = 0 ]; then umount -l "$at"; else fusermount3 -u -z "$at"; fi 2>/dev/null
    rm -rf "$work"
}
trap clean EXIT
trap 'exit 130' INT TERM

is_told_or_ended() {
    [ -s "$work/mount.out" ] || ! kill -0 "$server" 2>/dev/null
}

mount_volume() {
    : >"$work/mount.out"
    "$AQUIFER" volume mount --foreground --ram 64M "$work/volume" "$at" >"$work/mount.out" 2>"$work/mount.err" &
    server=$!
    tries=600
    until is_told_or_ended || [ $tries = 0 ]; do
        tries=$((tries - 1))
        sleep 0.1
    done
    [ -s "$work/mount.out" ] && return
    fail "the volume cannot be mounted: $(cat "$work/mount.err")"
    exit 1
}

# ---- Writers: each says what is durable in a file outside of the volume ----

# Transactions of one database for each way to keep a journal; its numbers have no gaps. With "delete", SQLite says that a
# transaction is committed also if it could not open the folder to sync it, as after the kill: here the folder must be.
write_sqlite3() {
    first=$(($(sqlite3 "$at/$mode.db" 'SELECT coalesce(max(n), 0) FROM t' 2>/dev/null || echo 0) + 1))
    # shellcheck disable=SC2016 # awk's
    awk -v mode="$mode" -v first="$first" -v folder="$at" 'BEGIN {
        print ".bail on\nPRAGMA journal_mode=" mode ";\nPRAGMA synchronous=EXTRA;"
        print "CREATE TABLE IF NOT EXISTS t(n INTEGER PRIMARY KEY, bytes);"
        print "CREATE INDEX IF NOT EXISTS by_bytes ON t(bytes);"
        for (n = first; n < first + 1000000; n++) {
            print "BEGIN; INSERT INTO t VALUES(" n ", randomblob(500));"
            print "UPDATE t SET bytes = randomblob(300) WHERE n = " n " - 7; COMMIT;"
            if (mode == "delete") print ".shell sync " folder " && echo durable " n
            else print "SELECT \"durable \" || " n ";"
        }
    }' 2>/dev/null | stdbuf -oL sqlite3 "$at/$mode.db" >"$work/sqlite3.out" 2>"$work/sqlite3.err"
}

# Git syncs what a commit is made of, and not the folder of the branch: that is done here.
write_git() {
    set -e
    cd "$at"
    [ -d repository ] || git init -q -b main repository
    cd repository
    find .git -name '*.lock' -exec rm -f {} +
    number=$(git rev-list --count HEAD 2>/dev/null || echo 0)
    while :; do
        number=$((number + 1))
        echo "$number" >"file-$((number % 40))"
        seq "$number" $((number + 400)) >many
        git add -A
        git -c core.fsync=all -c user.name=test -c user.email=test@localhost -c gc.auto=0 commit -q -m "$number"
        sync .git/refs/heads
        echo "durable $number"
    done >"$work/git.out" 2>"$work/git.err"
}

# Blocks with checksums, one behind the other.
write_fio() {
    cd "$work" && rm -f "$at/blocks" && fio --name=blocks --filename="$at/blocks" --rw=write --bs=4k --size=256m --sync=1 \
        --fallocate=none --verify=crc32c --do_verify=0 --output-format=json >"$work/fio.out" 2>"$work/fio.err"
}

# ---- What must be there after the kill ------------------------------------

last_durable() {
    sed -n 's/^durable \([0-9]*\)$/\1/p' "$work/$1.out" | tail -n 1
}

check_sqlite3() {
    acknowledged=$(last_durable sqlite3) acknowledged=${acknowledged:-0}
    order=$(sqlite3 "$at/$mode.db" 'PRAGMA integrity_check' 2>&1)
    found=$(sqlite3 "$at/$mode.db" 'SELECT count(*), coalesce(max(n), 0) FROM t' 2>&1)
    [ "$order" = ok ] || [ "$acknowledged" = 0 ] || { fail "round $round: the database ($mode): $order"; return; }
    if [ "$acknowledged" -gt 0 ] && { [ "${found%|*}" != "${found#*|}" ] || [ "${found#*|}" -lt "$acknowledged" ]; }; then
        fail "round $round: $acknowledged transactions ($mode) were acknowledged, $found are there"
        return
    fi
    said="$said, $acknowledged transactions ($mode)"
}

check_git() {
    acknowledged=$(last_durable git) acknowledged=${acknowledged:-0}
    if [ "$acknowledged" -gt 0 ]; then
        order=$(git -C "$at/repository" fsck --full --strict --no-dangling 2>&1) ||
            { fail "round $round: the repository: $order"; return; }
        found=$(git -C "$at/repository" rev-list --count HEAD 2>&1)
        [ "$found" -ge "$acknowledged" ] ||
            { fail "round $round: $acknowledged commits were acknowledged, $found are there"; return; }
    fi
    said="$said, $acknowledged commits"
}

check_fio() {
    # Not "total_ios", which counts the write that failed too.
    acknowledged=$(sed -n '/"write" : {/,/}/s/.*"io_bytes" : \([0-9]*\).*/\1/p' "$work/fio.out" | head -n 1)
    acknowledged=$((${acknowledged:-0} / 4096))
    bytes=$(stat -c %s "$at/blocks" 2>/dev/null || echo 0)
    [ "$bytes" -ge $((acknowledged * 4096)) ] ||
        { fail "round $round: $acknowledged blocks were acknowledged, $bytes bytes are there"; return; }
    [ "$bytes" -lt 4096 ] || (cd "$work" && fio --name=blocks --filename="$at/blocks" --rw=write --bs=4k --size="$bytes" \
        --verify=crc32c --verify_only --allow_file_create=0) >"$work/verify.out" 2>&1 ||
        { fail "round $round: blocks: $(head -n 3 "$work/verify.out")"; return; }
    said="$said, $acknowledged blocks"
}

# ---- Rounds ---------------------------------------------------------------

mkdir "$at"
"$AQUIFER" volume create "$work/volume" --size 2G >/dev/null || { fail 'no volume'; exit 1; }
round=0
while [ "$round" -lt "$rounds" ]; do
    round=$((round + 1))
    case $((round % 4)) in 0) mode=delete ;; 1) mode=wal ;; 2) mode=truncate ;; 3) mode=persist ;; esac
    mount_volume
    for writer in $writers; do
        : >"$work/$writer.out"
        (write_"$writer") 2>/dev/null &
        running="$running $!"
    done
    # Each round a little longer than the one before, and then from the start again.
    sleep "$((1 + round % 3)).$((round * 7 % 10))"
    kill -9 "$server"
    wait "$server" 2>/dev/null
    server=''
    # shellcheck disable=SC2086 # a list
    wait $running
    running=''
    mount_volume
    said='' before=$failed failed=0
    for writer in $writers; do check_"$writer"; done
    kill -TERM "$server"
    wait "$server" || fail "round $round: the process does not end well: $(cat "$work/mount.err")"
    server=''
    if ! scrubbed=$("$AQUIFER" volume scrub "$work/volume" 2>&1); then fail "round $round: $scrubbed"; fi
    [ "$failed" = 1 ] || pass "round $round: all is there of ${said#, }"
    [ "$before" = 0 ] || failed=1
done
exit $failed
