#!/bin/sh
# The same load twice: on the heap of Aquifer, then on malloc under kernel swap,
# in a memory cgroup with the same RAM. The second run is skipped, with the
# reason, where the machine does not allow it.
#
#   examples/btree/compare.sh [--ram 64M] [--data 512M] [--dir DIR] [OPTION OF btree]...
#
# DIR gets the flash file and then the swap file; both are removed at the end.
# Build first: make -C examples/btree
set -eu

here=$(cd "$(dirname "$0")" && pwd)
built=${BTREE_BUILD:-$here/../../build/examples/btree}
ram=64M data='' parent=${TMPDIR:-/var/tmp}
work='' swap_on='' cgroup='' child='' page_cluster=''

say() {
    printf '%s\n' "$*"
}

die() {
    say "compare.sh: $*" >&2
    exit 1
}

# Bytes in a size like 64M.
bytes() {
    number=${1%[KMGTkmgt]}
    case $number in
        '' | *[!0-9]*) die "'$1' is not a size; write bytes, or 64M, 4G" ;;
    esac
    case $1 in
        *[Kk]) echo $((number << 10)) ;;
        *[Mm]) echo $((number << 20)) ;;
        *[Gg]) echo $((number << 30)) ;;
        *[Tt]) echo $((number << 40)) ;;
        *) echo "$number" ;;
    esac
}

# ---- Undo everything, also after Ctrl-C -----------------------------------

cleanup() {
    status=$?
    trap '' INT TERM
    if [ -n "$child" ] && kill -KILL "$child" 2>/dev/null; then
        wait "$child" 2>/dev/null || true
    fi
    [ -z "$swap_on" ] || swapoff "$work/swap" || true
    [ -z "$page_cluster" ] || echo "$page_cluster" >/proc/sys/vm/page-cluster || true
    [ -z "$cgroup" ] || rmdir "$cgroup" 2>/dev/null || true
    [ -z "$work" ] || rm -rf "$work"
    exit $status
}

# Runs a command so that the trap can end it.
run() {
    "$@" &
    child=$!
    status=0
    wait "$child" || status=$?
    child=''
    return $status
}

# ---- Kernel swap ----------------------------------------------------------

# Where memory cgroups can be made: "v1 DIR" or "v2 DIR".
memory_cgroups() {
    v1=$(awk '$3 == "cgroup" && $4 ~ /(^|,)memory(,|$)/ { print $2; exit }' /proc/mounts)
    v2=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)
    if [ -n "$v1" ]; then
        echo "v1 $v1"
    elif [ -n "$v2" ] && grep -qw memory "$v2/cgroup.controllers"; then
        echo "v2 $v2"
    fi
}

# Makes a cgroup with the RAM limit. On failure, sets why.
make_cgroup() {
    found=$(memory_cgroups)
    if [ -z "$found" ]; then
        why='no memory cgroup controller is mounted'
        return 1
    fi
    version=${found%% *} root=${found#* }
    if [ "$version" = v2 ] && ! grep -qw memory "$root/cgroup.subtree_control" &&
        ! echo +memory 2>/dev/null >"$root/cgroup.subtree_control"; then
        why="the memory controller cannot be enabled in $root"
        return 1
    fi
    if ! mkdir "$root/aquifer-compare.$$" 2>/dev/null; then
        why="no cgroup can be made in $root"
        return 1
    fi
    cgroup=$root/aquifer-compare.$$
    limit=$cgroup/memory.max
    [ "$version" = v2 ] || limit=$cgroup/memory.limit_in_bytes
    if ! echo "$ram_bytes" 2>/dev/null >"$limit"; then
        why="$limit cannot be set"
        return 1
    fi
}

# Switches on a swap file of three times the data. On failure, sets why.
make_swap() {
    swap_bytes=$((3 * data_bytes))
    if ! fallocate -l "$swap_bytes" "$work/swap" 2>/dev/null; then
        why="$parent has no room for a swap file of $((swap_bytes >> 20)) MiB"
        return 1
    fi
    chmod 600 "$work/swap"
    if ! mkswap "$work/swap" >/dev/null 2>&1 || ! swapon -p 32767 "$work/swap" 2>/dev/null; then
        why="the kernel does not swap to a file in $parent"
        return 1
    fi
    swap_on=yes
    page_cluster=$(cat /proc/sys/vm/page-cluster)
    # Read-ahead of neighbours only costs when lookups are random.
    echo 0 2>/dev/null >/proc/sys/vm/page-cluster || page_cluster=''
}

swap_is_possible() {
    if [ "$(id -u)" != 0 ]; then
        why='it needs root'
        return 1
    fi
    for tool in mkswap swapon swapoff fallocate; do
        if ! command -v $tool >/dev/null; then
            why="$tool is missing (package util-linux or mount)"
            return 1
        fi
    done
    make_cgroup && make_swap
}

# ---- Main -----------------------------------------------------------------

while [ $# -gt 0 ]; do
    case $1 in
        --ram) ram=${2:?--ram needs a size} ;;
        --data) data=${2:?--data needs a size} ;;
        --dir) parent=${2:?--dir needs a directory} ;;
        *) break ;;
    esac
    shift 2
done
ram_bytes=$(bytes "$ram")
data_bytes=$((8 * ram_bytes))
[ -z "$data" ] || data_bytes=$(bytes "$data")
PATH=$PATH:/usr/sbin:/sbin
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
mkdir -p "$parent"
work=$(mktemp -d "$parent/btree.XXXXXX")
free_bytes=$(($(df -Pk "$work" | awk 'NR == 2 { print $4 }') * 1024))
[ "$free_bytes" -gt $((2 * data_bytes)) ] ||
    die "$parent needs $((2 * data_bytes >> 20)) MiB of free space and has $((free_bytes >> 20)); choose another with --dir"

say "== B+tree on aq_malloc: $((data_bytes >> 20)) MiB of data, $((ram_bytes >> 20)) MiB of RAM"
run "$built/btree" --data "$data_bytes" --ram "$ram_bytes" --flash "$work/flash" --flash-size $((2 * data_bytes)) "$@"
rm -f "$work/flash"
say ''
say "== B+tree on malloc, kernel swap: the same data and RAM"
why=''
if swap_is_possible; then
    export cgroup
    for attempt in 1 2; do
        status=0
        run sh -c 'echo $$ >"$cgroup/cgroup.procs" && exec "$@"' sh "$built/btree-plain" --data "$data_bytes" "$@" ||
            status=$?
        # It happens to programs that swap inside a memory cgroup, and says nothing against the first run.
        [ $status = 137 ] || break
        say "the kernel killed the plain program, because it could not swap out fast enough (attempt $attempt of 2)"
    done
    case $status in
        0) ;;
        137) say 'no comparison' ;;
        *) die "the plain program ended with status $status" ;;
    esac
else
    say "skipped: $why"
fi
