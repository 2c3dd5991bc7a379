#!/bin/sh
# Compiles every C program here and runs it natively and under `aquifer run`; both must print the same. One line each;
# exits with 1 if one failed.
#
#   tests/preload/run.sh [NAME]...      NAME: as in "files"; default: all
#   tests/preload/run.sh --list         the names
#   AQUIFER=PATH    the aquifer command, with its library beside it or in ../lib
set -u
cd "$(dirname "$0")" || exit 1
root=$(cd ../.. && pwd)
cc=${CC:-cc}
flags='-std=c11 -D_GNU_SOURCE -O1 -g -Wall -Wextra -Werror -pthread'
names='command profile files pipes messages streams polling arguments paths fortify blocks mappings protection reserve locks signals masks
    sigbus cancel fork snapshot torn descriptors spawn raw_calls waiters later own_malloc cannot loading lookup ending forgetful takeover huge small sharing closed numbers contexts outside refusals swapped shrinks swapoff flash kills neighbours reach cures contained storm stress'
contained_names='blocks files pipes streams mappings protection reserve signals sigbus fork snapshot'
if [ "${1:-}" = --list ]; then
    # shellcheck disable=SC2086 # a list
    printf '%s\n' $names
    exit 0
fi
# A test that hangs is ended after this; beside other work the longest needs a sixth of it.
hang_s=300
failed=0
# What the blocks of a test need to be managed.
threshold='--threshold 4K'

if [ -z "${AQUIFER:-}" ]; then
    for AQUIFER in "$root/build/bin/aquifer" "$root/target/release/aquifer"; do
        [ -x "$AQUIFER" ] && break
    done
fi
dir=$(mktemp -d "${TMPDIR:-/var/tmp}/aquifer-preload.XXXXXX") || exit 1
trap 'rm -rf "$dir"' EXIT
trap 'exit 130' INT TERM
export AQUIFER_TEST_DIR="$dir/work"

# What runs all that is managed: nothing, or a launcher that takes away what containers do.
within=

fail() {
    echo "FAIL preload ${within:+contained }$*"
    failed=1
}

# managed PROGRAM...: runs it with 16 MiB of RAM.
managed() {
    # shellcheck disable=SC2086 # some words or none
    timeout -k 5 "$hang_s" $within "$AQUIFER" run --ram 16M --flash-size 512M $threshold ${AQUIFER_RUN_OPTIONS:-} "$@"
}

