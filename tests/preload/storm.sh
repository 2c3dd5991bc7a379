#!/bin/sh
# Runs storm.c with many seeds on managed memory: with and without a memory cgroup whose memory the kernel swaps, and with
# something that is missing or breaks.
#
#   storm.sh AQUIFER [FIRST_SEED [COUNT | SECONDS s]]
#
# By default as many seeds as fit into 100 seconds, but at least 20. A seed decides about everything but the order of threads:
#   seed % 3        no cgroup; a cgroup in which the kernel swaps before the heap takes over; one at or above the budget
#   seed / 3 % 3    0: something is missing or breaks, as seed / 9 % 8 says
# SEED_MODE=MODE and SEED_GROUP=BYTES, or 0 for none, override it.
set -u
here=$(cd "$(dirname "$0")" && pwd)
# The slowest seed needs 23 s on two quiet processors; this is for machines that do other work.
hang_s=240
budget=$((16 << 20))

fail() {
    echo "FAIL preload storm: $*"
}

# ---- A lane: seeds one after another ------------------------------------------

# Which group a seed runs in: bytes, or 0.
group_bytes() {
    case $(($1 % 3)).$(($1 / 3 % 2)) in
        0.*) echo 0 ;;
        1.0) echo $((budget * 3 / 4)) ;;
        1.1) echo $((budget * 7 / 8)) ;;
        2.0) echo $((budget + (4 << 20))) ;;
        2.1) echo $((budget * 3)) ;;
    esac
}

# What is missing or breaks.
mode_of() {
    if [ $(($1 / 3 % 3)) -ne 0 ]; then
        echo right
        return
    fi
    set -- $(($1 / 9 % 8)) small descriptors addresses truncated killed thread named writes
    shift "$1"
    echo "$2"
}

# What every thread of the processes of a group of processes waits for.
tell_threads() {
    for pid in $(pgrep -g "$1"); do
        for task in "/proc/$pid/task"/*; do
            echo "    ${task##*/} of $pid: $(sed 's/$/ /' "$task/comm" "$task/wchan" "$task/syscall" 2>/dev/null | tr -d '\n')"
        done
        if command -v gdb >/dev/null; then
            timeout 60 gdb -p "$pid" -batch -ex 'thread apply all bt 20' 2>/dev/null </dev/null |
                grep -E '^(Thread|#)' | sed 's/^/    /'
        fi
    done
}

# watch PID: kills in the middle of a run, or tells of threads before they are ended.
watch() {
    late=$(($(date +%s) + hang_s - 20))
    if [ "$mode" = killed ] || [ "$mode" = truncated ]; then
        sleep "0.$((seed * 7 % 10))$((seed % 10))"
        [ "$mode" = truncated ] && truncate -s 1M "$dir/flash"
        [ "$mode" = killed ] && pkill -KILL -P "$1"
    fi
    while kill -0 "$1" 2>/dev/null && [ "$(date +%s)" -lt "$late" ]; do
        sleep 0.5
    done
    if kill -0 "$1" 2>/dev/null; then
        : >"$dir/threads"
        tell_threads "$1" >>"$dir/threads"
        kill "$1"
    fi
}

# As keep_statistics_fresh of limits.sh does, for a lane.
freshen() {
    while [ "$group" != 0 ] && [ -e "$dir/running" ]; do
        read -r _ <"$cgroup/memory.stat" || return 0
        sleep 0.05
    done
}

