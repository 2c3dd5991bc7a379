#!/bin/sh
# Everything that must be clean before a change is handed in. One result line each; exits with 1 if one is not.
#
#   scripts/lint.sh [--full]      --full: the documentation builds without warnings too
set -u
. "$(dirname "$0")/env.sh"
failed=0

# clean NAME COMMAND...: passes if the command does; its output is shown.
clean() {
    name=$1
    shift
    if "$@"; then
        say "ok lint: $name"
    else
        say "FAIL lint: $name: $*"
        failed=1
    fi
}

documentation() {
    RUSTDOCFLAGS='-D warnings' "$CARGO" doc --workspace --no-deps --quiet
}

# with_part PART HOW ARGUMENT...: runs a part of cargo's that may be missing; HOW says what installs it.
with_part() {
    part=$1 how=$2
    shift
    shift
    if "$CARGO" "$part" --version >/dev/null 2>&1; then
        clean "cargo $part" "$CARGO" "$part" "$@"
    else
        say "SKIP lint: cargo $part is not installed ($how)"
    fi
}

with_part fmt 'rustup component add rustfmt' --all --check
with_part fmt 'rustup component add rustfmt' --manifest-path research/Cargo.toml --check
clean tidy "$CARGO" run --quiet -p xtask -- tidy
with_part clippy 'rustup component add clippy' --workspace --all-targets --quiet -- -D warnings
with_part deny 'cargo install cargo-deny' --log-level error check bans licenses sources
if have shellcheck; then
    clean shellcheck shellcheck -x --severity=warning scripts/*.sh tests/*.sh tests/*/*.sh examples/*.sh examples/*/*.sh .ci/run
else
    say 'SKIP lint: shellcheck is not installed (package shellcheck)'
fi
if have codespell; then
    clean codespell codespell
else
    say 'SKIP lint: codespell is not installed (package codespell)'
fi
[ "${1:-}" != --full ] || clean documentation documentation
exit $failed
