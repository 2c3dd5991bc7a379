#!/bin/sh
# What happens to a machine while a program runs on managed memory: its cgroup shrinks, swap is switched off, flash fills up, fails or is removed, the program
# is killed while its memory becomes managed. Every run ends with the right bytes, with memory that is refused, or after one line that says why.
#
#   machine.sh AQUIFER shrinks|swapoff|flash|kills|neighbours      the aquifer command
set -u
aquifer=$1
part=$2
here=$(cd "$(dirname "$0")" && pwd)
work=${AQUIFER_TEST_DIR:?}
failed=0 program=''
# shellcheck source=examples/limits.sh
. "$here/../../examples/limits.sh"

skip() {
    echo "skip preload $part: $why"
    exit 0
}

fail() {
    echo "FAIL preload $part: $*: $(tail -1 "$work/out") $(tail -1 "$work/err")"
    failed=1
}

cleanup() {
    rm -f "$work/running" "$work/beside"
    [ -z "$program" ] || kill -KILL "$program" 2>/dev/null
    wait
    [ -z "${loop:-}" ] || losetup -d "$loop"
    [ -z "${mounted:-}" ] || umount "$mounted"
    remove_swap
    remove_group
}
trap cleanup EXIT
trap 'exit 130' INT TERM

"${CC:-cc}" -std=c11 -D_GNU_SOURCE -O1 -Wall -Wextra -Werror "$here/steady.c" -o "$work/steady" || exit 1

# start MIB SECONDS OPTION...: the program in the background, in the group if there is one; $program is its number. It says that its blocks are filled
# by the file "filled".
start() {
    rm -f "$work/filled" "$work/out" "$work/err"
    # shellcheck disable=SC2016 # for the shell that becomes the program
    start_mib=$1 start_s=$2
    shift 2
    sh -c '[ -z "$1" ] || echo $$ >"$1/cgroup.procs"; shift; exec "$@"' sh "$cgroup" \
        "$aquifer" run "$@" -- "$work/steady" "$start_mib" "$start_s" "$work/filled" >"$work/out" 2>"$work/err" &
    program=$!
    began=$(date +%s)
}

is_running() {
    kill -0 "$program" 2>/dev/null
}

# Until the blocks are filled.
wait_filled() {
    while is_running && [ ! -e "$work/filled" ] && [ $(($(date +%s) - began)) -lt 60 ]; do
        sleep 0.1
    done
}

# Ends the program's rounds; its status. One that does not end within a minute hangs.
finish() {
    wait_filled
    rm -f "$work/filled"
    began=$(date +%s)
    while is_running && [ $(($(date +%s) - began)) -lt 60 ]; do
        sleep 0.1
    done
    if is_running; then
        cat "/proc/$program/task/"*/wchan 2>/dev/null
        kill -KILL "$program"
        wait "$program" 2>/dev/null
        program='' status=hangs
    else
        wait "$program"
        status=$?
        program=''
    fi
}

# ends_well WHAT [STATUS...]: right bytes, or one of these after a line that says why.
ends_well() {
    what=$1
    shift
    [ "$status" != 0 ] || grep -q '^right$' "$work/out" || status=silent
    for allowed in 0 "$@"; do
        if [ "$status" = "$allowed" ]; then
            [ "$status" = 0 ] || grep -q '^aquifer: ' "$work/err" || { fail "$what: status $status without a reason"; return; }
            # One thing is said once.
            [ "$(grep -c '^aquifer: ' "$work/err")" -le 2 ] || fail "$what: $(grep -c '^aquifer: ' "$work/err") lines"
            return
        fi
    done
    fail "$what: status $status"
}

# in_a_group BYTES FUNCTION: in a group with swap, again while the kernel kills the program: now and then it does although it could swap, which tells
# nothing of us.
in_a_group() {
    may_swap || skip
    for attempt in 1 2 3 4 5; do
        make_swap $((512 << 20)) || skip
        make_group "$1" yes || skip
        : >"$work/running"
        keep_statistics_fresh &
        fresh=$!
        "$2"
        kills=$(group_kills)
        rm -f "$work/running"
        wait "$fresh"
        remove_swap
        remove_group
        [ "$status" = 137 ] && [ "$kills" != 0 ] || break
        echo "    attempt $attempt: killed by the kernel"
    done
}

