#!/bin/sh
# A server's sessions, eight times the size of their RAM, on Aquifer; as root also
# on malloc under kernel swap in the same RAM. Builds the C library and this
# example alone. Everything that it writes beside the build is in the user's cache
# directory, and gone at the end.
#
#   scripts/demo.sh [OPTION OF examples/sessions/compare.sh]...
set -eu
"$(dirname "$0")/setup.sh"
. "$(dirname "$0")/env.sh"
# Beside what `make lib` builds, which takes longer and is a little faster.
demo=$ROOT/build/demo
"$CARGO" build --profile quick -p aquifer-capi
AQUIFER_PROFILE=quick scripts/install-lib.sh "$demo/lib" c
make --quiet -C examples/sessions all OUT="$demo" AQUIFER_LIBS="-L$demo/lib -Wl,-rpath,$demo/lib -laquifer"
cache=${XDG_CACHE_HOME:-$HOME/.cache}/aquifer-demo
trap 'rmdir "$cache" 2>/dev/null || true' EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM
BUILT=$demo examples/sessions/compare.sh --ram 64M --dir "$cache" "$@"