# run_seed SEED: sets outcome to what went wrong, or nothing.
run_seed() {
    seed=$1 outcome=''
    mode=${SEED_MODE:-$(mode_of "$seed")} group=${SEED_GROUP:-$(group_bytes "$seed")}
    case $((seed / 7 % 3)) in 0) threshold=64K ;; 1) threshold=4K ;; *) threshold=16K ;; esac
    flash=$dir/flashes flash_size=512M faults=signal
    unset STORM_REFUSALS
    rm -rf "$dir/files" "$dir/flash" "$dir/flashes" "$dir/threads"
    mkdir "$dir/files" "$dir/flashes"
    case $mode in
        small) flash_size=$((20 + seed % 12))M STORM_REFUSALS=memory ;;
        descriptors | addresses | writes) STORM_REFUSALS=$mode ;;
        truncated)
            flash=$dir/flash
            truncate -s 512M "$flash"
            STORM_REFUSALS=flash
            ;;
        thread) faults=thread ;;
        named) flash=$dir/flash ;;
    esac
    [ -z "${STORM_REFUSALS:-}" ] || export STORM_REFUSALS
    [ -n "$cgroup" ] || group=0
    [ "$group" = 0 ] || echo "$group" 2>/dev/null >"$(group_file limit)"
    began=$(date +%s%N)
    kills=$([ "$group" = 0 ] || group_kills)
    name="$mode, group of $((group >> 20)) MiB"
    : >"$dir/running"
    freshen &
    # The shell that becomes the program is in the group; this one is not.
    # shellcheck disable=SC2016 # it expands them
    AQUIFER_TEST_DIR="$dir/files" timeout -k 5 "$hang_s" sh -c \
        'if [ -n "$1" ]; then echo $$ >"$1/cgroup.procs"; fi; shift; exec "$@"' sh \
        "$([ "$group" = 0 ] || echo "$cgroup")" "$aquifer" run --ram 16M --flash "$flash" --flash-size "$flash_size" \
        --threshold "$threshold" --faults "$faults" -- "$work/storm" "$seed" >"$dir/out" 2>"$dir/err" </dev/null &
    run=$!
    watch "$run" >/dev/null 2>&1 &
    watcher=$!
    wait "$run" 2>/dev/null
    status=$?
    run='' took=$((($(date +%s%N) - began) / 1000000))
    [ -e "$dir/threads" ] || kill "$watcher" 2>/dev/null
    wait "$watcher" 2>/dev/null
    rm -f "$dir/running"
    judge
}

# Nothing runs any more soon after the program has ended, and nothing is left of its files.
find_leftovers() {
    laps=0
    while pgrep -f "^$work/storm $seed\$" >/dev/null; do
        if [ "$laps" -eq 100 ]; then
            outcome='processes are left'
            for pid in $(pgrep -f "^$work/storm $seed\$"); do
                tell_threads "$(ps -o pgid= -p "$pid")" >>"$dir/threads"
                kill -KILL "$pid"
            done
            return
        fi
        laps=$((laps + 1))
        sleep 0.1
    done
    if [ "$mode" != truncated ] && { [ -e "$dir/flash" ] || [ -n "$(ls "$dir/flashes")" ]; }; then
        outcome='a flash file is left'
    fi
}

judge() {
    find_leftovers
    if [ "$group" != 0 ] && [ "$(group_kills)" != "$kills" ] && [ ! -s "$dir/threads" ]; then
        # The kernel found no memory that it could swap in time.
        name="$name, which the kernel has killed for want of RAM"
        return
    fi
    if grep -qE '^storm: |panicked|assertion' "$dir/err"; then
        outcome="status $status, $(grep -m1 -E '^storm: |panicked|assertion' "$dir/err")"
    elif [ "$status" -eq 124 ] || { [ -s "$dir/threads" ] && [ "$status" -ge 128 ]; }; then
        # One that was late and has ended by itself was only slow.
        outcome="hangs: status $status, $(tail -1 "$dir/err")"
    elif [ "$status" -ne 0 ]; then
        case $mode in
            # A page that cannot be read any more ends the program, which says so.
            truncated | killed | writes) ;;
            # There may be no room to start in.
            small | descriptors | addresses) grep -q '^aquifer: ' "$dir/err" || outcome="status $status without a word" ;;
            *) outcome="status $status, $(tail -1 "$dir/err")" ;;
        esac
    fi
}

end_lane() {
    rm -f "$dir/running"
    if [ -n "$run" ]; then
        kill "$run" "$watcher" 2>/dev/null
        find_leftovers
    fi
    wait
    # What was killed leaves the group when it is gone.
    laps=0
    while [ -n "$cgroup" ] && [ -n "$(cat "$cgroup/cgroup.procs" 2>/dev/null)" ] && [ "$laps" -lt 50 ]; do
        laps=$((laps + 1))
        sleep 0.1
    done
    remove_group
}

