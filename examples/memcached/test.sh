#!/bin/sh
# Tests of the example, one result line each. $1: where build.sh builds it.
#
# The servers listen on free ports of 127.0.0.1. Two minutes on two slow processors; AQUIFER_LONG=1: twice the data, twice the time.
set -u
cd "$(dirname "$0")" || exit 1
out=${1:-../../build/examples/memcached}
mkdir -p "$out" || exit 1
work=$(mktemp -d "${TMPDIR:-/var/tmp}/memcached-test.XXXXXX") || exit 1
plain='' aquifer='' failed=0
# Data and requests are multiplied by it.
long=1
[ -z "${AQUIFER_LONG:-}" ] || long=2
export AQUIFER_FLASH="$work/flash" MEMCACHED="$out/memcached-aquifer" PYTHONDONTWRITEBYTECODE=1
mkdir "$work/flash"

cleanup() {
    for server in $plain $aquifer; do
        kill -KILL "$server" 2>/dev/null && wait "$server" 2>/dev/null
    done
    rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

pass() {
    echo "ok memcached $1"
}

fail() {
    echo "FAIL memcached $1"
    [ ! -s "$work/output" ] || tail -n 20 "$work/output" | sed 's/^/    /'
    failed=1
}

# run NAME COMMAND...: passes if the command does; shows its output if it fails.
run() {
    name=$1
    shift
    if timeout 120 "$@" >"$work/output" 2>&1; then
        pass "$name"
    else
        fail "$name (exit $?): $*"
    fi
}

# serve COMMAND...: starts a server; sets server and port.
serve() {
    rm -f "$work/port"
    MEMCACHED_PORT_FILENAME="$work/port" "$@" -l 127.0.0.1 -p -1 -U 0 2>"$work/output" &
    server=$!
    tries=0
    until [ -s "$work/port" ]; do
        tries=$((tries + 1))
        if [ $tries -gt 100 ] || ! kill -0 "$server" 2>/dev/null; then
            fail "start of $1"
            exit 1
        fi
        sleep 0.1
    done
    port=$(sed -n 's/^TCP INET: //p' "$work/port" | head -n 1)
}

serve_plain() {
    serve "$out/memcached-plain" -u "$(id -un)" "$@"
    plain=$server plain_port=$port
}

serve_aquifer() {
    serve "$@"
    aquifer=$server aquifer_port=$port
}

# stop SERVER NAME: it must end by itself, with 0.
stop() {
    kill -TERM "$1"
    wait "$1"
    status=$?
    plain='' aquifer=''
    [ -z "$2" ] || if [ $status = 0 ]; then pass "$2"; else fail "$2 (exit $status)"; fi
}

# The protocol test of libmemcached, whose name depends on its version.
capable() {
    for tool in memccapable memcapable; do
        command -v $tool >/dev/null || continue
        run 'protocol, plain' $tool -h 127.0.0.1 -p "$plain_port" -t 10
        run 'protocol, aquifer' $tool -h 127.0.0.1 -p "$aquifer_port" -t 10
        return
    done
    echo 'skip memcached protocol: memccapable is missing (package libmemcached-tools)'
}

./count-diff.sh || failed=1
./build.sh "$out" 2>"$work/output"
case $? in
    0) pass 'build, plain and aquifer' ;;
    77)
        reason=$(tail -n 1 "$work/output" | sed 's/^memcached: //')
        for name in 'build' 'replies' 'load' 'end'; do
            echo "skip memcached $name: $reason"
        done
        exit $failed
        ;;
    *)
        fail 'build'
        exit 1
        ;;
esac
if ! command -v python3 >/dev/null; then
    echo 'skip memcached replies, load, end: python3 is missing'
    exit $failed
fi

echo '# memcached beside memcached-aquifer'
serve_plain -m 400
serve_aquifer ./start.sh --ram 8M --data 400M
capable
run "the same replies to $((7500 * long)) requests" ./same.py "$plain_port" "$aquifer_port" --requests $((7500 * long))
kill -TERM "$plain" && wait "$plain"
plain=''
stop "$aquifer" 'SIGTERM ends it'

echo '# data 8 times RAM'
serve_aquifer ./start.sh --ram $((8 * long))M --data 400M
run '4 clients, recommended options' ./load.py "$aquifer_port" --megabytes $((64 * long))
kill -KILL "$aquifer" && wait "$aquifer" 2>/dev/null
aquifer=''
if [ -z "$(ls -A "$work/flash")" ]; then pass 'SIGKILL leaves nothing'; else fail 'SIGKILL leaves files'; fi
export AQUIFER_RAM=8M AQUIFER_FLASH_SIZE=512M
serve_aquifer "$MEMCACHED" -u "$(id -un)" -m 400
run '4 clients, default options' ./load.py "$aquifer_port" --megabytes $((32 * long))
stop "$aquifer" ''
serve_aquifer "$MEMCACHED" -u "$(id -un)" -m 400 -o slab_chunk_max=4096,no_lru_maintainer -t 2
run '4 clients, values in chains of chunks' ./load.py "$aquifer_port" --megabytes $((32 * long))
stop "$aquifer" ''

echo '# more data than memcached may hold'
serve_aquifer ./start.sh --ram 8M --data 64M
# memcached looks at a few items only, and refuses a value if all those are being sent just then.
run 'eviction at the limit of memcached' ./load.py "$aquifer_port" --megabytes 96 --may-evict --may-refuse
stop "$aquifer" ''
export AQUIFER_FLASH_SIZE=64M
serve_aquifer "$MEMCACHED" -u "$(id -un)" -m 1024
run 'eviction at the limit of flash' ./load.py "$aquifer_port" --megabytes 96 --may-evict --may-refuse
stop "$aquifer" ''

export AQUIFER_RAM=1M
if timeout 10 "$MEMCACHED" -u "$(id -un)" -l 127.0.0.1 -p -1 -U 0 >"$work/output" 2>&1; then
    fail 'a budget below the minimum is accepted'
elif grep -q RAM "$work/output"; then
    pass 'a budget below the minimum is refused'
else
    fail 'a budget below the minimum: no message'
fi
exit $failed
