#!/bin/sh
# Starts memcached on the heap of Aquifer with options that suit it (README.md says why).
#
#   examples/memcached/start.sh [--ram 256M] [--data 2G] [--items N] [OPTION OF memcached]...
#
# --ram: the heap's budget. --data: how much memcached may hold. --items: how many items are
# expected; default: a kibibyte each. AQUIFER_FLASH, AQUIFER_SOCKET and so on work as ever.
# The process becomes memcached: signals go to it.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
program=${MEMCACHED:-$here/../../build/examples/memcached/memcached-aquifer}
ram=256M data=2G items=''

die() {
    echo "start.sh: $*" >&2
    exit 1
}

# Mebibytes in a size like 64M.
mebibytes() {
    number=${1%[MGTmgt]}
    case $number in
        '' | *[!0-9]*) die "'$1' is not a size; write 64M, 4G" ;;
    esac
    case $1 in
        *[Mm]) echo "$number" ;;
        *[Gg]) echo $((number << 10)) ;;
        *[Tt]) echo $((number << 20)) ;;
        *) echo $((number >> 20)) ;;
    esac
}

while [ $# -gt 0 ]; do
    case $1 in
        --ram) ram=${2:?--ram needs a size} ;;
        --data) data=${2:?--data needs a size} ;;
        --items) items=${2:?--items needs a number} ;;
        *) break ;;
    esac
    shift 2
done
[ -x "$program" ] || die "no $program; run examples/memcached/build.sh first"
megabytes=$(mebibytes "$data")
[ -n "$items" ] || items=$((megabytes << 10))
case $items in
    *[!0-9]*) die "'$items' is not a number of items" ;;
esac

# Two buckets for each item: longer chains would bring in strangers.
power=16
while [ $((1 << power)) -lt $((2 * items)) ] && [ $power -lt 32 ]; do
    power=$((power + 1))
done
# The sizes that the heap has: nothing is lost by rounding twice.
small=96-112-128-160-192-224-256-320-384-448-512-640-768-896-1024-1280-1536-1792-2048-2560-3072-3584-4096
large=8192-12288-16384-20480-24576-28672-32768-40960-49152-57344-65536-81920-98304-114688-131072-163840-196608
large=$large-229376-262144-327680-393216-458752
# Nobody walks through all items, and few are moved from one list to another.
lists=no_lru_crawler,hot_lru_pct=78,warm_lru_pct=2,hot_max_factor=1000,warm_max_factor=1000

export AQUIFER_RAM="$ram" AQUIFER_FLASH_SIZE="${AQUIFER_FLASH_SIZE:-$((2 * megabytes + 64))M}"
exec "$program" -u "$(id -un)" -m "$megabytes" -o "hashpower=$power,slab_sizes=$small-$large,$lists" "$@"
