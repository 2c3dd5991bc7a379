#!/bin/sh
# Builds the library for C programs and the aquifer command: build/lib and build/bin.
#
#   scripts/build-lib.sh [OPTION OF cargo build]...
#
# AQUIFER_PROFILE: the profile of cargo [release]. quick has no optimisation across crates, and takes a third of the time.
set -eu
. "$(dirname "$0")/env.sh"
# Whoever needs one of these builds all of them: with another choice the crates that they share would be built again.
"$CARGO" build --profile "$PROFILE" -p aquifer-capi -p aquifer-preload -p aquifer-sqlite -p aquifer-cli "$@"
scripts/install-lib.sh "$ROOT/build/lib"
install -d "$ROOT/build/bin"
install -m 755 "$BUILT/aquifer" "$ROOT/build/bin/.aquifer.new"
mv -f "$ROOT/build/bin/.aquifer.new" "$ROOT/build/bin/aquifer"