# The limit goes below the budget, and the kernel swaps what the heap holds.
shrinks() {
    start 130 5 --ram 64M --flash "$work" --flash-size 1G
    wait_filled
    for mib in 96 80 64 48 40; do
        echo $((mib << 20)) 2>/dev/null >"$(group_file limit)"
        sleep 1
    done
    limit=$(cat "$(group_file limit)")
    finish
    [ "$limit" -lt $((64 << 20)) ] || { why='the kernel does not take the RAM away'; skip; }
}

# Swap ends while it holds a part of what the heap has in RAM.
swapoff_meanwhile() {
    start 130 5 --ram 64M --flash "$work" --flash-size 1G
    wait_filled
    echo $((256 << 20)) >"$(group_file limit)"
    why=''
    if ! awk -v file="$work/swap" '$1 == file && $4 > 0 { used = 1 } END { exit !used }' /proc/swaps; then
        why='nothing was swapped'
    elif swapoff "$work/swap"; then
        swap_on=''
    else
        why='swap cannot be switched off'
    fi
    finish
    # Of a program that the kernel has killed, nothing is in swap.
    [ -z "$why" ] || [ "$status" = 137 ] || skip
}

# A file system of so many bytes, in $mounted.
small() {
    mkdir -p "$work/small"
    mount -t tmpfs -o "size=$1" tmpfs "$work/small" 2>/dev/null || { why='no tmpfs can be mounted'; skip; }
    mounted=$work/small
}

flash() {
    # What else is there takes its room.
    small 300m
    start 130 2 --ram 16M --flash "$mounted" --flash-size 256M
    wait_filled
    head -c 300M /dev/zero >"$mounted/other" 2>/dev/null
    sleep 2
    finish
    ends_well 'flash fills up' 4 135 134
    rm -f "$mounted/other"
    start 130 2 --ram 16M --flash "$mounted" --flash-size 1G
    finish
    ends_well 'less flash than was said' 125
    grep -q 'free some space or ask for less' "$work/err" || fail 'less flash than was said: not what helps'
    # A file with holes, for which there is no room.
    umount "$mounted"
    small 64m
    truncate -s 512M "$mounted/file"
    start 130 2 --ram 16M --flash "$mounted/file" --flash-size 512M
    finish
    ends_well 'holes that cannot be filled' 125
    rm -f "$mounted/file"
    # A device that fails once 64 MiB are written.
    truncate -s 512M "$mounted/file"
    if loop=$(losetup --show -f "$mounted/file" 2>/dev/null); then
        start 130 2 --ram 16M --flash "$loop" --flash-size 512M
        wait_filled
        finish
        ends_well 'a device that fails' 4 135 134
        losetup -d "$loop"
        loop=''
    else
        echo "skip preload flash: no loop device can be made"
    fi
    umount "$mounted"
    mounted=''
    # A file that somebody cuts.
    truncate -s 512M "$work/file"
    start 130 2 --ram 16M --flash "$work/file" --flash-size 512M
    wait_filled
    truncate -s 1M "$work/file"
    sleep 1
    finish
    ends_well 'the file is cut' 135 134
    rm -f "$work/file"
    # The folder of the file.
    mkdir "$work/folder"
    start 130 2 --ram 16M --flash "$work/folder" --flash-size 512M
    wait_filled
    rm -rf "$work/folder"
    finish
    ends_well 'the folder is removed'
    # A file with a name, and its folder.
    mkdir "$work/folder"
    truncate -s 512M "$work/folder/file"
    start 130 2 --ram 16M --flash "$work/folder/file" --flash-size 512M
    wait_filled
    rm -rf "$work/folder"
    finish
    ends_well 'the file is removed'
    mkdir "$work/folder"
    rmdir "$work/folder"
    start 130 2 --ram 16M --flash "$work/folder/file" --flash-size 512M
    finish
    ends_well 'no folder' 125
}

# Milliseconds of this machine's clock.
now_ms() {
    echo $(($(date +%s%N) / 1000000))
}

# Ends the program, of which nothing must be left.
kill_now() {
    kill -KILL "$program"
    wait "$program" 2>/dev/null
    program=''
    left=$(ls -A "$work/flashes")
    [ -z "$left" ] || fail "killed $1: $left is left"
    for process in /proc/[0-9]*; do
        [ "$(readlink "$process/exe")" != "$work/steady" ] || fail "killed $1: process ${process#/proc/} is left"
    done
}

