#!/bin/sh
# Tests of the example, one result line each. $1: where the Makefile has built it.
set -u
cd "$(dirname "$0")" || exit 1
out=${1:-../../build/examples/durable-kv}
kv=$out/durable-kv
aquifer=${AQUIFER:-../../build/bin/aquifer}
work=$(mktemp -d "${TMPDIR:-/var/tmp}/durable-kv-test.XXXXXX") || exit 1
memory='' counting=''
clean_up() {
    [ -z "$counting" ] || kill -9 "$counting" 2>/dev/null
    rm -rf "$work" ${memory:+"$memory"}
}
trap clean_up EXIT
trap 'exit 130' INT TERM
failed=0
kills=20
# A counter that says nothing for so long is taken for stuck; none needs a hundredth of it.
stuck_s=60

pass() {
    echo "ok durable-kv $*"
}

fail() {
    echo "FAIL durable-kv $*"
    failed=1
}

# same NAME EXPECTED STATUS COMMAND...: what a command prints, and its exit status.
same() {
    name=$1 expected=$2 expected_status=$3 status=0
    shift 3
    printed=$("$@" 2>"$work/complaint") || status=$?
    if [ "$printed" = "$expected" ] && [ "$status" = "$expected_status" ]; then
        pass "$name"
    else
        fail "$name: status $status, not $expected_status; printed '$printed': $(cat "$work/complaint")"
    fi
}

# refuses NAME TEXT COMMAND...: it fails, with this text in what it says.
refuses() {
    name=$1 text=$2 status=0
    shift 2
    "$@" >"$work/printed" 2>&1 || status=$?
    if [ "$status" = 2 ] && grep -q -- "$text" "$work/printed"; then
        pass "$name"
    else
        fail "$name: status $status, and the message lacks '$text': $(head -n 1 "$work/printed")"
    fi
}

# Waits until the counter has printed so many lines.
wait_for_lines() {
    deadline=$(($(date +%s) + stuck_s))
    while [ "$(wc -l <"$work/printed")" -lt "$1" ]; do
        kill -0 "$counting" 2>/dev/null || return 1
        [ "$(date +%s)" -lt "$deadline" ] || return 1
        sleep 0.01
    done
}

# Kills the counter again and again, each time a little later. It goes on from the last number that it printed, or from the
# one behind that, which it had committed and not yet printed.
count_and_kill() {
    file=$1 name=$2 last=0 round=0
    while [ $round -lt $kills ]; do
        round=$((round + 1))
        : >"$work/printed"
        "$kv" "$file" count 1000000000 >>"$work/printed" 2>"$work/complaint" &
        counting=$!
        wait_for_lines $((round * 7 % 50 + 1)) || {
            fail "$name: no numbers in round $round: $(cat "$work/complaint")"
            return
        }
        kill -9 "$counting"
        wait "$counting" 2>/dev/null
        counting=''
        first=$(head -n 1 "$work/printed")
        if [ "$first" -le "$last" ] || [ "$first" -gt $((last + 2)) ]; then
            fail "$name: $last was acknowledged, and then came $first"
            return
        fi
        last=$(tail -n 1 "$work/printed")
    done
    pass "$name: $kills kills, $last acknowledged"
    now=$("$kv" "$file" get count)
    if [ "$now" = "$last" ] || [ "$now" = $((last + 1)) ]; then
        pass "$name: the last number is there"
    else
        fail "$name: $last was acknowledged, and $now is there"
    fi
    check "$file" "$name: the file is in order"
}

# Has the command look at a file.
check() {
    if [ ! -x "$aquifer" ]; then
        echo "SKIP durable-kv $2: $aquifer was not built (make lib)"
    elif "$aquifer" durable check "$1" >"$work/printed" 2>&1; then
        pass "$2"
    else
        fail "$2: $(cat "$work/printed")"
    fi
}

