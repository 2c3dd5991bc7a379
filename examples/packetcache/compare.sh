#!/bin/sh
# The same load twice in the same RAM: on the heap of Aquifer, and on malloc
# under kernel swap. ../compare.sh says how.
#
#   examples/packetcache/compare.sh [--ram 64M] [--data 512M] [--dir DIR] [OPTION OF packetcache]...
#
# Build first: make -C examples/packetcache
# shellcheck disable=SC2034 # for ../compare.sh
set -eu

here=$(cd "$(dirname "$0")" && pwd)
title='packet cache' program=packetcache
# The index: a sixteenth of the payloads.
beside=63
. "$here/../compare.sh"
