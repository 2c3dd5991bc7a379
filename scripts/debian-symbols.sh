#!/bin/sh
# Writes debian/libaquifer0.symbols anew, of the library in build/lib: functions that are new get this version, those that are known
# keep theirs. A function that is gone is marked #MISSING# there; its line is removed by hand, with the decision to break programs.
set -eu
. "$(dirname "$0")/env.sh"
have dpkg-gensymbols || {
    say 'debian-symbols: dpkg-gensymbols is missing: apt-get install dpkg-dev' >&2
    exit 1
}
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
dpkg-gensymbols -c0 -plibaquifer0 -v"$version" -P"$tree" "-ebuild/lib/libaquifer.so.$version" "-Idebian/libaquifer0.symbols" \
    "-O$tree/symbols"
mv "$tree/symbols" debian/libaquifer0.symbols
chmod 644 debian/libaquifer0.symbols
git --no-pager diff --stat -- debian/libaquifer0.symbols
