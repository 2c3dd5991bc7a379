#!/bin/sh
# Every test, and one line at the end that sums up:
#
#   N passed, N failed, N skipped
#
# Counted are the results of cargo test, and the lines of scripts and C programs
# that begin with "ok ", "FAIL " or "SKIP " (also "skip "). A Rust test that cannot run here
# prints "SKIP reason" and is counted as skipped, not as passed; so are ignored
# tests. Tests that only make sense with optimisation are in files named
# tests/soak*.rs, compile to nothing with debug assertions, and run optimised (profile soak).
#
#   scripts/test.sh [STEP]...      rust soak loom tidy c examples preload programs mount block sqlite remote probe install; default: all
set -u
"$(dirname "$0")/setup.sh" --programs || exit 1
. "$(dirname "$0")/env.sh"

work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
passed=0 failed=0 skipped=0 failed_steps=''

# The sum of the number before a word in the result lines of cargo test.
cargo_sum() {
    sed -n 's/^test result: .* \([0-9]*\) '"$1"'[;.].*/\1/p' "$2" | awk '{ n += $1 } END { print n + 0 }'
}

lines() {
    grep -ci "$1" "$2" || true
}

# step NAME COMMAND...: runs it, shows its output, adds its results.
step() {
    name=$1 log=$work/log
    shift
    case " $steps " in
        *" $name "*) ;;
        *) return ;;
    esac
    say "== $name: $*"
    { "$@" 2>&1; echo $? >"$work/status"; } | tee "$log"
    status=$(cat "$work/status")
    cargo_passed=$(cargo_sum passed "$log")
    told=$(lines '^SKIP ' "$log")
    cargo_told=$told
    [ "$cargo_passed" -gt 0 ] || cargo_told=0
    now_failed=$(($(cargo_sum failed "$log") + $(lines '^FAIL ' "$log")))
    if [ "$status" != 0 ]; then
        # Something that was not even counted, such as a build.
        [ "$now_failed" -gt 0 ] || now_failed=1
        failed_steps="$failed_steps $name"
    fi
    passed=$((passed + cargo_passed - cargo_told + $(lines '^ok ' "$log")))
    skipped=$((skipped + $(cargo_sum ignored "$log") + told))
    failed=$((failed + now_failed))
}

# Long tests against models, one command for each file.
soak() {
    result=0
    for file in crates/*/tests/soak*.rs; do
        [ -e "$file" ] || continue
        package=$(sed -n 's/^name = "\(.*\)"/\1/p' "${file%/tests/*}/Cargo.toml" | head -n 1)
        "$CARGO" test --profile soak -p "$package" --test "$(basename "$file" .rs)" -- --show-output || result=1
    done
    return $result
}

# Model-checks the atomic protocols: the tests named loom in the crates that use it.
loom() {
    result=0
    for manifest in crates/*/Cargo.toml; do
        grep -q '^loom' "$manifest" || continue
        package=$(sed -n 's/^name = "\(.*\)"/\1/p' "$manifest" | head -n 1)
        RUSTFLAGS='--cfg loom' CARGO_TARGET_DIR=$TARGET/loom "$CARGO" test --release -p "$package" --lib loom || result=1
    done
    return $result
}

tidy() {
    if "$CARGO" run --quiet -p xtask -- tidy; then
        say 'ok tidy'
    else
        say 'FAIL tidy'
        return 1
    fi
}

c_tests() {
    scripts/build-lib.sh && tests/c/run.sh
}

examples() {
    scripts/build-lib.sh || return 1
    result=0
    for example in btree packetcache hashcache durable-kv kv; do
        make --quiet -C "examples/$example" test || result=1
    done
    examples/memcached/build.sh && build=0 || build=$?
    # 77: the source or a package is missing; the tests say so and skip.
    [ "$build" = 0 ] || [ "$build" = 77 ] || result=1
    examples/memcached/test.sh || result=1
    return $result
}

preloaded() {
    scripts/build-lib.sh && tests/preload/run.sh
}

programs() {
    scripts/build-lib.sh && tests/programs/run.sh
}

# Any program on a volume; the checks of the mount itself are Rust tests of the command.
mounted() {
    scripts/build-lib.sh && tests/mount/postgres.sh -T 10
}

# The block device under clients of others, and under the kernel's swap.
blocks() {
    scripts/build-lib.sh && tests/block/run.sh
}

# Some files of SQLite's own test suite, by the VFS and on a mount; all of them: scripts/sqlite-tests.sh.
sqlite() {
    result=0
    for on in vfs mount; do
        SQLITE_TESTS_ON=$on SQLITE_TESTS_BUILDS=plain scripts/sqlite-tests.sh --short && ended=0 || ended=$?
        # 77: it cannot run here; it said so.
        [ "$ended" = 0 ] || [ "$ended" = 77 ] || result=1
    done
    return $result
}

remote() {
    scripts/build-lib.sh || return 1
    result=0
    tests/remote/run.sh || result=1
    tests/remote/cluster.sh 2 || result=1
    return $result
}

installed() {
    scripts/build-lib.sh && tests/install.sh
}

steps=${*:-rust soak loom tidy c examples preload programs mount block sqlite remote probe install}
step rust "$CARGO" test --workspace --no-fail-fast -- --show-output
step soak soak
step loom loom
step tidy tidy
step c c_tests
step examples examples
step preload preloaded
step programs programs
step mount mounted
step block blocks
step sqlite sqlite
step remote remote
step probe tests/probe/browser.sh
step install installed

say ''
[ -z "$failed_steps" ] || say "failed:$failed_steps"
say "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