# Whether the thread that takes over is there at this moment.
takes_over() {
    for comm in /proc/"$program"/task/*/comm; do
        { read -r name <"$comm"; } 2>/dev/null
        [ "$name" != aquifer-take ] || return 0
    done
    return 1
}

# Ends the program at moments around the takeover, which comes when 27 of 130 blocks are filled.
kills() {
    name=''
    mkdir "$work/flashes"
    start 130 0 --ram 32M --flash "$work/flashes" --flash-size 512M --socket "$work/socket"
    first=$(now_ms)
    wait_filled
    whole=$(($(now_ms) - first))
    finish
    ends_well 'nobody ends it'
    for n in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
        start 130 0 --ram 32M --flash "$work/flashes" --flash-size 512M --socket "$work/socket"
        sleep "$(awk -v ms=$((whole * n / 20)) 'BEGIN { print ms / 1000 }')"
        kill_now "after $n/20"
    done
    hits=0
    for n in 1 2 3 4 5 6 7 8 9 10; do
        start 130 0 --ram 32M --flash "$work/flashes" --flash-size 512M --socket "$work/socket"
        while is_running && [ ! -e "$work/filled" ]; do
            if takes_over; then
                hits=$((hits + 1))
                break
            fi
        done
        kill_now 'in the takeover'
    done
    start 130 0 --ram 32M --flash "$work/flashes" --flash-size 512M --socket "$work/socket"
    finish
    ends_well 'a run after them'
    truncate -s 512M "$work/file"
    start 130 0 --ram 32M --flash "$work/file" --flash-size 512M
    sleep "$(awk -v ms=$((whole / 2)) 'BEGIN { print ms / 1000 }')"
    kill_now 'on a file'
    start 130 0 --ram 32M --flash "$work/file" --flash-size 512M
    finish
    ends_well 'a run on the same file'
    [ $failed -ne 0 ] || echo "ok preload kills: $hits of 10 in the takeover"
    exit $failed
}

# Somebody else in the group takes RAM as it becomes free, and gives it back, again and again, without swap: the heap gives way, and nobody is killed.
#
# AQUIFER_NEIGHBOURS='LIMIT DATA TAKEN': other sizes of the group, of the program's data and of what the neighbour takes, MiB. AQUIFER_RUNS=N: so many times.
neighbours() {
    # shellcheck disable=SC2086 # three numbers
    set -- ${AQUIFER_NEIGHBOURS:-192 400 80}
    "${CC:-cc}" -std=c11 -D_GNU_SOURCE -O1 -Wall -Wextra -Werror "$here/neighbour.c" -o "$work/neighbour" || exit 1
    limit=$(($1 << 20))
    make_group $limit no || skip
    start "$2" 0 --ram auto --flash "$work" --flash-size $(($2 * 3 / 2 > 2048 ? $2 * 3 / 2 : 2048))M
    wait_filled
    : >"$work/beside"
    # shellcheck disable=SC2016 # for the shell that becomes the program
    sh -c 'echo $$ >"$1/cgroup.procs"; shift; exec "$@"' sh "$cgroup" \
        "$work/neighbour" "$3" "$work/beside" "$(group_file usage)" $limit >"$work/rounds" &
    beside=$!
    sleep 4
    rm -f "$work/beside"
    wait "$beside" || fail "the neighbour has no room: status $?"
    finish
    ends_well "a neighbour takes $3 of $1 MiB and gives them back"
    echo ", at most $(($(group_peak) >> 20)) of $1 MiB" >>"$work/rounds"
    [ "$(group_kills)" = 0 ] || fail "$(group_kills) killed"
    remove_group
}

case $part in
    neighbours)
        for run in $(seq "${AQUIFER_RUNS:-1}"); do
            neighbours
            [ "${AQUIFER_RUNS:-1}" = 1 ] || echo "    run $run: $(tr -d '\n' <"$work/rounds")"
        done
        ;;
    shrinks)
        in_a_group $((128 << 20)) shrinks
        ends_well 'a limit below the budget'
        ;;
    swapoff)
        in_a_group $((48 << 20)) swapoff_meanwhile
        ends_well 'swap is switched off'
        ;;
    flash) flash ;;
    kills) kills ;;
    *) exit 2 ;;
esac
[ $failed -ne 0 ] || echo "ok preload $part"
exit $failed
