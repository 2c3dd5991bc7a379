#!/bin/sh
# Builds the library for C programs and the aquifer command: build/lib and build/bin.
#
#   scripts/build-lib.sh [OPTION OF cargo build]...
#
# AQUIFER_PROFILE: the profile of cargo [release]. AQUIFER_BUILT: a folder with all of it, built before; nothing is built then.
set -eu
. "$(dirname "$0")/env.sh"
# Whoever needs one of these builds all of them: with another choice the crates that they share would be built again.
[ -n "${AQUIFER_BUILT:-}" ] ||
    "$CARGO" build --profile "$PROFILE" -p aquifer-capi -p aquifer-preload -p aquifer-sqlite -p aquifer-nbdkit -p aquifer-cli "$@"
scripts/install-lib.sh "$ROOT/build/lib"
install -d "$ROOT/build/bin"
install -m 755 "$BUILT/aquifer" "$ROOT/build/bin/.aquifer.new"
mv -f "$ROOT/build/bin/.aquifer.new" "$ROOT/build/bin/aquifer"
