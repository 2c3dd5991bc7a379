#!/bin/sh
# PostgreSQL on a mounted volume. The server and the process that serves the mount are killed in the middle of
# pgbench; after mounting again the database recovers, its tables and indexes are in order, its sums agree, and
# every transaction that was acknowledged is there. One result line each; exits with 1 if one failed.
#
#   tests/mount/postgres.sh [-T SECONDS]      how long pgbench runs; it is killed after a third of that [60]
#   AQUIFER=PATH    the aquifer command
#   AQUIFER_POSTGRES_DIR=PATH    where the volume and the mount are made [$TMPDIR or /var/tmp]
set -u
cd "$(dirname "$0")/../.." || exit 1
seconds=60 clients=4 scale=5
[ "${1:-}" = -T ] && seconds=$2

subject='mount postgres'
. tests/lib.sh
programs=$(find /usr/lib/postgresql -name pgbench 2>/dev/null | sort -V | tail -n 1)
[ -n "$programs" ] || skip_all 'PostgreSQL is not installed (Debian package postgresql)'
programs=$(dirname "$programs")
[ -c /dev/fuse ] || skip_all 'there is no /dev/fuse here'
user=$(id -un) options=''
if [ "$(id -u)" = 0 ]; then
    # The server refuses to be root.
    user=nobody options=--allow-other
    id postgres >/dev/null 2>&1 && user=postgres
    command -v setpriv >/dev/null || skip_all 'setpriv is not installed (Debian package util-linux)'
elif ! command -v fusermount3 >/dev/null; then
    skip_all 'this user may not mount (Debian package fuse3)'
fi

work=$(mktemp -d "${AQUIFER_POSTGRES_DIR:-${TMPDIR:-/var/tmp}}/aquifer-postgres.XXXXXX") || exit 1
chmod 755 "$work"
data=$work/mounted/data
server='' processes=''

# With "lazily" also while it is in use.
unmount() {
    if [ "$(id -u)" = 0 ]; then
        umount ${1:+-l} "$work/mounted"
    else
        fusermount3 -u ${1:+-z} "$work/mounted"
    fi
}

clean() {
    # shellcheck disable=SC2086 # a list
    [ -z "$processes" ] || kill -9 $processes 2>/dev/null
    [ -z "$server" ] || kill -9 "$server" 2>/dev/null
    unmount lazily 2>/dev/null
    rm -rf "$work"
}
trap clean EXIT
trap 'exit 130' INT TERM

# Becomes a program, run by who may use the database.
become() {
    if [ "$(id -u)" = 0 ]; then
        set -- setpriv --reuid="$user" --regid="$(id -g "$user")" --clear-groups "$@"
    fi
    cd "$work" && HOME=$work PGHOST=$work/socket PGUSER=$user PGDATABASE=postgres exec "$@"
}

# Runs a program of PostgreSQL.
as_user() {
    program=$1
    shift
    (become timeout -k 5 600 "$programs/$program" "$@")
}

# Waits until something is so, for at most ten minutes.
wait_until() {
    tries=6000
    until "$@"; do
        tries=$((tries - 1))
        [ "$tries" -gt 0 ] || return 1
        sleep 0.1
    done
}

is_told_or_ended() {
    [ -s "$work/mount.out" ] || ! kill -0 "$server" 2>/dev/null
}

mount_volume() {
    : >"$work/mount.out"
    # shellcheck disable=SC2086 # perhaps no option
    "$AQUIFER" volume mount --foreground --ram 128M $options "$work/volume" "$work/mounted" \
        >"$work/mount.out" 2>"$work/mount.err" &
    server=$!
    wait_until is_told_or_ended && [ -s "$work/mount.out" ] && return
    fail "the volume cannot be mounted: $(cat "$work/mount.err")"
    exit 1
}

is_ready_or_ended() {
    as_user pg_isready -q || ! kill -0 "$processes" 2>/dev/null
}

# A child of this script, so that nothing is left of it when it was killed: not even its number.
start_database() {
    (become "$programs/postgres" -D "$data" >>"$work/log/server" 2>&1) &
    processes=$!
    wait_until is_ready_or_ended && as_user pg_isready -q && return
    fail "$1: the server does not start: $(tail -n 5 "$work/log/server")"
    exit 1
}

query() {
    as_user psql -X -A -t -v ON_ERROR_STOP=1 -c "$1"
}

