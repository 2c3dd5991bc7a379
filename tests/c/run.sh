#!/bin/sh
# Compiles every C test against build/lib and runs it. One result line each; exits
# with 1 if one failed.
#
#   tests/c/run.sh [NAME]...      NAME: as in "api", or header, symbols, static; default: all
#   tests/c/run.sh --list         the names
set -u
cd "$(dirname "$0")" || exit 1
root=$(cd ../.. && pwd)
lib=${AQUIFER_LIBDIR:-$root/build/lib}
out=$root/build/tests/c
cc=${CC:-cc}
flags='-std=c11 -D_GNU_SOURCE -O1 -g -Wall -Wextra -Werror -pthread'
names='header symbols static api objects blocks references batches hints pins classes limits pressure threads signals fork syscalls
    durable durable_files durable_objects durable_runs durable_maps volume volume_maps volume_served'
failed=0
# A test that hangs is ended after this; no test needs a tenth of it.
hang_s=900

# shellcheck disable=SC2086 # a list
[ $# -gt 0 ] || set -- $names
if [ "$1" = --list ]; then
    # shellcheck disable=SC2086
    printf '%s\n' $names
    exit 0
fi

mkdir -p "$out"
AQUIFER_TEST_DIR=$(mktemp -d "${TMPDIR:-/var/tmp}/aquifer-test.XXXXXX") || exit 1
# The command, for tests with a process that serves a volume.
AQUIFER=${AQUIFER:-$root/build/bin/aquifer}
export AQUIFER_TEST_DIR AQUIFER
trap 'rm -rf "$AQUIFER_TEST_DIR"' EXIT
trap 'exit 130' INT TERM

fail() {
    echo "FAIL $*"
    failed=1
}

# compile SOURCE OUTPUT LIBRARIES...
compile() {
    source=$1 output=$2
    shift 2
    # shellcheck disable=SC2086 # flags are a list
    "$cc" $flags -I"$root/include" "$source" -o "$output" "$@" -lm
}

# run NAME PROGRAM: shows its results; a signal or a hang is a failure of its own.
run() {
    status=0
    timeout -k 10 "$hang_s" "$2" || status=$?
    case $status in
        0) ;;
        1) failed=1 ;;
        124 | 137) fail "$1: hangs" ;;
        *) fail "$1: ended with status $status" ;;
    esac
}

header_alone() {
    if echo '#include <aquifer.h>' | "$cc" -std=c99 -Wall -Wextra -Wpedantic -Werror -I"$root/include" -fsyntax-only -x c -; then
        echo 'ok header: compiles as C99'
    else
        fail 'header: does not compile as C99'
    fi
    if ! command -v c++ >/dev/null; then
        echo 'SKIP header as C++: no C++ compiler (package g++)'
    elif echo '#include <aquifer.h>' | c++ -std=c++11 -Wall -Wextra -Wpedantic -Werror -I"$root/include" -fsyntax-only -x c++ -; then
        echo 'ok header: compiles as C++11'
    else
        fail 'header: does not compile as C++11'
    fi
}

# The static library, with the libraries that aquifer.pc names for it.
static_library() {
    private=$(sed -n 's/^Libs.private: //p' "$root/aquifer.pc.in")
    # shellcheck disable=SC2086
    if compile limits.c "$out/limits-static" "$lib/libaquifer.a" $private; then
        run 'limits.c (static)' "$out/limits-static"
    else
        fail 'static library: does not link'
    fi
}

shared_library() {
    if compile "$1.c" "$out/$1" -L"$lib" -Wl,-rpath,"$lib" -laquifer; then
        run "$1.c" "$out/$1"
    else
        fail "$1.c: does not compile"
    fi
}

for name in "$@"; do
    case $name in
        header) header_alone ;;
        symbols) ./symbols.sh "$lib/libaquifer.so" "$root/include/aquifer.h" "$root/debian/libaquifer0.symbols" || failed=1 ;;
        static) static_library ;;
        *) shared_library "$name" ;;
    esac
done
exit $failed
