#!/bin/sh
# Takes over memory in each context in which a program may allocate, with the C library's malloc and with one of the program's own.
#
#   contexts.sh AQUIFER [CONTEXT]...
set -u
aquifer=$1
shift
here=$(cd "$(dirname "$0")" && pwd)
work=${AQUIFER_TEST_DIR:-$(mktemp -d)}
cc=${CC:-cc}
flags='-std=c11 -D_GNU_SOURCE -O1 -g -Wall -Wextra -Werror -pthread'
[ $# -gt 0 ] || set -- main key local small signal fork child stream exit once dlopen
export PLUGIN_DIR="$work"
failed=0

# shellcheck disable=SC2086 # flags are a list
"$cc" $flags "$here/contexts.c" -o "$work/libc" -ldl &&
    "$cc" $flags -fno-builtin -rdynamic "$here/contexts.c" "$here/eager.c" -o "$work/own" -ldl &&
    "$cc" $flags -DPLUGIN -shared -fPIC "$here/contexts.c" -o "$work/contexts.so" || {
    echo "FAIL preload contexts: does not compile"
    exit 1
}
for malloc in libc own; do
    for context in "$@"; do
        # A context takes a second; one that hangs is ended.
        timeout -k 5 60 "$aquifer" run --ram 16M --flash-size 512M --threshold 4K -- "$work/$malloc" "$context" \
            >"$work/out" 2>"$work/err"
        status=$?
        if [ $status -ne 0 ]; then
            echo "FAIL preload contexts: $context, malloc of $malloc: status $status $(tail -1 "$work/out") $(tail -1 "$work/err")"
            failed=1
        fi
    done
done
[ $failed -ne 0 ] || echo "ok preload contexts"
exit $failed
