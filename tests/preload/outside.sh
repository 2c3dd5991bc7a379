#!/bin/sh
# A program's other memory counts for its budget, too: at most 5 % more than --ram, in anonymous memory and page tables.
#
#   outside.sh AQUIFER      the aquifer command
set -u
aquifer=$1
here=$(cd "$(dirname "$0")" && pwd)
work=${AQUIFER_TEST_DIR:?}
ram_mib=64
"${CC:-cc}" -std=c11 -D_GNU_SOURCE -O1 -Wall -Wextra -Werror "$here/outside.c" -o "$work/outside" || exit 1
if "$aquifer" run --ram "${ram_mib}M" --flash-size 1G -- "$work/outside" 200 $((ram_mib * 1024 * 105 / 100)) >"$work/out" 2>"$work/err"; then
    echo 'ok preload outside'
else
    echo "FAIL preload outside: $(tail -1 "$work/out") $(tail -1 "$work/err")"
    exit 1
fi