# Keys enough for the map to grow several times, some of them replaced and removed, against a plain list.
many_keys() {
    : >"$work/expected"
    n=0
    while [ $n -lt 100 ]; do
        n=$((n + 1))
        "$kv" "$work/many" set "key $n" "old $n" && "$kv" "$work/many" set "key $n" "value $((n * 997))" || return 1
        if [ $((n % 5)) = 0 ]; then
            "$kv" "$work/many" del "key $n" || return 1
        else
            printf 'key %s\tvalue %s\n' $n $((n * 997)) >>"$work/expected"
        fi
    done
    "$kv" "$work/many" list | sort >"$work/listed"
    sort "$work/expected" | diff - "$work/listed"
}

store=$work/store
same "set" "" 0 "$kv" "$store" set tea Assam
same "get" "Assam" 0 "$kv" "$store" get tea
same "no such key" "" 1 "$kv" "$store" get coffee
same "set again, as long" "" 0 "$kv" "$store" set tea Pekoe
same "set again, longer" "" 0 "$kv" "$store" set tea 'Orange Pekoe'
same "the newest value" "Orange Pekoe" 0 "$kv" "$store" get tea
same "an empty value" "" 0 "$kv" "$store" set '' ''
same "an empty key" "" 0 "$kv" "$store" get ''
long=$(head -c 50000 /dev/zero | tr '\0' x)
same "a long key and value" "" 0 "$kv" "$store" set "$long" "$long"
same "a long value again" "$long" 0 "$kv" "$store" get "$long"
same "not another long key" "" 1 "$kv" "$store" get "${long}y"
same "del" "" 0 "$kv" "$store" del "$long"
same "del again" "" 1 "$kv" "$store" del "$long"
same "count" "1 2 3" 0 sh -c '"$0" "$1" count 3 | paste -sd " " -' "$kv" "$store"
same "count goes on" "4 5" 0 sh -c '"$0" "$1" count 2 | paste -sd " " -' "$kv" "$store"
same "list" "$(printf '\t\ncount\t5\ntea\tOrange Pekoe')" 0 sh -c '"$0" "$1" list | sort' "$kv" "$store"
if many_keys >"$work/difference" 2>&1; then
    pass "a hundred keys"
else
    fail "a hundred keys: $(head -n 3 "$work/difference")"
fi

# The same store from Python: each sees what the other has set.
if command -v python3 >/dev/null; then
    AQUIFER_LIBRARY=${AQUIFER_LIBRARY:-../../build/lib/libaquifer.so}
    export AQUIFER_LIBRARY
    same "Python: get" "Orange Pekoe" 0 python3 durable_kv.py "$store" tea
    same "Python: set" "" 0 python3 durable_kv.py "$store" coffee 'Sidamo, a coffee'
    same "what Python has set" "Sidamo, a coffee" 0 "$kv" "$store" get coffee
    same "Python: list" "$("$kv" "$store" list)" 0 python3 durable_kv.py "$store"
    same "Python: no such key" "" 1 python3 durable_kv.py "$store" water
    same "Python: a new file" "" 0 python3 durable_kv.py "$work/new" key value
    same "del what Python has set" "" 0 "$kv" "$store" del coffee
else
    echo "SKIP durable-kv Python: there is no python3"
fi

count_and_kill "$work/counter" "killed"
memory=$(mktemp -d /dev/shm/durable-kv-test.XXXXXX 2>/dev/null) || memory=''
if [ -n "$memory" ]; then
    count_and_kill "$memory/counter" "killed in memory"
else
    echo "SKIP durable-kv killed in memory: there is no /dev/shm"
fi

same "help" "Usage: durable-kv FILE COMMAND" 0 sh -c '"$0" --help | grep Usage' "$kv"
refuses "no file" "which file" "$kv"
refuses "unknown command" "no command 'frobnicate'" "$kv" "$store" frobnicate
refuses "too few arguments" "with 1 arguments" "$kv" "$store" set tea
refuses "missing file" "No such file" "$kv" "$work/nowhere" get tea
refuses "a file of something else" "no durable heap" "$kv" test.sh list
refuses "no number of steps" "'-1' is no number" "$kv" "$store" count -1
"$kv" "$store" set count many
refuses "a counter that is none" "is no number: many" "$kv" "$store" count 1
exit $failed
