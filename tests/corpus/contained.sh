#!/bin/sh
# `aquifer` as a container with default settings would run it: as a user who is not root, without capabilities, in namespaces of its own, with the system
# calls refused that the usual profiles refuse. For run.py:
#
#   AQUIFER=tests/corpus/contained.sh tests/corpus/run.py --short
#
#   CONTAINED_AQUIFER=PATH    the aquifer command [build/bin/aquifer]
#   CONTAINED_DEVICE=1        /dev/userfaultfd is there
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
launcher=$root/build/corpus/contained
# shellcheck disable=SC3013 # shells of Debian and Ubuntu have it
if [ ! "$launcher" -nt "$here/../preload/contained.c" ]; then
    "${CC:-cc}" -D_GNU_SOURCE -O1 "$here/../preload/contained.c" -o "$launcher.$$"
    mv "$launcher.$$" "$launcher"
fi
device=
[ -z "${CONTAINED_DEVICE:-}" ] || device='--dev-bind /dev/userfaultfd /dev/userfaultfd'
# shellcheck disable=SC2086 # some words or none
exec bwrap --bind / / --proc /proc --dev /dev $device --unshare-user --unshare-pid --unshare-net --unshare-ipc --uid 65534 --gid 65534 \
    --die-with-parent "$launcher" "${CONTAINED_AQUIFER:-$root/build/bin/aquifer}" "$@"
