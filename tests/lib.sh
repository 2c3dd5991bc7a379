# shellcheck shell=sh
# For the scripts beside it, which say `subject=NAME` and then `. tests/lib.sh`: one result line each, and the aquifer command as a full path in $AQUIFER,
# unless they say `needs_aquifer=''` before.

failed=0
pass() {
    echo "ok ${subject:?}: $*"
}

fail() {
    echo "FAIL $subject: $*"
    # shellcheck disable=SC2034 # the scripts exit with it
    failed=1
}

# One thing is not tested, for this reason.
skip() {
    echo "SKIP $subject: $*"
}

# Nothing of a script is.
skip_all() {
    skip "$@"
    exit 0
}

if [ -n "${needs_aquifer-yes}" ]; then
    if [ -z "${AQUIFER:-}" ]; then
        for AQUIFER in build/bin/aquifer target/release/aquifer; do
            [ -x "$AQUIFER" ] && break
        done
    fi
    AQUIFER=$(realpath "$AQUIFER")
    [ -x "$AQUIFER" ] || skip_all "the aquifer command is not built (make lib): $AQUIFER"
fi
