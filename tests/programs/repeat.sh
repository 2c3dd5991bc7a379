#!/bin/sh
# The tests of run.sh with many managed runs of each program, on less data, with harmless signals at random times: SIGCONT,
# SIGWINCH, SIGSTOP and SIGCONT. All programs that can have 16 threads; redis-server, SQLite, sort and Python fork.
#
#   tests/programs/repeat.sh RUNS [NAME...]
#
# Prints a line for each program. AQUIFER and TMPDIR as for run.sh.
set -u
here=$(cd "$(dirname "$0")" && pwd) || exit 1
case ${1:-} in
    '' | *[!0-9]*)
        echo "usage: repeat.sh RUNS [NAME...]" >&2
        exit 1
        ;;
esac
export PROGRAMS_SIGNALS=1 PROGRAMS_SMALL=1 PROGRAMS_RUNS="$1"
shift
[ $# -gt 0 ] || set -- sort xz python numpy sqlite3 rust memcached redis
exec "$here/run.sh" "$@"
