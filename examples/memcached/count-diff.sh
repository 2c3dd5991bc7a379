#!/bin/sh
# How far the version on the heap of Aquifer is from memcached: every line that the
# patch adds or removes counts. Prints one result line; exits with 1 over the limit.
set -eu
limit=21
cd "$(dirname "$0")"
lines=$(grep -v -e '^--- a/' -e '^+++ b/' aquifer.patch | grep -c '^[-+]')
if sed '1,/^--- /d' aquifer.patch | grep -q '^ '; then
    echo "FAIL memcached diff: the patch holds lines of context; make it with diff -U0"
    exit 1
fi
if [ "$lines" -gt "$limit" ]; then
    echo "FAIL memcached diff: $lines lines differ from memcached, at most $limit may"
    exit 1
fi
echo "ok memcached diff ($lines lines differ from memcached, at most $limit may)"