none_runs() {
    for process in "$@"; do
        # Those that ended and were not waited for do not count.
        case $(ps -o stat= -p "$process") in
            '' | Z*) ;;
            *) return 1 ;;
        esac
    done
}

# Says that tables and indexes are in order.
verify() {
    if as_user pg_amcheck --install-missing --all --heapallindexed >"$work/log/amcheck" 2>&1; then
        pass "$1: tables and indexes are in order"
    else
        fail "$1: $(head -n 5 "$work/log/amcheck")"
    fi
    sums=$(query 'SELECT (SELECT sum(abalance) FROM pgbench_accounts), (SELECT sum(bbalance) FROM pgbench_branches),
        (SELECT sum(tbalance) FROM pgbench_tellers), (SELECT coalesce(sum(delta), 0) FROM pgbench_history)')
    case $sums in
        "${sums%%|*}|${sums%%|*}|${sums%%|*}|${sums%%|*}") pass "$1: four sums are ${sums%%|*}" ;;
        *) fail "$1: the sums are $sums" ;;
    esac
}

# ---- A database on a new volume -------------------------------------------

mkdir "$work/mounted" "$work/socket" "$work/log"
if [ "$(id -u)" = 0 ]; then chown "$user" "$work/socket" "$work/log" || exit 1; fi
"$AQUIFER" volume create "$work/volume" --size 2G >/dev/null || { fail 'no volume'; exit 1; }
mount_volume
if [ "$(id -u)" = 0 ]; then chown "$user" "$work/mounted" || exit 1; fi
as_user initdb -D "$data" -A trust -U "$user" >"$work/log/initdb" 2>&1 ||
    { fail "initdb: $(tail -n 3 "$work/log/initdb")"; exit 1; }
# More data than the server keeps, and checkpoints while it runs.
cat >>"$data/postgresql.conf" <<EOF
listen_addresses = ''
unix_socket_directories = '$work/socket'
shared_buffers = 16MB
checkpoint_timeout = 30s
max_wal_size = 64MB
EOF
start_database 'new'
as_user pgbench -i -q -s $scale >"$work/log/fill" 2>&1 || { fail "filling: $(tail -n 3 "$work/log/fill")"; exit 1; }
pass "initdb, and pgbench -i -s $scale"

# ---- Killed in the middle -------------------------------------------------

as_user pgbench -n -c $clients -T "$seconds" >"$work/log/run" 2>&1 &
run=$!
sleep $((seconds / 3))
query 'SELECT 1' >/dev/null || fail 'the server does not answer while pgbench runs'
# Read before: nobody can list the children of a process that is gone.
processes="$processes $(ps -o pid= --ppid "$processes" | tr '\n' ' ')"
# shellcheck disable=SC2086 # a list
kill -9 "$server" $processes
# shellcheck disable=SC2086 # a list
wait "$server" "$run" ${processes%% *} 2>/dev/null
# shellcheck disable=SC2086 # a list
wait_until none_runs $processes || { fail 'processes of the killed server remain'; exit 1; }
processes='' server=''
acknowledged=$(sed -n 's/^number of transactions actually processed: \([0-9]*\).*/\1/p' "$work/log/run")
mount_volume
start_database 'after the kill'
found=$(query 'SELECT count(*) FROM pgbench_history')
if [ "${acknowledged:-0}" -gt 0 ] && [ "$found" -ge "$acknowledged" ] && [ "$found" -le $((acknowledged + clients)) ]; then
    pass "after the kill: of $acknowledged acknowledged transactions and at most $clients more $found are there"
else
    fail "after the kill: ${acknowledged:-no} transactions were acknowledged, $found are there"
fi
verify 'after the kill'

# ---- It goes on, and ends well --------------------------------------------

if as_user pgbench -n -c $clients -t 200 >"$work/log/again" 2>&1; then
    verify 'going on'
else
    fail "going on: $(tail -n 3 "$work/log/again")"
fi
kill -INT "$processes"
wait "$processes" || fail 'the server does not end well'
processes=''
unmount || fail 'it cannot be unmounted'
if wait "$server"; then pass 'unmounted'; else fail "the process that served the mount: $(cat "$work/mount.err")"; fi
server=''
if said=$("$AQUIFER" volume check "$work/volume" 2>&1); then
    pass 'the volume is in order'
else
    fail "the volume: $said"
fi
exit $failed
