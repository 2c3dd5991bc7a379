#!/bin/sh
# Tests of the example, one result line each. $1: where the Makefile has built it.
set -u
cd "$(dirname "$0")" || exit 1
out=$(cd "${1:-../../build/examples/sessions}" && pwd) || exit 1
flash=$(mktemp -d "${TMPDIR:-/var/tmp}/sessions-test.XXXXXX") || exit 1
trap 'rm -rf "$flash"' EXIT
trap 'exit 130' INT TERM
export AQUIFER_RAM=8M AQUIFER_FLASH="$flash" AQUIFER_FLASH_SIZE=512M
failed=0

fails() {
    echo "FAIL sessions $*"
    failed=1
}

# run NAME COMMAND...: passes if the command does; shows its output if it fails.
run() {
    name=$1
    shift
    if "$@" >"$flash/output" 2>&1; then
        echo "ok sessions $name"
    else
        fails "$name (exit $?): $*"
        sed 's/^/    /' "$flash/output"
    fi
}

# A run must fail, with this text in what it says.
refuses() {
    name=$1 text=$2
    shift 2
    if "$@" >"$flash/output" 2>&1; then
        fails "$name: accepted: $*"
    elif grep -q -- "$text" "$flash/output"; then
        echo "ok sessions $name"
    else
        fails "$name: the message lacks '$text': $(head -n 1 "$flash/output")"
    fi
}

# says NAME TEXT: whether the last output has a line like that.
says() {
    if grep -q -- "$2" "$flash/output"; then
        echo "ok sessions $1"
    else
        fails "$1: no line like '$2':"
        sed 's/^/    /' "$flash/output"
    fi
}

# Both programs in the same RAM, small: the plain one must come to its end under swap.
compare() {
    run 'compare.sh' env BUILT="$out" timeout 300 ./compare.sh --dir "$flash/compare" --ram 40M --data 128M \
        --seconds 1 --warmup 0.2 --check
    says 'compare.sh, every session right on aq_malloc' '^verified .* 0 wrong'
    if skipped=$(grep '^skipped: ' "$flash/output"); then
        echo "SKIP sessions compare.sh, kernel swap: ${skipped#skipped: }"
        says 'compare.sh says what root would add' '^As root'
    else
        says 'compare.sh, both side by side' '^requests/s .* times as many'
        if awk '/^MiB of RAM at most/ && $6 > 0 && $6 <= 40 && $7 > 0 && $7 <= 40 { n++ } END { exit n != 1 }' \
            "$flash/output"; then
            echo 'ok sessions compare.sh, both within the limit'
        else
            fails "compare.sh: over the limit of 40 MiB: $(grep '^MiB of RAM' "$flash/output")"
        fi
        [ "$(grep -c '^verified .* 0 wrong' "$flash/output")" = 2 ] || fails 'compare.sh: not both reports say verified'
    fi
    if [ -e /proc/swaps ] && grep -q "$flash" /proc/swaps; then
        fails 'compare.sh left its swap on'
    fi
    left=$(find "$flash/compare" -mindepth 1)
    [ -z "$left" ] || fails "compare.sh left $left"
}

# The same as a user who may nothing.
compare_without_root() {
    if [ "$(id -u)" != 0 ] || ! command -v setpriv >/dev/null; then
        echo 'SKIP sessions compare.sh without root: this is not root, or has no setpriv'
        return
    fi
    set -- setpriv --reuid 65534 --regid 65534 --clear-groups
    if ! "$@" test -x "$out/sessions" || ! "$@" test -r compare.sh; then
        echo 'SKIP sessions compare.sh without root: others may not read this folder'
        return
    fi
    mkdir "$flash/nobody"
    chmod 711 "$flash"
    chmod 777 "$flash/nobody"
    run 'compare.sh without root' env BUILT="$out" timeout 300 "$@" ./compare.sh --dir "$flash/nobody" --ram 40M \
        --data 64M --seconds 1 --warmup 0.2
    says 'compare.sh without root, every session right' '^verified .* 0 wrong'
    says 'compare.sh without root says what root would add' '^As root'
}

./count-diff.sh || failed=1
echo "# the table on malloc"
"$out/test-plain" || failed=1
echo "# the table on aq_malloc"
"$out/test-aquifer" || failed=1
short='--seconds 0.5 --warmup 0.1'
# shellcheck disable=SC2086 # several options
{
    run "plain program" "$out/sessions-plain" --data 16M $short --check
    run "aquifer program, data 8 times RAM" "$out/sessions" --data 64M $short --check
    run "aquifer program, all alike and only updates" "$out/sessions" --data 16M --hot 100 --updates 100 $short --check
}
run "help" "$out/sessions" --help
refuses "unknown option" "unknown option" "$out/sessions" --frobnicate
refuses "malformed size" "is not a size" "$out/sessions" --data 12Q
refuses "more than all" "0 to 100" "$out/sessions" --hot 101
refuses "too many threads" "1 to 256" "$out/sessions" --threads 257
refuses "fewer sessions than threads" "one for each thread" "$out/sessions" --count 3
refuses "budget below the minimum" "8" "$out/sessions" --ram 1M --count 1000
refuses "missing flash directory" "/nonexistent" "$out/sessions" --flash /nonexistent/file --count 1000
refuses "full heap" "give the heap more" "$out/sessions" --flash-size 64M --data 256M
refuses "compare.sh, too little RAM" "with --ram" env BUILT="$out" ./compare.sh --dir "$flash" --ram 24M
refuses "compare.sh, malformed size" "is not a size" env BUILT="$out" ./compare.sh --ram 8X
compare
compare_without_root
exit $failed
