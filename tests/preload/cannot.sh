#!/bin/sh
# Runs what cannot work on managed memory, and holds the table of docs/reference/preload.md against what came of it.
#
#   cannot.sh AQUIFER [--table]     --table prints the table instead
# shellcheck disable=SC2016 # backquotes are those of the table
set -u
aquifer=$1
here=$(cd "$(dirname "$0")" && pwd)
document=$here/../../docs/reference/preload.md
work=${AQUIFER_TEST_DIR:?}
export AQUIFER_TEST_DIR="$work"
flags='-std=c11 -D_GNU_SOURCE -O1 -Wall -Wextra -Werror -pthread'

if [ "$(uname -m)" != x86_64 ]; then
    echo 'skip preload cannot: the table is that of x86-64'
    exit 0
fi
# shellcheck disable=SC2086 # flags are a list
"${CC:-cc}" $flags "$here/cannot.c" -o "$work/cannot" || exit 1

# ran PROGRAM CASE: what came of it under aquifer run, with whether a line was said.
ran() {
    timeout -k 5 60 "$aquifer" run --ram 16M --flash-size 512M --threshold 4K -- "$@" >"$work/out" 2>"$work/err"
    status=$?
    if [ $status -ge 125 ] && [ $status -le 127 ] && [ ! -s "$work/out" ] && grep -q '^aquifer: ' "$work/err"; then
        echo 'refused at start, with the reason'
        return
    fi
    case $status in
        0) word=$(cat "$work/out") ;;
        139) word=SIGSEGV ;;
        *) word="status $status" ;;
    esac
    case $word in
        works) word=works ;;
        SIGSEGV) word='killed by `SIGSEGV`' ;;
        *) word="\`$word\`" ;;
    esac
    ! grep -q '^aquifer: ' "$work/err" || word="$word, and a line that says so"
    echo "$word"
}

# row PROGRAM CASE WHAT [REMARK]
row() {
    native=$("$1" "$2" 2>&1)
    case $native in
        works) echo "| $3 | $(ran "$1" "$2")${4:+; $4} |" ;;
        # A kernel or a container that refuses it: the table cannot be held against anything.
        *) grep -F "| $3 |" "$document" || echo "| $3 | natively: $native |" ;;
    esac
}

table() {
    echo '| program | what happens |'
    echo '|---|---|'
    # shellcheck disable=SC2086 # flags are a list
    "${CC:-cc}" $flags -static "$here/cannot.c" -o "$work/static" 2>/dev/null &&
        row "$work/static" start 'statically linked; so are Go and programs of another C library'
    cp "$work/cannot" "$work/setuid" && chmod u+s "$work/setuid" && row "$work/setuid" start 'set-user-ID or set-group-ID'
    row "$work/cannot" ring 'io_uring' 'programs take another way, as in containers, which refuse it too; `--faults thread` serves them'
    row "$work/cannot" own-ring 'an io_uring that an instruction of its own has set up before the program exceeds its RAM' '`--faults thread` serves it'
    row "$work/cannot" aio "the kernel's aio (libaio)" 'the same'
    row "$work/cannot" peer 'memory that another process reads (`process_vm_readv`, debuggers), where it is not in RAM' '`--faults thread` helps'
    row "$work/cannot" coroutine 'coroutines whose stacks lie in managed memory (blocks of `malloc`, or `mmap` without `MAP_STACK`), where a page of it is absent' \
        'not with an alternate stack (`sigaltstack`) in the thread; raise `--threshold` above the size of a stack'
    row "$work/cannot" stack 'thread stacks in managed memory (`pthread_attr_setstack`)'
    row "$work/cannot" protected 'much memory that may only be read (`mprotect` of more than a quarter of `--ram`)' 'such pages stay in RAM; those of `PROT_NONE` need none'
    row "$work/cannot" remap '`MREMAP_FIXED`, `MREMAP_DONTUNMAP`'
    row "$work/cannot" wipe '`MADV_WIPEONFORK` and other advice that changes contents'
    row "$work/cannot" lock '`mlock`' 'mlockall does not hold managed memory'
}

table >"$work/table"
if [ "${2:-}" = --table ]; then
    cat "$work/table"
    exit 0
fi
sed -n '/<!-- made by tests.preload.cannot.sh -->/,/^$/p' "$document" | grep '^|' >"$work/told"
if diff "$work/told" "$work/table" >"$work/diff"; then
    echo "ok preload cannot, $(($(wc -l <"$work/table") - 2)) rows"
else
    echo "FAIL preload cannot: docs/reference/preload.md tells something else; 'AQUIFER_TEST_DIR=DIR tests/preload/cannot.sh AQUIFER --table' makes the table"
    sed 's/^/    /' "$work/diff"
    exit 1
fi