lane() {
    dir=$work/lane$LANE
    mkdir "$dir"
    cgroup='' why='' run='' watcher='' seed=0 count=0
    trap end_lane EXIT
    trap 'exit 130' INT TERM
    if [ "$swaps" = yes ] && ! make_group "$budget" yes; then
        remove_group
        echo "$why" >"$work/why"
    fi
    seed=$((first + LANE))
    while [ "$count" -lt "$most" ]; do
        if [ "$(date +%s)" -ge "$until" ] && [ "$count" -ge 10 ]; then
            break
        fi
        run_seed "$seed"
        echo "$name" >>"$work/modes"
        [ -z "${STORM_LOG:-}" ] || echo "seed $seed $name: status $status in $took ms $outcome" >>"$STORM_LOG"
        if [ -n "$outcome" ]; then
            {
                fail "seed $seed mode $name, threshold $threshold: $outcome"
                sed 's/^/    /' "$dir/err"
                [ ! -e "$dir/threads" ] || cat "$dir/threads"
            } >"$dir/told"
            cat "$dir/told"
            : >"$work/failed"
        fi
        seed=$((seed + 2))
        count=$((count + 1))
    done
}

# ---- All lanes -------------------------------------------------------------------

compile() {
    flags='-std=c11 -D_GNU_SOURCE -O1 -g -Wall -Wextra -Werror -pthread'
    # shellcheck disable=SC2086 # flags are a list
    "${CC:-cc}" $flags -rdynamic "$here/storm.c" -o "$work/storm" -ldl &&
        "${CC:-cc}" $flags -DPLUGIN -shared -fPIC "$here/storm.c" -o "$work/storm.so"
}

cleanup() {
    # shellcheck disable=SC2086 # a list of processes
    [ -z "$lanes" ] || kill $lanes 2>/dev/null
    wait
    remove_swap
    rm -rf "$work"
}

aquifer=$1
first=${2:-1} most=1000000
until=$(($(date +%s) + 100))
case ${3:-} in
    '') ;;
    *s) until=$(($(date +%s) + ${3%s})) ;;
    *)
        if [ "${4:-}" = s ]; then
            until=$(($(date +%s) + $3))
        else
            most=$((($3 + 1 - ${LANE:-0}) / 2)) until=$(($(date +%s) + 1000000))
        fi
        ;;
esac
if [ -n "${LANE:-}" ]; then
    work=$STORM_WORK swaps=$STORM_SWAPS until=$STORM_UNTIL
    # shellcheck source=examples/limits.sh
    . "$here/../../examples/limits.sh"
    lane
    exit 0
fi
lanes='' why='' work=$(mktemp -d "${AQUIFER_TEST_DIR:-/var/tmp}/storm.XXXXXX") || exit 1
# shellcheck source=examples/limits.sh
. "$here/../../examples/limits.sh"
trap cleanup EXIT
trap 'exit 130' INT TERM
compile || { fail 'does not compile'; exit 1; }
swaps=no
if may_swap && make_swap $((1 << 30)); then
    swaps=yes
else
    echo "$why" >"$work/why"
fi
export STORM_WORK="$work" STORM_SWAPS="$swaps" STORM_UNTIL="$until" STORM_PLUGIN="$work/storm.so"
for lane in 0 1; do
    LANE=$lane sh "$here/storm.sh" "$aquifer" "$first" "${3:-}" "${4:-}" &
    lanes="$lanes $!"
done
for lane in $lanes; do
    wait "$lane"
done
lanes=''
[ ! -s "$work/why" ] || echo "skip preload storm in groups: $(cat "$work/why")"
sort "$work/modes" | uniq -c | sed 's/^/    /'
if [ -e "$work/failed" ]; then
    exit 1
fi
echo "ok preload storm, $(wc -l <"$work/modes") seeds"
