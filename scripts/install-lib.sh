#!/bin/sh
# Copies libraries that cargo has built into a directory, under the names that
# linkers look for.
#
#   scripts/install-lib.sh DIRECTORY [c] [preload] [sqlite] [nbdkit]
#
# Default: all of them. AQUIFER_PROFILE, AQUIFER_BUILT: as for scripts/build-lib.sh.
set -eu
directory=$(mkdir -p "${1:?directory missing}" && cd "$1" && pwd)
shift
. "$(dirname "$0")/env.sh"
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
soname=libaquifer.so.${version%%.*}

# Replaces in one step, so that a running program keeps its old library.
put() {
    install -m "$1" "$BUILT/$2" "$directory/.$3.new"
    mv -f "$directory/.$3.new" "$directory/$3"
}

[ $# -gt 0 ] || set -- c preload sqlite nbdkit
for library in "$@"; do
    case $library in
        c)
            put 755 libaquifer_c.so "libaquifer.so.$version"
            put 644 libaquifer_c.a libaquifer.a
            ln -sf "libaquifer.so.$version" "$directory/$soname"
            ln -sf "$soname" "$directory/libaquifer.so"
            ;;
        *) put 755 "libaquifer_$library.so" "libaquifer_$library.so" ;;
    esac
done
