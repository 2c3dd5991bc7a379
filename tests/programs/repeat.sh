#!/bin/sh
# The tests of run.sh again and again, with harmless signals at random times to the native and to the managed runs:
# SIGCONT, SIGWINCH, SIGSTOP and SIGCONT.
#
#   tests/programs/repeat.sh N [NAME...]
#
# Prints what failed, and one line at the end. AQUIFER and TMPDIR as for run.sh.
set -u
here=$(cd "$(dirname "$0")" && pwd) || exit 1
case ${1:-} in
    '' | *[!0-9]*)
        echo "usage: repeat.sh N [NAME...]" >&2
        exit 1
        ;;
esac
rounds=$1
shift
results=$(mktemp "${TMPDIR:-/var/tmp}/aquifer-repeat.XXXXXX") || exit 1
running=''
trap '[ -z "$running" ] || kill "$running" 2>/dev/null; rm -f "$results" "$results.round"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

count() {
    grep -c "^$1 " "$results"
}

export PROGRAMS_SIGNALS=1
round=0
while [ "$round" -lt "$rounds" ]; do
    round=$((round + 1))
    "$here/run.sh" "$@" >"$results.round" 2>&1 &
    running=$!
    wait "$running"
    running=''
    grep -v '^ok \|^skip ' "$results.round" | sed "s/^/round $round: /"
    cat "$results.round" >>"$results"
    rm -f "$results.round"
done
echo "$rounds rounds: $(count ok) passed, $(count FAIL) failed, $(count skip) skipped"
[ "$(count FAIL)" -eq 0 ]
