#!/bin/sh
# Builds the site of the documents into build/site, with offline search, and follows its links.
#
#   scripts/site.sh
#
# mdBook is that of PATH, or is built once into build/tools.
set -eu
. "$(dirname "$0")/env.sh"
version=0.5.4
tools=$ROOT/build/tools
PATH=$PATH:$tools/bin

have python3 || {
    say 'site: needs python3: apt-get install python3' >&2
    exit 1
}
case $(mdbook --version 2>/dev/null || true) in
    *\ v0.5.*) ;;
    *)
        say "site: builds mdBook $version into build/tools"
        "$CARGO" install mdbook --locked --version "$version" --root "$tools"
        PATH=$tools/bin:$PATH
        ;;
esac
mdbook build docs
scripts/site.py complete build/site
say 'site: build/site/index.html'
