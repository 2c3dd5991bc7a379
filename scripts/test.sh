#!/bin/sh
# Every test, and one line at the end that sums up:
#
#   N passed, N failed, N skipped
#
# Sets up what the tests need, then leaves the rest to `xtask test`: builds, lanes, limits, times (xtask/src/test.rs).
#
#   scripts/test.sh [--full] [STEP]...      default: all steps, in their short forms; --help lists them
set -u
"$(dirname "$0")/setup.sh" --programs || exit 1
. "$(dirname "$0")/env.sh"
# What it builds, and the volumes and flash files that are there at once.
free=$(df -Pk . | awk 'NR == 2 { print int($4 / 1048576) }')
[ "${free:-20}" -ge 20 ] || say "test: a whole run takes up to 20 GiB of disk, $free are free here: some tests may end with 'No space left on device'"
exec "$CARGO" run --quiet -p xtask -- test "$@"
