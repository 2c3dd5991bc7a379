#!/bin/sh
# The kernel refuses the n-th call of the library, once or from then on, for growing n until a run passes without a refusal: every
# run ends, with the right bytes, with memory that is refused, or killed after a line that says why.
#
#   refusals.sh AQUIFER [full]      full: n grows by 1 in 40 instead of 1 in 2
set -u
aquifer=$1
part=2
[ "${2:-}" = full ] && part=40
here=$(cd "$(dirname "$0")" && pwd)
work=${AQUIFER_TEST_DIR:-$(mktemp -d)}
cc=${CC:-cc}
flags='-std=c11 -D_GNU_SOURCE -O1 -g -Wall -Wextra -Werror'
failed=0
runs=0

if [ "$(uname -m)" != x86_64 ]; then
    echo 'skip preload refusals: refuse.c makes system calls of x86_64'
    exit 0
fi
# shellcheck disable=SC2086 # flags are a list
if ! "$cc" $flags -shared -fPIC "$here/refuse.c" -o "$work/refuse.so" ||
    ! "$cc" $flags "$here/refused.c" -o "$work/refused"; then
    echo 'FAIL preload refusals: does not compile'
    exit 1
fi

# run N[+]: one run; its status.
run() {
    # A run takes a second; one that hangs is ended.
    # shellcheck disable=SC2016 # for the shell that becomes the program
    timeout -k 5 60 "$aquifer" run --ram 16M --flash "$work" --flash-size 512M -- \
        sh -c 'LD_PRELOAD=$1/refuse.so:$LD_PRELOAD REFUSE=$2 REFUSE_COUNT=$1/count exec "$1/refused"' sh "$work" "$1" \
        >"$work/out" 2>"$work/err"
}

# Whether a run with this status ended as it should.
is_right() {
    case $1 in
        0 | 4) return 0 ;;
        134 | 135) grep -q '^aquifer: ' "$work/err" ;;
        *) return 1 ;;
    esac
}

n=1
calls=1
while [ "$n" -le "$calls" ]; do
    for asked in "$n" "$n+"; do
        rm -f "$work/count"
        run "$asked"
        status=$?
        runs=$((runs + 1))
        if ! is_right $status; then
            echo "FAIL preload refusals: call $asked refused: status $status, $(tail -1 "$work/out") $(tail -1 "$work/err")"
            failed=1
        fi
        # One that went on to its end says how many calls there are.
        if [ $status -eq 0 ] && [ -s "$work/count" ]; then
            counted=$(cat "$work/count")
            [ "$counted" -le "$calls" ] || calls=$counted
        elif [ "$calls" -le "$n" ]; then
            calls=$((n + 1 + n / part))
        fi
    done
    n=$((n + 1 + n / part))
done
rm -rf "$work/refuse.so" "$work/refused"
[ $failed -ne 0 ] || echo "ok preload refusals: $runs runs, up to call $calls"
exit $failed
