#!/bin/sh
# Unchanged programs run natively and under `aquifer run` with a quarter of the RAM they need or less; what they print
# must be the same. One result line each.
#
#   tests/programs/run.sh [NAME...]        all tests if no name is given
#   tests/programs/run.sh --list           the names
#
# AQUIFER            the command [default: build/bin/aquifer of this tree]
# PROGRAMS_SIGNALS   set: all runs get harmless signals at random times
# PROGRAMS_SMALL     set: half of the data in half of the RAM, or less
# PROGRAMS_RUNS      how often each program runs managed [default: 1]
# TMPDIR             where data and flash files go [default: /var/tmp]; all of it is removed at the end
set -u
here=$(cd "$(dirname "$0")" && pwd) || exit 1
AQUIFER=${AQUIFER:-$here/../../build/bin/aquifer}
# shellcheck source=common.sh
. "$here/common.sh"

all='setuid static go script sort xz python numpy sqlite3 rust memcached redis'
if [ "${1:-}" = --list ]; then
    # shellcheck disable=SC2086 # a list
    printf '%s\n' $all
    exit 0
fi

work=$(mktemp -d "${TMPDIR:-/var/tmp}/aquifer-programs.XXXXXX") || exit 1
running=''
trap '[ -z "$running" ] || kill "$running" 2>/dev/null; end_runs; rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

if [ ! -x "$AQUIFER" ]; then
    echo "run.sh: there is no $AQUIFER; 'make lib' builds it, or name another: AQUIFER=path $0" >&2
    exit 1
fi
AQUIFER=$(realpath "$AQUIFER")
[ $# -gt 0 ] || eval "set -- $all"
failed=0
for name in "$@"; do
    if [ ! -f "$here/$name.sh" ]; then
        echo "FAIL programs $name: there is no such test; there are: $all"
        failed=1
        continue
    fi
    mkdir "$work/$name"
    # The test in a shell of its own, so that the trap can end its programs while it runs.
    (
        trap - EXIT
        # shellcheck disable=SC2030 # only here
        work=$work/$name
        # shellcheck source=/dev/null
        . "$here/$name.sh"
        one_test
    ) &
    running=$!
    wait "$running" || failed=1
    running=''
    end_runs
    # shellcheck disable=SC2031 # that of all tests
    rm -rf "${work:?}/$name"
done
exit $failed
