#!/bin/sh
# The same load twice in the same RAM: on the heap of Aquifer, and on malloc
# under kernel swap. ../compare.sh says how.
#
#   examples/btree/compare.sh [--ram 64M] [--data 512M] [--dir DIR] [OPTION OF btree]...
#
# Build first: make -C examples/btree
# shellcheck disable=SC2034 # for ../compare.sh
set -eu

here=$(cd "$(dirname "$0")" && pwd)
title='B+tree' program=btree
beside=0
. "$here/../compare.sh"
