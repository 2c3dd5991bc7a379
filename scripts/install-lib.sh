#!/bin/sh
# Copies the library that cargo has built into a directory, under the names that
# linkers look for.
#
#   scripts/install-lib.sh DIRECTORY
set -eu
directory=$(mkdir -p "${1:?directory missing}" && cd "$1" && pwd)
. "$(dirname "$0")/env.sh"
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
soname=libaquifer.so.${version%%.*}

# Replaces in one step, so that a running program keeps its old library.
put() {
    install -m "$1" "$2" "$directory/.$3.new"
    mv -f "$directory/.$3.new" "$directory/$3"
}

put 755 "$BUILT/libaquifer_c.so" "libaquifer.so.$version"
put 644 "$BUILT/libaquifer_c.a" libaquifer.a
put 755 "$BUILT/libaquifer_preload.so" libaquifer_preload.so
put 755 "$BUILT/libaquifer_sqlite.so" libaquifer_sqlite.so
ln -sf "libaquifer.so.$version" "$directory/$soname"
ln -sf "$soname" "$directory/libaquifer.so"
