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
exec "$CARGO" run --quiet -p xtask -- test "$@"
