#!/bin/sh
# Tests of the example, one result line each. $1: where the Makefile has built it.
set -u
cd "$(dirname "$0")" || exit 1
out=${1:-../../build/examples/kv}
kv=$out/kv
work=$(mktemp -d "${TMPDIR:-/var/tmp}/kv-test.XXXXXX") || exit 1
filling=''
clean_up() {
    [ -z "$filling" ] || kill -9 "$filling" 2>/dev/null
    rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 130' INT TERM
failed=0
kills=6
# A fill that says nothing for so long is taken for stuck; none needs a hundredth of it.
stuck_s=120

pass() {
    echo "ok kv $*"
}

fail() {
    echo "FAIL kv $*"
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

# Puts and deletes in no order, some keys again and again, with values of all sizes; what is left, against sort.
many_changes() {
    awk 'BEGIN {
        srand(4711)
        for (i = 0; i < 60000; i++) {
            key = sprintf("%x", int(rand() * 12000) * 7919)
            if (rand() < 0.3) { print key; continue }
            value = i ""
            for (n = int(rand() * rand() * 90); n > 0; n--) value = value "-" n
            print key "\t" value
        }
        for (i = 0; i < 6000; i++) printf "%x\n", i * 7919
    }' >"$work/changes"
    awk -F'\t' 'NF == 1 { delete all[$1] } NF == 2 { all[$1] = $2 } END { for (key in all) print key "\t" all[key] }' \
        "$work/changes" | sort >"$work/expected"
    "$kv" --ram 2 --sync 5000 "$work/many" load <"$work/changes" >"$work/acknowledged" || return 1
    [ "$(tail -n 1 "$work/acknowledged")" = 66000 ] || return 1
    "$kv" --ram 2 "$work/many" scan | diff "$work/expected" - || return 1
    # And nothing is left.
    cut -f 1 "$work/expected" | "$kv" "$work/many" load >"$work/acknowledged" && [ -z "$("$kv" "$work/many" scan)" ]
}

# Waits until the fill has printed so many lines.
wait_for_lines() {
    deadline=$(($(date +%s) + stuck_s))
    while [ "$(wc -l <"$work/printed")" -lt "$1" ]; do
        kill -0 "$filling" 2>/dev/null || return 1
        [ "$(date +%s)" -lt "$deadline" ] || return 1
        sleep 0.01
    done
}

# Kills the fill again and again, each time a little later: with many syncs, and with few, when the volume writes unasked what
# RAM has no room for. What was acknowledged is there, and what is there are the first numbers without a gap.
fill_and_kill() {
    last=0 more=0 round=0
    while [ $round -lt $kills ]; do
        round=$((round + 1))
        : >"$work/printed"
        if [ $((round % 2)) = 0 ]; then
            every=700 lines=$((round * 7 % 12 + 1))
        else
            every=30000 lines=1
        fi
        "$kv" --ram 1 --sync $every "$work/numbers" fill 1000000000 >>"$work/printed" 2>"$work/complaint" &
        filling=$!
        wait_for_lines $lines || {
            fail "killed: no numbers in round $round: $(cat "$work/complaint")"
            return
        }
        sleep "0.$round"
        kill -9 "$filling"
        wait "$filling" 2>/dev/null
        filling=''
        last=$(tail -n 1 "$work/printed")
        there=$("$kv" --ram 1 "$work/numbers" verify 2>"$work/complaint") || there=-1
        if [ "$there" -lt "$last" ]; then
            fail "killed: $last were acknowledged, $there are there: $(cat "$work/complaint")"
            return
        fi
        more=$((more + there - last))
    done
    pass "killed: $kills kills, $there there, $more of them were never synced"
}

store=$work/store
same "put" "" 0 "$kv" "$store" put tea Assam
same "get" "Assam" 0 "$kv" "$store" get tea
same "no such key" "" 1 "$kv" "$store" get coffee
same "put again" "" 0 "$kv" "$store" put tea 'Orange Pekoe'
same "the newest value" "Orange Pekoe" 0 "$kv" "$store" get tea
same "an empty value" "" 0 "$kv" "$store" put milk ''
same "it is there" "" 0 "$kv" "$store" get milk
same "scan" "$(printf 'milk\t\ntea\tOrange Pekoe')" 0 "$kv" "$store" scan
same "scan from a key" "$(printf 'tea\tOrange Pekoe')" 0 "$kv" "$store" scan n
same "scan a few" "$(printf 'milk\t')" 0 "$kv" "$store" scan '' 1
same "del" "" 0 "$kv" "$store" del tea
same "del again" "" 1 "$kv" "$store" del tea
long=$(head -c 1000 /dev/zero | tr '\0' x)
same "a long value" "" 0 "$kv" "$store" put long "$long"
same "a long value again" "$long" 0 "$kv" "$store" get long
if many_changes >"$work/difference" 2>&1; then
    pass "66000 changes"
else
    fail "66000 changes: $(head -n 3 "$work/difference")"
fi
same "more numbers than RAM" "100000" 0 sh -c '"$0" --ram 1 --sync 20000 "$1" fill 100000 | tail -n 1' "$kv" "$work/first"
same "verify" "100000" 0 "$kv" --ram 1 "$work/first" verify
fill_and_kill

same "help" "Usage: kv \[OPTION\]... VOLUME COMMAND" 0 sh -c '"$0" --help | grep Usage | sed "s/[][]/\\\\&/g"' "$kv"
refuses "no volume" "which volume" "$kv"
refuses "unknown command" "no command 'frobnicate'" "$kv" "$store" frobnicate
refuses "unknown option" "no option --frobnicate" "$kv" --frobnicate 1 "$store" scan
refuses "too few arguments" "with 1 arguments" "$kv" "$store" put tea
refuses "a file of something else" "not a volume" "$kv" test.sh scan
refuses "an empty key" "keys have 1 to 255 bytes" "$kv" "$store" put '' tea
refuses "a value that is too long" "at most 1000" "$kv" "$store" put tea "${long}y"
refuses "no number" "'-1' is no number" "$kv" "$store" fill -1
refuses "numbers that are none" "not the first" "$kv" "$store" verify
refuses "a full store" "the store is full" sh -c 'seq 200000 | sed "s/.*/&\t$2/" | "$0" --size 8 "$1" load' "$kv" "$work/full" "$long"
exit $failed
