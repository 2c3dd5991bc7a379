#!/bin/sh
# Installs into a folder of its own and builds the manual's first program against
# that, with the shared and the static library. One result line each.
set -u
cd "$(dirname "$0")/.." || exit 1
work=$(mktemp -d "${TMPDIR:-/var/tmp}/aquifer-install.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
prefix=$work/prefix
failed=0

# run NAME COMMAND...: passes if the command does; shows its output if it fails.
run() {
    name=$1
    shift
    if "$@" >"$work/output" 2>&1; then
        echo "ok install: $name"
    else
        echo "FAIL install: $name (exit $?): $*"
        sed 's/^/    /' "$work/output"
        failed=1
    fi
}

cat >"$work/program.c" <<'END'
#include <aquifer.h>
#include <stdio.h>
#include <string.h>

int main(void)
{
    char *text = aq_malloc(100);
    if (!text) {
        puts(aq_error_message());
        return 1;
    }
    strcpy(text, "hello");
    return strcmp(text, "hello") != 0 || aq_free(text) != AQ_OK || aq_shutdown() != AQ_OK;
}
END

# The flags of the installed package, as a user gets them.
flags() {
    PKG_CONFIG_PATH=$prefix/lib/pkgconfig pkg-config "$@" aquifer
}

shared() {
    # shellcheck disable=SC2046 # flags are a list
    cc "$work/program.c" $(flags --cflags --libs) -o "$work/shared" && LD_LIBRARY_PATH=$prefix/lib "$work/shared"
}

static() {
    private=$(sed -n 's/^Libs.private: //p' "$prefix/lib/pkgconfig/aquifer.pc")
    # shellcheck disable=SC2046,SC2086
    cc "$work/program.c" $(flags --cflags) "$prefix/lib/libaquifer.a" $private -o "$work/static" && "$work/static"
}

manual_pages() {
    [ -s "$prefix/share/man/man3/aquifer.3" ] && [ -s "$prefix/share/man/man1/aquifer.1" ] &&
        { ! command -v groff || [ -z "$(groff -man -ww -z man/*.1 man/aquifer.3 2>&1)" ]; }
}

same_version() {
    version=$(flags --modversion)
    [ "$("$prefix/bin/aquifer" --version)" = "aquifer $version" ] && ! grep -q @ "$prefix/lib/pkgconfig/aquifer.pc"
}

export AQUIFER_FLASH="$work" AQUIFER_FLASH_SIZE=256M AQUIFER_RAM=16M
run 'into a folder' scripts/install.sh '' "$prefix"
run 'a program links with the shared library' shared
run 'a program links with the static library' static
run 'manual pages' manual_pages
run 'command and library have the same version' same_version
run 'for a package' scripts/install.sh "$work/stage" /usr
run 'a package has its final paths' grep -qx 'prefix=/usr' "$work/stage/usr/lib/pkgconfig/aquifer.pc"
# Where Debian has libraries, and those that the command loads apart from them.
multiarch() {
    root=$work/multiarch/usr
    scripts/install.sh "$work/multiarch" /usr lib/some-linux-gnu lib/aquifer && [ -f "$root/lib/some-linux-gnu/libaquifer.so.0" ] &&
        grep -qxF 'libdir=${prefix}/lib/some-linux-gnu' "$root/lib/some-linux-gnu/pkgconfig/aquifer.pc" &&
        grep -qF 'CMAKE_CURRENT_LIST_DIR}/../../../.."' "$root/lib/some-linux-gnu/cmake/aquifer/aquifer-config.cmake" &&
        "$root/bin/aquifer" version | grep -F "$root/lib/aquifer/libaquifer_preload.so"
}
run 'libraries in a folder of this kind of machine' multiarch
exit $failed
