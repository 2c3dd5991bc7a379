#!/bin/sh
# Tests of the example, one result line each. $1: where the Makefile has built it.
set -u
cd "$(dirname "$0")" || exit 1
out=${1:-../../build/examples/hashcache}
flash=$(mktemp -d "${TMPDIR:-/var/tmp}/hashcache-test.XXXXXX") || exit 1
trap 'rm -rf "$flash"' EXIT
trap 'exit 130' INT TERM
export AQUIFER_RAM=8M AQUIFER_FLASH="$flash" AQUIFER_FLASH_SIZE=512M
failed=0

# run NAME COMMAND...: passes if the command does; shows its output if it fails.
run() {
    name=$1
    shift
    if "$@" >"$flash/output" 2>&1; then
        echo "ok hashcache $name"
    else
        echo "FAIL hashcache $name (exit $?): $*"
        sed 's/^/    /' "$flash/output"
        failed=1
    fi
}

# A run must fail, with this text in what it says.
refuses() {
    name=$1 text=$2
    shift 2
    if "$@" >"$flash/output" 2>&1; then
        echo "FAIL hashcache $name: accepted: $*"
        failed=1
    elif grep -q -- "$text" "$flash/output"; then
        echo "ok hashcache $name"
    else
        echo "FAIL hashcache $name: the message lacks '$text': $(head -n 1 "$flash/output")"
        failed=1
    fi
}

# What a run found, without what it cost.
findings() {
    grep -E '^(cache|hits|bytes hit|checksum|verified|check) ' "$1"
}

# Both programs with the same options must find the same.
agree() {
    load=$1
    shift
    run "$load, plain" "$out/hashcache-plain" "$@"
    findings "$flash/output" >"$flash/plain"
    run "$load, aquifer" "$out/hashcache" "$@"
    findings "$flash/output" >"$flash/aquifer"
    if [ "$(wc -l <"$flash/plain")" -ge 5 ] && cmp -s "$flash/plain" "$flash/aquifer"; then
        echo "ok hashcache $load, identical reports"
    else
        echo "FAIL hashcache $load: the reports differ"
        diff "$flash/plain" "$flash/aquifer"
        failed=1
    fi
}

./count-diff.sh || failed=1
echo "# the cache on malloc"
"$out/test-plain" || failed=1
echo "# the cache on aq_malloc"
"$out/test-aquifer" || failed=1
agree "data 8 times RAM" --data 64M --requests 80000
agree "every URL is as likely as any other" --data 16M --alpha 0 --seed 2 --check
agree "few URLs, all of them fit" --data 16M --urls 3000 --requests 40000 --check
run "another seed" "$out/hashcache-plain" --data 16M --urls 3000 --requests 40000 --seed 3
if [ "$(findings "$flash/output")" = "$(head -n 5 "$flash/plain")" ]; then
    echo "FAIL hashcache another seed, same findings"
    failed=1
fi
run "help" "$out/hashcache" --help
refuses "unknown option" "unknown option" "$out/hashcache" --frobnicate
refuses "malformed size" "is not a size" "$out/hashcache" --data 12Q
refuses "cache that is too small" "1M to 1T" "$out/hashcache" --data 1000
refuses "impossible alpha" "0 to 10" "$out/hashcache" --alpha 11
refuses "too many URLs" "2^32" "$out/hashcache" --urls 1e10
refuses "budget below the minimum" "8" "$out/hashcache" --ram 1M --requests 1000
refuses "missing flash directory" "/nonexistent" "$out/hashcache" --flash /nonexistent/file --requests 1000
refuses "full heap" "give the heap more" "$out/hashcache" --flash-size 64M --data 256M
exit $failed
