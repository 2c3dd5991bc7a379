#!/bin/sh
# Builds the library for C programs and the aquifer command; the library goes to
# build/lib.
set -eu
. "$(dirname "$0")/env.sh"
"$CARGO" build --release -p aquifer-capi -p aquifer-cli
scripts/install-lib.sh "$ROOT/build/lib"
