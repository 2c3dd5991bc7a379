#!/bin/sh
# How far the version on the heap of Aquifer is from the version on malloc: every
# line that one of the two has and the other has not counts.
# Prints one result line; exits with 1 over the limit.
set -eu
limit=15
cd "$(dirname "$0")"
lines=$(diff -r plain aquifer | grep -c '^[<>]' || true)
if diff -r plain aquifer | grep -q '^Only in'; then
    echo "FAIL sessions diff: plain/ and aquifer/ hold different files"
    exit 1
fi
if [ "$lines" -gt "$limit" ]; then
    echo "FAIL sessions diff: $lines lines differ from the malloc version, at most $limit may"
    exit 1
fi
echo "ok sessions diff ($lines lines differ from the malloc version, at most $limit may)"
