# shellcheck shell=sh disable=SC2034
# Sourced by the other scripts: where things are and which Rust to use.
# Sets ROOT, TARGET, CARGO, PROFILE and BUILT, and for a versioned Debian package RUSTC.

ROOT=$(cd "$(dirname "$0")/.." && pwd)
CARGO=${CARGO:-cargo}
RUST_MINOR_MIN=90
PATH=$PATH:/usr/sbin:/sbin
cd "$ROOT" || exit 1

say() {
    printf '%s\n' "$*"
}

have() {
    command -v "$1" >/dev/null 2>&1
}

# "95" for a cargo or rustc 1.95; nothing if it does not run.
rust_minor() {
    "$1" --version 2>/dev/null | sed -n 's/^[a-z]* 1\.\([0-9]*\)\..*/\1/p'
}

new_enough() {
    minor=$(rust_minor "$1")
    [ -n "$minor" ] && [ "$minor" -ge $RUST_MINOR_MIN ]
}

# Uses the first of these that is new enough: cargo in PATH, cargo where rustup
# puts it, a versioned package of Debian or Ubuntu such as cargo-1.89.
choose_rust() {
    new_enough "$CARGO" && return
    if new_enough "${CARGO_HOME:-$HOME/.cargo}/bin/cargo"; then
        PATH=${CARGO_HOME:-$HOME/.cargo}/bin:$PATH
        CARGO=cargo
        return
    fi
    for versioned in $(find /usr/bin -name 'cargo-1.*' 2>/dev/null | sort -rV); do
        if new_enough "$versioned" && new_enough "rustc-${versioned##*-}"; then
            CARGO=$versioned
            RUSTC=rustc-${versioned##*-}
            export RUSTC
            return
        fi
    done
    return 1
}

# Where cargo puts what it builds: the environment or a configuration file of the
# user's may have moved it. The default without a cargo that answers.
target_directory() {
    "$CARGO" metadata --no-deps --format-version 1 --manifest-path "$ROOT/Cargo.toml" 2>/dev/null |
        sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p'
}

choose_rust || true
TARGET=$(target_directory)
TARGET=${TARGET:-${CARGO_TARGET_DIR:-$ROOT/target}}
# The profile of the library and the command, and where cargo puts them with it.
PROFILE=${AQUIFER_PROFILE:-release}
BUILT=${AQUIFER_BUILT:-$TARGET/$PROFILE}
export CARGO PATH
