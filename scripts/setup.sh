#!/bin/sh
# Makes sure that everything needed to build is there: a C compiler, make,
# pkg-config, Rust. Installs what is missing where it may (root, or sudo without a
# password, on Debian and Ubuntu); otherwise says what is missing and the one
# command that installs it.
#
#   scripts/setup.sh [--lint] [--programs]
#
# --lint: also rustfmt and clippy. --programs: also the programs of the distribution that the tests run on managed
# memory. They are installed in containers and images only, where no service starts by that; elsewhere their tests are
# skipped and say what is missing.
set -eu
. "$(dirname "$0")/env.sh"

updated='' # package lists were fetched

complain() {
    printf 'setup: %s\n' "$*" >&2
}

compiles_c() {
    have cc && echo '#include <stdio.h>
int main(void) { return puts("") < 0; }' | cc -x c -o /dev/null - 2>/dev/null
}

# The packages whose tools are missing.
missing_packages() {
    compiles_c || printf 'gcc libc6-dev '
    have make || printf 'make '
    have pkg-config || printf 'pkg-config '
}

# Packages of programs and libraries that only tests use.
missing_programs() {
    have memcached || printf 'memcached '
    have memccapable || have memcapable || printf 'libmemcached-tools '
    have redis-server || printf 'redis-server '
    have sqlite3 || printf 'sqlite3 '
    have xz || printf 'xz-utils '
    have dpkg-source || printf 'dpkg-dev '
    [ -n "$(find /usr/include -name tcl.h 2>/dev/null | head -n 1)" ] || printf 'tcl-dev '
    [ -e /usr/include/event.h ] || printf 'libevent-dev '
    have python3 || printf 'python3 '
    [ -e /usr/include/rdma/fabric.h ] || printf 'libfabric-dev '
    have fusermount3 || printf 'fuse3 '
    have fio || printf 'fio '
    have git || printf 'git '
    have rsync || printf 'rsync '
    have setfattr || printf 'attr '
    have stress-ng || printf 'stress-ng '
    have c++ || printf 'g++ '
    have cmake || printf 'cmake '
    [ -e /usr/include/gtest/gtest.h ] || printf 'libgtest-dev '
    have nbdcopy || printf 'libnbd-bin '
    have promtool || printf 'prometheus '
    have nbdkit || printf 'nbdkit '
    have qemu-io || printf 'qemu-utils '
    [ -n "$(find /usr/lib/postgresql -name pgbench 2>/dev/null)" ] || printf 'postgresql '
    /usr/bin/python3 -c 'import numpy' 2>/dev/null || printf 'python3-numpy '
}

# asks OPTION ARGUMENT...: whether the option is among the arguments.
asks() {
    option=$1
    shift
    case " $* " in
        *" $option "*) ;;
        *) return 1 ;;
    esac
}

# What runs a command as root without asking; fails if nothing does.
as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    else
        sudo -n "$@"
    fi
}

may_install() {
    have apt-get && { [ "$(id -u)" = 0 ] || { have sudo && sudo -n true 2>/dev/null; }; }
}

update_lists() {
    [ -n "$updated" ] || as_root apt-get update -qq >&2 || complain 'apt-get update failed; trying with the lists at hand'
    updated=yes
}

install_packages() {
    complain "installing: $*"
    update_lists
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

# ---- Rust -----------------------------------------------------------------

# The minor version of a package's candidate, as in 90 for 1.90.0-1.
candidate_minor() {
    apt-cache policy "$1" 2>/dev/null | sed -n 's/^ *Candidate: \([0-9]*:\)\{0,1\}1\.\([0-9]*\)[.+~-].*/\2/p'
}

# Packages of this release that hold a Rust that is new enough.
rust_packages() {
    newest=$(apt-cache pkgnames cargo-1. | sed -n 's/^cargo-1\.\([0-9]*\)$/\1/p' | sort -n | tail -n 1)
    plain=$(candidate_minor cargo)
    if [ "${plain:-0}" -ge "$RUST_MINOR_MIN" ]; then
        echo cargo rustc
    elif [ "${newest:-0}" -ge "$RUST_MINOR_MIN" ]; then
        echo "cargo-1.$newest rustc-1.$newest"
    elif [ -n "$(candidate_minor rustup)" ]; then
        echo rustup
    fi
}

rustup_stable() {
    complain 'rustup installs the stable toolchain'
    "$1" toolchain install stable --profile minimal --component rustfmt,clippy >&2
}

install_rust() {
    for rustup in rustup "${CARGO_HOME:-$HOME/.cargo}/bin/rustup"; do
        if have "$rustup"; then
            rustup_stable "$rustup"
            return
        fi
    done
    may_install || return 1
    update_lists
    found=$(rust_packages)
    [ -n "$found" ] || return 1
    # shellcheck disable=SC2086 # a list of packages
    install_packages $found
    if [ "$found" = rustup ]; then
        rustup_stable rustup
    fi
}

explain_rustup() {
    have curl || complain '  sudo apt-get install curl'
    complain "  curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh -s -- -y"
}

explain_rust() {
    found=$(rustc --version 2>/dev/null || echo 'none found')
    complain "Rust 1.$RUST_MINOR_MIN or newer is missing ($found). Install it with"
    explain_rustup
    complain 'and run this again.'
}

# ---- Main -----------------------------------------------------------------

packages=$(missing_packages)
if [ -n "$packages" ] && may_install; then
    # shellcheck disable=SC2086
    install_packages $packages || complain 'apt-get install failed'
    packages=$(missing_packages)
fi
if [ -n "$packages" ]; then
    complain "missing: $packages- install them with"
    if have apt-get; then
        complain "  sudo apt-get install $packages"
    else
        complain "  the package manager of this system (these are Debian's names)"
    fi
    exit 1
fi
if ! choose_rust && ! { install_rust && choose_rust; }; then
    explain_rust
    exit 1
fi
if asks --programs "$@"; then
    programs=$(missing_programs)
    if [ -n "$programs" ] && [ ! -d /run/systemd/system ] && may_install; then
        # shellcheck disable=SC2086
        RUNLEVEL=1 install_packages $programs || complain 'apt-get install failed; some tests will be skipped'
    fi
fi
if asks --lint "$@"; then
    for part in fmt clippy; do
        if ! "$CARGO" $part --version >/dev/null 2>&1; then
            complain "cargo $part is missing for $CARGO. rustup has it"
            have rustup || explain_rustup
            complain '  rustup component add rustfmt clippy'
            exit 1
        fi
    done
fi
