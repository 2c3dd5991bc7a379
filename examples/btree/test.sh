#!/bin/sh
# Tests of the example, one result line each. $1: where the Makefile has built it.
set -u
cd "$(dirname "$0")" || exit 1
out=${1:-../../build/examples/btree}
flash=$(mktemp -d "${TMPDIR:-/var/tmp}/btree-test.XXXXXX") || exit 1
trap 'rm -rf "$flash"' EXIT
trap 'exit 130' INT TERM
export AQUIFER_RAM=16M AQUIFER_FLASH="$flash" AQUIFER_FLASH_SIZE=512M
failed=0

# run NAME COMMAND...: passes if the command does; shows its output if it fails.
run() {
    name=$1
    shift
    if "$@" >"$flash/output" 2>&1; then
        echo "ok btree $name"
    else
        echo "FAIL btree $name (exit $?): $*"
        sed 's/^/    /' "$flash/output"
        failed=1
    fi
}

# A run must fail, with this text in what it says.
refuses() {
    name=$1 text=$2
    shift 2
    if "$@" >"$flash/output" 2>&1; then
        echo "FAIL btree $name: accepted: $*"
        failed=1
    elif grep -q -- "$text" "$flash/output"; then
        echo "ok btree $name"
    else
        echo "FAIL btree $name: the message lacks '$text': $(head -n 1 "$flash/output")"
        failed=1
    fi
}

./count-diff.sh || failed=1
echo "# the tree on malloc"
"$out/test-plain" || failed=1
echo "# the tree on aq_malloc"
"$out/test-aquifer" || failed=1
run "plain program" "$out/btree-plain" --records 2e5 --queries 1e5 --check
run "plain program, uniform and shuffled" "$out/btree-plain" --data 8M --queries 1e5 --uniform --shuffle --check
run "aquifer program, data 8 times RAM" "$out/btree" --data 128M --queries 2e5 --check
run "aquifer program, uniform and shuffled" "$out/btree" --records 3e5 --queries 5e4 --uniform --shuffle --check
run "help" "$out/btree" --help
refuses "unknown option" "unknown option" "$out/btree" --frobnicate
refuses "malformed size" "is not a size" "$out/btree" --data 12Q
refuses "budget below the minimum" "8" "$out/btree" --ram 1M --records 1000
refuses "missing flash directory" "/nonexistent" "$out/btree" --flash /nonexistent/file --records 1000
exit $failed
