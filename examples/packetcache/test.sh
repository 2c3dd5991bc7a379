#!/bin/sh
# Tests of the example, one result line each. $1: where the Makefile has built it.
set -u
cd "$(dirname "$0")" || exit 1
out=${1:-../../build/examples/packetcache}
flash=$(mktemp -d "${TMPDIR:-/var/tmp}/packetcache-test.XXXXXX") || exit 1
trap 'rm -rf "$flash"' EXIT
trap 'exit 130' INT TERM
export AQUIFER_RAM=8M AQUIFER_FLASH="$flash" AQUIFER_FLASH_SIZE=512M
failed=0

# run NAME COMMAND...: passes if the command does; shows its output if it fails.
run() {
    name=$1
    shift
    if "$@" >"$flash/output" 2>&1; then
        echo "ok packetcache $name"
    else
        echo "FAIL packetcache $name (exit $?): $*"
        sed 's/^/    /' "$flash/output"
        failed=1
    fi
}

# A run must fail, with this text in what it says.
refuses() {
    name=$1 text=$2
    shift 2
    if "$@" >"$flash/output" 2>&1; then
        echo "FAIL packetcache $name: accepted: $*"
        failed=1
    elif grep -q -- "$text" "$flash/output"; then
        echo "ok packetcache $name"
    else
        echo "FAIL packetcache $name: the message lacks '$text': $(head -n 1 "$flash/output")"
        failed=1
    fi
}

# What a run found, without what it cost.
findings() {
    grep -E '^(cache|redundancy|saved|checksum|verified|check) ' "$1"
}

# Both programs with the same options must find the same.
agree() {
    load=$1
    shift
    run "$load, plain" "$out/packetcache-plain" "$@"
    findings "$flash/output" >"$flash/plain"
    run "$load, aquifer" "$out/packetcache" "$@"
    findings "$flash/output" >"$flash/aquifer"
    if [ "$(wc -l <"$flash/plain")" -ge 5 ] && cmp -s "$flash/plain" "$flash/aquifer"; then
        echo "ok packetcache $load, identical reports"
    else
        echo "FAIL packetcache $load: the reports differ"
        diff "$flash/plain" "$flash/aquifer"
        failed=1
    fi
}

./count-diff.sh || failed=1
echo "# the cache on malloc"
"$out/test-plain" || failed=1
echo "# the cache on aq_malloc"
"$out/test-aquifer" || failed=1
agree "data 8 times RAM" --data 64M --packets 100000
agree "repeats from everywhere" --data 16M --overlap 0.9 --zipf 0 --seed 2 --check
agree "nothing but small packets" --data 8M --small 1 --packets 50000 --check
agree "nothing repeats" --data 8M --overlap 0 --packets 20000 --check
run "another seed" "$out/packetcache-plain" --data 16M --overlap 0.9 --zipf 0 --seed 3
if [ "$(findings "$flash/output")" = "$(head -n 5 "$flash/plain")" ]; then
    echo "FAIL packetcache another seed, same findings"
    failed=1
fi
run "help" "$out/packetcache" --help
refuses "unknown option" "unknown option" "$out/packetcache" --frobnicate
refuses "malformed size" "is not a size" "$out/packetcache" --data 12Q
refuses "cache that is too small" "1M to 1T" "$out/packetcache" --data 1000
refuses "impossible overlap" "0 to 1" "$out/packetcache" --overlap 1.5
refuses "payload that is too long" "300 to 1500" "$out/packetcache" --payload 9000
refuses "budget below the minimum" "8" env AQUIFER_RAM=1M "$out/packetcache" --packets 1000
refuses "missing flash directory" "/nonexistent" env AQUIFER_FLASH=/nonexistent/file "$out/packetcache" --packets 1000
refuses "full heap" "give the heap more" env AQUIFER_FLASH_SIZE=64M "$out/packetcache" --data 256M
exit $failed
