#!/bin/sh
# A B+tree eight times the size of its RAM, then the same under kernel swap where
# the machine allows it. Everything it writes is in the user's cache directory,
# and gone at the end.
#
#   scripts/demo.sh [OPTION OF examples/btree/compare.sh]...
set -eu
"$(dirname "$0")/setup.sh"
. "$(dirname "$0")/env.sh"
scripts/build-lib.sh
make --quiet -C examples/btree all
cache=${XDG_CACHE_HOME:-$HOME/.cache}/aquifer-demo
trap 'rmdir "$cache" 2>/dev/null || true' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
BTREE_BUILD=$ROOT/build/examples/btree examples/btree/compare.sh --ram 64M --dir "$cache" "$@"
