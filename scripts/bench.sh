#!/bin/sh
# The benchmarks with their peers side by side, then tables and plots of the run, in
# target/bench. Peers that cannot run here (kernel swap needs root; memkind and fio
# their packages) are skipped with the reason.
#
#   scripts/bench.sh [OPTION OF aquifer-bench all]...
set -eu
"$(dirname "$0")/setup.sh"
. "$(dirname "$0")/env.sh"
scripts/build-lib.sh
export AQUIFER_LIB="$ROOT/build/lib/libaquifer.so"
exec "$CARGO" run --release -p aquifer-bench -- all "$@"
