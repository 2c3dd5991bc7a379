#!/bin/sh
# The shared library exports what the header declares, carries its name, and the list of the Debian package has its functions.
#
#   tests/c/symbols.sh LIBRARY HEADER SYMBOLS
set -u
library=$1 header=$2 symbols=$3

for tool in nm readelf; do
    if ! command -v $tool >/dev/null; then
        echo "SKIP symbols: $tool is missing (package binutils)"
        exit 0
    fi
done
declared=$(sed 's|//.*||; s|/\*.*||; /^ \*/d' "$header" | grep -o '\baq_[a-z0-9_]* *(' | tr -d ' (' | sort -u)
exported=$(nm -D --defined-only "$library" | awk '$2 == "T" { print $3 }' | sort -u)
failed=0
missing=''
for function in $declared; do
    echo "$exported" | grep -qx "$function" || missing="$missing $function"
done
if [ -n "$missing" ]; then
    echo "FAIL symbols: not exported:$missing"
    failed=1
else
    echo "ok symbols: every function of the header is exported"
fi
extra=''
for function in $(echo "$exported" | grep '^aq_'); do
    echo "$declared" | grep -qx "$function" || extra="$extra $function"
done
if [ -n "$extra" ]; then
    echo "FAIL symbols: not in the header:$extra"
    failed=1
else
    echo "ok symbols: nothing is exported that the header lacks"
fi
listed=$(sed -n 's/^ \(aq_[a-z0-9_]*\)@.*/\1/p' "$symbols" | sort -u)
if [ "$listed" = "$(echo "$exported" | grep '^aq_')" ]; then
    echo "ok symbols: the Debian package lists what is exported"
else
    echo "FAIL symbols: debian/libaquifer0.symbols lists other functions than are exported: scripts/debian-symbols.sh writes it anew"
    failed=1
fi
soname=$(readelf -d "$library" | sed -n 's/.*SONAME.*\[\(.*\)\]/\1/p')
if [ "$soname" = libaquifer.so.0 ]; then
    echo "ok symbols: soname"
else
    echo "FAIL symbols: the soname is '$soname', not libaquifer.so.0"
    failed=1
fi
exit $failed
