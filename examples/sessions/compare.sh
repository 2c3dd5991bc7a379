#!/bin/sh
# The same sessions twice in the same RAM: on the heap of Aquifer, and on malloc
# under kernel swap; then both side by side. ../compare.sh says how.
#
#   examples/sessions/compare.sh [--ram 64M] [--data 512M] [--dir DIR] [OPTION OF sessions]...
#
# Build first: make -C examples/sessions
# shellcheck disable=SC2034,SC2154 # for and from ../compare.sh
set -eu

here=$(cd "$(dirname "$0")" && pwd)
title='sessions' program=sessions
# A pointer and a count for each session of 248 bytes.
beside=37

# figure REPORT PHASE FIELD: a number of the line of a phase.
figure() {
    awk -v phase="$2" -v field="$3" '$1 == phase { sub("/s", "", $field); print $field }' "$1"
}

row() {
    printf '%-34s %12s %12s   %s\n' "$@"
}

# ratio A B: how many times B is in A.
ratio() {
    awk -v a="$1" -v b="$2" 'BEGIN { if (b > 0) printf "%.1f", a / b; else printf "-" }'
}

updates_cost() {
    sed -n 's/^updates .* \([0-9.]*\) bytes written for each/\1/p' "$1"
}

peak_of() {
    sed -n 's/^RAM limit  at most \([0-9.]*\) of .*/\1/p' "$1"
}

side_by_side() {
    ours=$work/aquifer.out theirs=$work/plain.out
    say ''
    row "both in $(mib "$ram_bytes") MiB of RAM" 'kernel swap' 'Aquifer' ''
    a=$(figure "$theirs" requests 6) b=$(figure "$ours" requests 6)
    row 'requests/s' "$a" "$b" "$(ratio "$b" "$a") times as many"
    a=$(updates_cost "$theirs") b=$(updates_cost "$ours")
    [ -z "$a" ] || row 'bytes written for each update' "$a" "$b" "1/$(ratio "$a" "$b")"
    row 'MiB written, as each counts' "$(figure "$theirs" requests 8)" "$(figure "$ours" requests 8)" 'during the requests'
    [ -z "$DISK_STAT" ] ||
        row 'MiB written, as the disk counts' "$(figure "$theirs" requests 9)" "$(figure "$ours" requests 9)" \
            'also what others wrote'
    row 'MiB of RAM at most' "$(peak_of "$theirs")" "$(peak_of "$ours")" ''
    row 'seconds to load' "$(figure "$theirs" load 4)" "$(figure "$ours" load 4)" 'here each session is a page fault'
}

summary() {
    [ -z "$1" ] || side_by_side
    say ''
    say 'Swap is the better choice where neighbours are used together, where all hot pages fit in RAM, or where data'
    say 'compress well (zswap): docs/reference/benchmarks-earlier.md has the figures.'
}

. "$here/../compare.sh"
