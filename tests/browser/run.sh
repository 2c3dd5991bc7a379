#!/bin/sh
# Opens the pages of the probe, and the live page of `aquifer export`, in a headless Chromium: no console message that is an error, plots
# drawn, a PDF of several pages when printed, numbers of a running program. One result line each.
#
#   tests/browser/run.sh [FOLDER]      keeps pictures of the pages there: probe.png, live.png
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
cd "$root" || exit 1
. scripts/env.sh
# It looks for the root beside the folder of this script.
cd "$root" || exit 1
pictures=${1:-}

browser=''
for name in chromium chromium-browser google-chrome; do
    if command -v "$name" >/dev/null; then
        browser=$name
        break
    fi
done
if [ -z "$browser" ]; then
    echo 'SKIP browser: pages in a browser: Chromium is not installed (Debian package chromium)'
    exit 0
fi

work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
failed=0

pass() {
    echo "ok browser: $*"
}

fail() {
    echo "FAIL browser: $*"
    failed=1
}

# Runs the browser with a profile of its own. The sandbox needs rights that test machines often do not give; the pages are our own.
browse() {
    timeout -k 5 120 "$browser" --headless --no-sandbox --disable-gpu --hide-scrollbars --disable-background-networking \
        --no-first-run --user-data-dir="$work/profile" --enable-logging=stderr "$@"
}

# Console messages of the last run.
messages() {
    grep -E 'CONSOLE' "$work/errors"
}

# Seen before anything is believed: a page with an error must be noticed.
echo '<!DOCTYPE html><title>x</title><script>undefined_name()</script>' >"$work/wrong.html"
browse --dump-dom "$work/wrong.html" >/dev/null 2>"$work/errors"
if messages >/dev/null; then
    pass 'an error of a page is seen'
else
    fail 'an error of a page is not seen, so that the other results mean nothing'
fi

write_pages() {
    if [ -n "${AQUIFER_BUILT:-}" ]; then
        "$AQUIFER_BUILT/examples/page" "$work"
    else
        "$CARGO" run --quiet -p aquifer-probe --example page -- "$work"
    fi
}

if ! write_pages 2>"$work/errors"; then
    fail 'the example that writes the pages does not run'
    sed 's/^/    /' "$work/errors"
    exit 1
fi

for page in report comparison; do
    if browse --dump-dom "$work/$page.html" >"$work/dom" 2>"$work/errors" && grep -q '</html>' "$work/dom"; then
        if messages; then fail "$page: the console has messages"; else pass "$page: no console message"; fi
    else
        fail "$page: the browser does not open it"
        tail -n 5 "$work/errors"
    fi
done

if command -v tidy >/dev/null; then
    for page in "$work/report.html" "$work/comparison.html" crates/cli/src/export/page.html; do
        wrong=$(tidy -e -q "$page" 2>&1 | head -n 3)
        if [ -z "$wrong" ]; then pass "$(basename "$page"): valid HTML"; else fail "$(basename "$page"): $wrong"; fi
    done
else
    echo 'SKIP browser: valid HTML: tidy is not installed (Debian package tidy)'
fi

browse --dump-dom "$work/report.html" >"$work/dom" 2>/dev/null
plots=$(grep -c '<svg ' "$work/dom")
if [ "$plots" -ge 30 ]; then pass "$plots plots"; else fail "$plots plots, at least 30 are expected"; fi

browse --print-to-pdf="$work/report.pdf" "$work/report.html" 2>/dev/null
sheets=$(grep -ac '/Type */Page$\|/Type */Page[^s]' "$work/report.pdf")
if [ "${sheets:-0}" -ge 4 ]; then pass "prints on $sheets sheets"; else fail "prints on ${sheets:-0} sheets"; fi

if [ -n "$pictures" ]; then
    browse --window-size=1200,2400 --screenshot="$pictures/probe.png" "$work/report.html" 2>/dev/null || fail "no picture"
