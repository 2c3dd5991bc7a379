#!/bin/sh
# Everything that must be clean before a change is handed in.
set -eu
. "$(dirname "$0")/env.sh"
"$CARGO" fmt --all --check
"$CARGO" clippy --workspace --all-targets --quiet -- -D warnings
"$CARGO" run --quiet -p xtask -- tidy
RUSTDOCFLAGS='-D warnings' "$CARGO" doc --workspace --no-deps --quiet
if have shellcheck; then
    shellcheck -x --severity=warning scripts/*.sh tests/*.sh tests/block/*.sh tests/c/*.sh tests/mount/*.sh tests/preload/*.sh tests/programs/*.sh tests/remote/*.sh \
        examples/*/*.sh .ci/run
else
    say 'SKIP shellcheck is not installed'
fi
say 'lint: clean'
