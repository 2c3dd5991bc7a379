#!/bin/sh
# The same load twice in the same RAM: on the heap of Aquifer, and on malloc
# under kernel swap. ../compare.sh says how.
#
#   examples/hashcache/compare.sh [--ram 64M] [--data 512M] [--dir DIR] [OPTION OF hashcache]...
#
# Build first: make -C examples/hashcache
# shellcheck disable=SC2034 # for ../compare.sh
set -eu

here=$(cd "$(dirname "$0")" && pwd)
title='web cache' program=hashcache
# The index: 16 bytes for each response.
beside=9
. "$here/../compare.sh"