# What every process of the test's directory waits for, to standard output; for a test that hangs.
tell_threads() {
    for task in /proc/[0-9]*/task/*; do
        case $(readlink "$task/exe") in
            "$dir"/*) ;;
            *) continue ;;
        esac
        echo "$task: $(cat "$task/comm" "$task/wchan" "$task/syscall" 2>/dev/null | tr '\n' ' ')"
        cat "$task/stack" 2>/dev/null
    done
}

# watched COMMAND...: tells of threads, into a file, shortly before the command is ended.
watched() {
    {
        sleeper=
        trap 'kill $sleeper; exit' TERM
        sleep $((hang_s - 5)) &
        sleeper=$!
        wait $sleeper && tell_threads >"$dir/threads"
    } >/dev/null 2>&1 &
    watcher=$!
    "$@"
    ended=$?
    kill "$watcher" 2>/dev/null
    wait "$watcher" 2>/dev/null
    return "$ended"
}

# afresh COMMAND...: runs it with an empty directory for its files.
afresh() {
    rm -rf "$AQUIFER_TEST_DIR"
    mkdir -m 777 "$AQUIFER_TEST_DIR"
    "$@"
}

# test_contained: programs of other tests, as a container would run them, where the kernel has no userfaultfd for them.
test_contained() {
    compile contained || { fail "contained: does not compile: $(grep -m1 error "$dir/contained.cc")"; return; }
    # That user may not look into the folder where this lies.
    chmod 755 "$dir"
    mkdir -p "$dir/bin" "$dir/lib"
    cp "$AQUIFER" "$dir/bin/aquifer"
    beside=$(dirname "$AQUIFER")
    cp "$beside/libaquifer_preload.so" "$dir/lib" 2>/dev/null || cp "$beside/../lib/libaquifer_preload.so" "$dir/lib"
    outside=$AQUIFER
    AQUIFER=$dir/bin/aquifer
    within=$dir/contained
    if ! managed -- true 2>"$dir/why"; then
        echo "skip preload contained: $(head -1 "$dir/why")"
        within=
        AQUIFER=$outside
        return
    fi
    # shellcheck disable=SC2086 # a list
    for name in $contained_names; do
        test_program "$name"
    done
    within=
    AQUIFER=$outside
}

compile() {
    more=
    [ "$1" = fortify ] && more='-O2 -D_FORTIFY_SOURCE=2'
    # shellcheck disable=SC2086 # flags are lists
    "$cc" $flags $more "$1.c" -o "$dir/$1" -ldl 2>"$dir/$1.cc" &&
        case $1 in
            loading | lookup) "$cc" $flags -shared -fPIC plugin.c -o "$dir/plugin.so" 2>"$dir/$1.cc" ;;
        esac
}

# test_program NAME
test_program() {
    case $1 in
        small) threshold='' ;;
        sharing) threshold='--threshold 1' ;;
        *) threshold="--threshold ${AQUIFER_THRESHOLD:-4K}" ;;
    esac
    compile "$1" || { fail "$1: does not compile: $(grep -m1 error "$dir/$1.cc")"; return; }
    afresh timeout -k 5 "$hang_s" "$dir/$1" >"$dir/native" 2>"$dir/native.err"
    native=$?
    watched afresh managed -- "$dir/$1" >"$dir/managed" 2>"$dir/managed.err"
    status=$?
    if [ $native -ne 0 ]; then
        fail "$1: natively: status $native, $(grep -m1 FAIL "$dir/native" || tail -1 "$dir/native.err")"
    elif [ $status -eq 124 ] || [ $status -eq 137 ]; then
        fail "$1: hangs after '$(tail -1 "$dir/managed")'"
        sed 's/^/    /' "$dir/threads"
    elif [ $status -ne 0 ]; then
        fail "$1: status $status, $(grep -m1 FAIL "$dir/managed" || tail -1 "$dir/managed.err")"
    elif ! cmp -s "$dir/native" "$dir/managed"; then
        fail "$1: prints something else: $(diff "$dir/native" "$dir/managed" | sed -n 2p)"
    else
        echo "ok preload ${within:+contained }$1"
    fi
    if [ -n "${SHOW:-}" ]; then
        sed 's/^/    /' "$dir/managed" "$dir/managed.err"
    fi
}

if [ ! -x "$AQUIFER" ]; then
    fail "there is no $AQUIFER; build it, or set AQUIFER"
    exit 1
fi
if ! managed -- true 2>"$dir/why"; then
    echo "skip preload: $(head -1 "$dir/why")"
    exit 0
fi
if [ $# -eq 0 ]; then
    # shellcheck disable=SC2086 # a list
    set -- $names
fi
for name in "$@"; do
    case $name in
        storm)
            # Two thousand seeds take an hour.
            # shellcheck disable=SC2046 # two words
            afresh ./storm.sh "$AQUIFER" $([ -n "${AQUIFER_LONG:-}" ] && echo 1 2000 || echo 1 60s) || failed=1
            ;;
        reach | cures)
            # Other users look into the folder where this lies.
            chmod 755 "$dir"
            afresh "./$name.sh" "$AQUIFER" || failed=1
            ;;
        command | profile | contexts | outside | swapped | cannot) afresh "./$name.sh" "$AQUIFER" || failed=1 ;;
        shrinks | swapoff | flash | kills | neighbours) afresh ./machine.sh "$AQUIFER" "$name" || failed=1 ;;
        refusals) afresh ./refusals.sh "$AQUIFER" ${AQUIFER_LONG:+full} || failed=1 ;;
        contained) test_contained ;;
        *) test_program "$name" ;;
    esac
done
exit $failed
