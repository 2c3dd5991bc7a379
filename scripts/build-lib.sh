#!/bin/sh
# Builds the library for C programs and the aquifer command: build/lib and build/bin.
set -eu
. "$(dirname "$0")/env.sh"
"$CARGO" build --release -p aquifer-capi -p aquifer-preload -p aquifer-sqlite -p aquifer-cli
scripts/install-lib.sh "$ROOT/build/lib"
install -d "$ROOT/build/bin"
install -m 755 "$TARGET/release/aquifer" "$ROOT/build/bin/.aquifer.new"
mv -f "$ROOT/build/bin/.aquifer.new" "$ROOT/build/bin/aquifer"
