#!/bin/sh
# The same load twice: on the heap of Aquifer, then on malloc under kernel swap,
# in a memory cgroup with the same RAM. The second run is skipped, with the
# reason, where the machine does not allow it.
#
#   examples/packetcache/compare.sh [--ram 64M] [--data 512M] [--dir DIR] [OPTION OF packetcache]...
#
# The script of the B+tree does the work. It is shown the programs of this
# example in place of its own.
#
# Build first: make -C examples/packetcache
set -eu

here=$(cd "$(dirname "$0")" && pwd)
built=${PACKETCACHE_BUILD:-$here/../../build/examples/packetcache}
if [ ! -x "$built/packetcache" ] || [ ! -x "$built/packetcache-plain" ]; then
    echo "compare.sh: $built has no programs; run 'make -C examples/packetcache' first" >&2
    exit 1
fi
built=$(cd "$built" && pwd)
shown=$(mktemp -d "${TMPDIR:-/var/tmp}/packetcache-compare.XXXXXX")
trap 'rm -rf "$shown"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# Under swap the index shares the RAM with the payloads, so here it is taken from
# the heap's: $2 is the data, $4 the RAM, $6 the flash file, $8 its size.
cat >"$shown/btree" <<END
#!/bin/sh
export AQUIFER_RAM=\$((\$4 - \$2 / 16)) AQUIFER_FLASH="\$6" AQUIFER_FLASH_SIZE="\$8"
data=\$2
shift 8
exec '$built/packetcache' --data "\$data" "\$@"
END
chmod +x "$shown/btree"
ln -s "$built/packetcache-plain" "$shown/btree-plain"

{
    BTREE_BUILD=$shown "$here/../btree/compare.sh" "$@" || echo $? >"$shown/status"
} | sed 's/^== B+tree on/== packet cache on/'
[ ! -e "$shown/status" ] || exit "$(cat "$shown/status")"