fi

# A program with more than its RAM, and an exporter of its heap.
live() {
    # shellcheck disable=SC2016 # for Perl
    "$aquifer" run --ram 16M --flash-size 1G --socket "$work/socket" -- perl -e \
        'my $x = ""; $x .= pack "Q", $_ * 2654435761 for 1 .. 4 << 20; for (1 .. 90000) { vec($x, $_ * 9973 % (31 << 20), 8) = 1; select undef, undef, undef, 0.001 }' &
    program=$!
    "$aquifer" export --socket "$work/socket" --listen 0 2>"$work/said" &
    exporter=$!
    for _ in $(seq 100); do
        [ -S "$work/socket" ] && grep -q 'is a page' "$work/said" && break
        sleep 0.1
    done
    url=$(sed -n 's|^\(http://.*/\) is a page.*|\1|p' "$work/said")
    if browse --virtual-time-budget=5000 --dump-dom "$url" >"$work/dom" 2>"$work/errors"; then
        if messages; then fail 'live page: the console has messages'; else pass 'live page: no console message'; fi
        if grep -q 'role="status" class="">live<' "$work/dom" && grep -q "process $program" "$work/dom" &&
            grep -q 'of 16.0 MiB' "$work/dom" && grep -q 'read from flash' "$work/dom"; then
            pass 'live page: numbers of the program'
        else
            fail "live page: no numbers: $(grep -o 'id="state"[^/]*' "$work/dom")"
        fi
    else
        fail 'live page: the browser does not open it'
    fi
    [ -z "$pictures" ] || browse --window-size=1200,900 --virtual-time-budget=20000 --screenshot="$pictures/live.png" "$url" 2>/dev/null
    kill "$program" 2>/dev/null
    wait "$program" 2>/dev/null
    browse --virtual-time-budget=3000 --dump-dom "$url" >"$work/dom" 2>/dev/null
    if grep -q 'class="alarm">.*no socket\|class="alarm">.*nobody answers' "$work/dom"; then
        pass 'live page: says that the program has ended'
    else
        fail "live page: does not say that the program has ended: $(grep -o 'id="state"[^/]*' "$work/dom")"
    fi
    kill "$exporter" 2>/dev/null
    wait "$exporter" 2>/dev/null
}

# A volume that a process serves, by the same page.
served() {
    head -c 20000000 /dev/urandom >"$work/bytes"
    "$aquifer" volume create "$work/volume" --size 64M >/dev/null && "$aquifer" volume cp "$work/bytes" "$work/volume:/bytes" >/dev/null ||
        fail 'a volume cannot be made'
    "$aquifer" volume serve "$work/volume" --listen "$work/clients" --socket "$work/status" >"$work/served" &
    owner=$!
    "$aquifer" export --socket "$work/status" --listen 0 2>"$work/said" &
    exporter=$!
    for _ in $(seq 100); do
        [ -S "$work/status" ] && grep -q 'is a page' "$work/said" && break
        sleep 0.1
    done
    url=$(sed -n 's|^\(http://.*/\) is a page.*|\1|p' "$work/said")
    browse --virtual-time-budget=3000 --dump-dom "$url" >"$work/dom" 2>"$work/errors"
    if ! messages && grep -q "volume of process $owner" "$work/dom" && grep -q 'nodes of the table read' "$work/dom"; then
        pass 'live page: numbers of a volume'
    else
        fail "live page: no numbers of a volume: $(grep -o 'id="state"[^/]*' "$work/dom")"
    fi
    kill "$exporter" "$owner" 2>/dev/null
    wait "$exporter" "$owner" 2>/dev/null
}

aquifer=${AQUIFER:-$PWD/build/bin/aquifer}
if [ -x "$aquifer" ] && command -v perl >/dev/null; then
    live
    served
else
    echo 'SKIP browser: live page (make lib builds the command; it needs perl too)'
fi
exit $failed
