#!/bin/sh
# Builds memcached twice from the source package of Debian or Ubuntu: as it is, and
# with aquifer.patch on the heap of Aquifer, with the same flags.
#
#   examples/memcached/build.sh [DIR]       default: build/examples/memcached
#
# DIR gets memcached-plain and memcached-aquifer. The source is fetched once, into
# DIR/source; apt checks its signature, and keeps its lists in DIR/apt: nothing outside
# of DIR changes, and no root is needed.
#
# AQUIFER_CFLAGS and AQUIFER_LIBS say where the library is; default: the build tree.
# MEMCACHED_SOURCES: lines of a sources.list in place of those below, for a mirror.
#
# Exits with 77 if this machine cannot build it (a package or the network is missing).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
out=${1:-$root/build/examples/memcached}
mkdir -p "$out"
out=$(cd "$out" && pwd)
cflags=${AQUIFER_CFLAGS:--I$root/include}
libs=${AQUIFER_LIBS:--L$root/build/lib -Wl,-rpath,$root/build/lib -laquifer}

# The patch has no lines of context, so that these must be the files it was made for
# wherever it only adds lines: 1.6.18 of Debian 12, 1.6.24 of Ubuntu 24.04.
known='
0d3002f41a137160ef708ab214a62646848094dba39a1c250f7dec19f52134b9  slabs.c
68e0c998af20a625a2b1af7495a75c21980f14bb74cd131f9a17a82293767a17  slabs.c
b683d7c6b61e50501eb3cbd2d74f1102668c89a5e744b8adc8ed66146f77bd52  assoc.c'

say() {
    printf 'memcached: %s\n' "$*" >&2
}

cannot() {
    say "$*"
    exit 77
}

die() {
    say "$*"
    exit 1
}

# logged NAME COMMAND...: shows what the command says only if it fails.
logged() {
    log=$out/$1.log
    shift
    "$@" >"$log" 2>&1 && return
    tail -n 20 "$log" | sed 's/^/    /' >&2
    return 1
}

compiles() {
    printf '#include <%s>\nint main(void) { return 0; }\n' "$1" | ${CC:-cc} -x c -o /dev/null - 2>/dev/null
}

check_packages() {
    missing=''
    compiles stdio.h || missing="$missing build-essential"
    command -v make >/dev/null || missing="$missing make"
    command -v dpkg-source >/dev/null || missing="$missing dpkg-dev"
    compiles event.h || missing="$missing libevent-dev"
    [ -z "$missing" ] || cannot "missing packages; install them with: sudo apt-get install$missing"
}

check_library() {
    # shellcheck disable=SC2086 # lists of flags
    printf '#include <aquifer.h>\nint main(void) { return aq_version() == 0; }\n' |
        ${CC:-cc} -x c -o /dev/null $cflags - $libs 2>/dev/null ||
        die 'no library of Aquifer: run 'make lib' in the source folder, or set AQUIFER_CFLAGS and AQUIFER_LIBS'
}

# ---- Source ---------------------------------------------------------------

source_lines() {
    . /etc/os-release
    case "$ID ${ID_LIKE:-}" in
        ubuntu* | *' ubuntu'*)
            for suite in noble noble-updates noble-security; do
                echo "deb-src [signed-by=/usr/share/keyrings/ubuntu-archive-keyring.gpg] http://archive.ubuntu.com/ubuntu $suite main"
            done
            ;;
        *debian*)
            signed='[signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]'
            echo "deb-src $signed http://deb.debian.org/debian bookworm main"
            echo "deb-src $signed http://deb.debian.org/debian-security bookworm-security main"
            ;;
    esac
}

# apt-get with lists of its own.
apt_get() {
    apt-get -q -o Dir::Etc::SourceList="$out/apt/sources.list" -o Dir::Etc::SourceParts=/dev/null \
        -o Dir::State::Lists="$out/apt/lists" -o Dir::Cache="$out/apt/cache" -o APT::Sandbox::User="$(id -un)" \
        -o Acquire::Retries=1 -o Acquire::http::Timeout=20 "$@"
}

download() (
    apt_get update && cd "$out/download" && apt_get source --only-source --download-only memcached
)

fetch_source() {
    [ ! -d "$out/source" ] || return 0
    command -v apt-get >/dev/null || cannot 'the source package is fetched by apt-get, which is not here'
    lines=${MEMCACHED_SOURCES:-$(source_lines)}
    [ -n "$lines" ] || cannot 'this is neither Debian nor Ubuntu; set MEMCACHED_SOURCES'
    rm -rf "$out/apt" "$out/download"
    mkdir -p "$out/apt/lists/partial" "$out/apt/cache/archives/partial" "$out/download"
    printf '%s\n' "$lines" >"$out/apt/sources.list"
    say 'fetching the source package'
    logged download download || cannot 'the source package cannot be fetched (offline?)'
    set -- "$out"/download/memcached_*.dsc
    [ -f "$1" ] || cannot 'the source package cannot be fetched (offline?)'
    logged unpack dpkg-source -x "$1" "$out/download/tree" || die "$1 cannot be unpacked"
    mv "$out/download/tree" "$out/source"
    rm -rf "$out/apt" "$out/download"
}

check_source() {
    for file in slabs.c assoc.c; do
        sum=$(sha256sum <"$out/source/$file")
        case $known in
            *"${sum%% *}  $file"*) ;;
            *) cannot "$file of this memcached is not one that aquifer.patch was made for" ;;
        esac
    done
}

# ---- Build ----------------------------------------------------------------

# build NAME CPPFLAGS LIBS [PATCH]: out/NAME is the tree, out/memcached-NAME the program. The timestamps of
# a patched tree must not make it want autoconf and automake.
build() {
    name=$1
    say "building memcached-$name"
    rm -rf "${out:?}/$name" "$out/memcached-$name"
    cp -a "$out/source" "$out/$name"
    cd "$out/$name"
    [ -z "${4:-}" ] || logged patch patch -p1 -F0 -i "$4" || die "$4 does not fit"
    logged "$name" ./configure --disable-docs --disable-extstore CPPFLAGS="$2" LIBS="$3" || die "configure of $name failed"
    logged "$name" make memcached ACLOCAL=: AUTOCONF=: AUTOHEADER=: AUTOMAKE=: || die "make of $name failed"
    cp memcached "$out/memcached-$name"
    cd "$out"
}

check_packages
check_library
fetch_source
check_source
made_of=$(printf '%s\n' "$cflags" "$libs" "${CFLAGS:-}" | cat - "$here/aquifer.patch" "$here/build.sh" | sha256sum)
if [ "$(cat "$out/made-of" 2>/dev/null)" != "$made_of" ] || [ ! -x "$out/memcached-plain" ] ||
    [ ! -x "$out/memcached-aquifer" ]; then
    rm -f "$out/made-of"
    build plain '' ''
    build aquifer "$cflags" "$libs" "$here/aquifer.patch"
    echo "$made_of" >"$out/made-of"
fi
say "$("$out/memcached-aquifer" -V), plain and on the heap: $out"
