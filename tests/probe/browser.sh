#!/bin/sh
# Opens the pages of the probe in a headless Chromium: no console message that is an error, nothing asked of the network, plots drawn,
# and a PDF of several pages when printed. One result line each.
#
#   tests/probe/browser.sh [SCREENSHOT.png]      keeps a picture of the page there
set -u
cd "$(dirname "$0")/../.." || exit 1
. scripts/env.sh
picture=${1:-}

browser=''
for name in chromium chromium-browser google-chrome; do
    if command -v "$name" >/dev/null; then
        browser=$name
        break
    fi
done
if [ -z "$browser" ]; then
    echo 'SKIP probe pages in a browser: Chromium is not installed (Debian package chromium)'
    exit 0
fi

work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
failed=0

pass() {
    echo "ok probe page: $*"
}

fail() {
    echo "FAIL probe page: $*"
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

browse --dump-dom "$work/report.html" >"$work/dom" 2>/dev/null
plots=$(grep -c '<svg ' "$work/dom")
if [ "$plots" -ge 30 ]; then pass "$plots plots"; else fail "$plots plots, at least 30 are expected"; fi

browse --print-to-pdf="$work/report.pdf" "$work/report.html" 2>/dev/null
sheets=$(grep -ac '/Type */Page$\|/Type */Page[^s]' "$work/report.pdf")
if [ "${sheets:-0}" -ge 4 ]; then pass "prints on $sheets sheets"; else fail "prints on ${sheets:-0} sheets"; fi

if [ -n "$picture" ]; then
    browse --window-size=1200,2400 --screenshot="$work/picture.png" "$work/report.html" 2>/dev/null
    mv "$work/picture.png" "$picture" || fail "no picture"
fi
exit $failed
