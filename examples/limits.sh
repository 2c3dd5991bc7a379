# shellcheck shell=sh disable=SC2034,SC2154 # who sources this has $work, a directory of its own, and reads $why
# A limit of RAM for a program, by a memory cgroup of version 1 or 2, with or
# without kernel swap. Sourced by compare.sh.
#
# Sets cgroup, version, why (the reason when something was not possible).

cgroup='' version='' swap_on='' page_cluster='' why=''

# ---- Memory cgroups ---------------------------------------------------------

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

# The name of a file of the group in either version.
group_file() {
    case $version.$1 in
        v1.limit) echo "$cgroup/memory.limit_in_bytes" ;;
        v1.usage) echo "$cgroup/memory.usage_in_bytes" ;;
        v1.peak) echo "$cgroup/memory.max_usage_in_bytes" ;;
        v1.kills) echo "$cgroup/memory.oom_control" ;;
        v2.limit) echo "$cgroup/memory.max" ;;
        v2.usage) echo "$cgroup/memory.current" ;;
        v2.peak) echo "$cgroup/memory.peak" ;;
        v2.kills) echo "$cgroup/memory.events" ;;
    esac
}

# make_group BYTES yes|no: a group with that much RAM, whose memory may go to
# swap or not. On failure, sets why.
make_group() {
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
    if ! echo "$1" 2>/dev/null >"$(group_file limit)"; then
        why="$(group_file limit) cannot be set"
        return 1
    fi
    if [ "$2" = no ]; then
        if [ "$version" = v1 ]; then
            echo 0 >"$cgroup/memory.swappiness"
        elif [ -e "$cgroup/memory.swap.max" ]; then
            echo 0 >"$cgroup/memory.swap.max"
        fi
    fi
}

remove_group() {
    [ -z "$cgroup" ] || rmdir "$cgroup" 2>/dev/null || true
    cgroup=''
}

# The most RAM that the group ever had, in bytes; nothing where the kernel does not tell.
group_peak() {
    cat "$(group_file peak)" 2>/dev/null || true
}

# Programs of the group that the kernel killed for want of RAM.
group_kills() {
    sed -n 's/^oom_kill //p' "$(group_file kills)" 2>/dev/null
}

# Runs in the background beside a program in the group, until $work/running is
# gone, and has the kernel bring the group's statistics up to date every 50 ms.
#
# With and without it in turns, on kernel 6.18: 3 of 13 runs of btree-plain in 8
# and 32 MiB were killed without it, and 3 of 8 of sessions-plain in 8 MiB beside
# other work; none of as many with it. Swap was nearly empty:
#
#   memory: usage 8192kB, limit 8192kB    inactive_anon 0    active_anon 7811072
#   memory+swap: usage 71772kB            swapcached 6963200    writeback 4096
#
# All pages were on the list of active ones. Reclaim takes pages from the other
# list, and refills it when statistics say that it is the shorter one; these are
# up to two seconds old (mem_cgroup_flush_stats_ratelimited), in which a program
# this small empties the list. The trace of the last attempts (vmscan:*) shows
# 17 calls of memcg reclaim within 316 us that scanned no page; then the kernel
# gives up. Whoever reads memory.stat brings them up to date.
keep_statistics_fresh() {
    while [ -e "$work/running" ]; do
        read -r _ <"$cgroup/memory.stat" || return 0
        sleep 0.05
    done
}

# ---- Kernel swap -------------------------------------------------------------

# swap_on BYTES: switches on a swap file of that size. On failure, sets why.
make_swap() {
    if ! fallocate -l "$1" "$work/swap" 2>/dev/null; then
        why="there is no room for a swap file of $(($1 >> 20)) MiB"
        return 1
    fi
    chmod 600 "$work/swap"
    if ! mkswap "$work/swap" >/dev/null 2>&1 || ! swapon -p 32767 "$work/swap" 2>/dev/null; then
        why="the kernel does not swap to a file in ${work%/*}"
        return 1
    fi
    swap_on=yes
}

# The kernel reads no neighbours from swap, until remove_swap: that only costs
# when accesses are random. It is a setting of the whole machine, so that two at
# once would put each other's back: who finds it so leaves it.
read_no_neighbours() {
    page_cluster=$(cat /proc/sys/vm/page-cluster)
    [ "$page_cluster" != 0 ] && echo 0 2>/dev/null >/proc/sys/vm/page-cluster || page_cluster=''
}

remove_swap() {
    [ -z "$swap_on" ] || swapoff "$work/swap" || true
    [ -z "$page_cluster" ] || echo "$page_cluster" >/proc/sys/vm/page-cluster || true
    swap_on='' page_cluster=''
    rm -f "$work/swap"
}

# Whether this user may do all that. On failure, sets why.
may_swap() {
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
}

# ---- The disk ----------------------------------------------------------------

# The kernel's file of counts for the disk that a directory is on; nothing if it
# is on none, as in some containers.
disk_stat_of() {
    device=$(stat -c %d "$1")
    stat="/sys/dev/block/$((device >> 8 & 4095)):$((device & 255 | device >> 12 & 1048320))/stat"
    [ ! -r "$stat" ] || echo "$stat"
}
