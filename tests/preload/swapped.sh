#!/bin/sh
# Takes over memory of which the kernel has swapped a part: the budget is larger than the RAM of the program's cgroup.
#
#   swapped.sh AQUIFER      the aquifer command
set -u
aquifer=$1
here=$(cd "$(dirname "$0")" && pwd)
work=${AQUIFER_TEST_DIR:?}
# shellcheck source=examples/limits.sh
. "$here/../../examples/limits.sh"

skip() {
    echo "skip preload swapped: $why"
    exit 0
}

cleanup() {
    rm -f "$work/running"
    wait
    remove_swap
    remove_group
}
trap cleanup EXIT
trap 'exit 130' INT TERM

may_swap || skip
"${CC:-cc}" -std=c11 -D_GNU_SOURCE -O1 -Wall -Wextra -Werror "$here/swapped.c" -o "$work/swapped" || exit 1
make_swap $((512 << 20)) || skip
make_group $((48 << 20)) yes || skip
failed=0
# The kernel would kill a program now and then that it could swap.
: >"$work/running"
keep_statistics_fresh &
for ram in 64M 96M; do
    for attempt in 1 2 3 4 5; do
        kills=$(group_kills)
        # The shell that becomes the program is in the group; this one is not.
        timeout -k 5 250 sh -c 'echo $$ >"$1/cgroup.procs" && shift && exec "$@"' sh "$cgroup" \
            "$aquifer" run --ram "$ram" --flash-size 1G -- "$work/swapped" 130 >"$work/out" 2>"$work/err"
        status=$?
        # Killed by the kernel for want of RAM, which it could have swapped: that tells nothing of us.
        [ $status -eq 137 ] && [ "$(group_kills)" != "$kills" ] || break
    done
    if [ "$attempt" -gt 1 ]; then
        echo "    --ram $ram: attempt $attempt, as the kernel had killed the others"
    fi
    if [ $status -ne 0 ]; then
        echo "FAIL preload swapped: --ram $ram: status $status: $(tail -1 "$work/out") $(tail -1 "$work/err")"
        failed=1
    fi
done
[ $failed -ne 0 ] || echo "ok preload swapped"
exit $failed
