#!/bin/sh
# SQLite's own test suite and speedtest1 on a volume, with the source of Debian's or Ubuntu's package; and a writer with atomic batches that is killed.
#
#   scripts/sqlite-tests.sh [TEST_FILE]...      names without .test; default: all but those in tests/sqlite/exceptions.txt
#
# The source is fetched once, into build/sqlite; apt checks its signature and keeps its lists there: nothing outside of it changes, and no root is
# needed. SQLite is built twice: as distributions build it, and with SQLITE_ENABLE_BATCH_ATOMIC_WRITE. Each file runs in a process and on a volume of
# its own, which is checked afterwards. A file passes if all its tests do but those that the exceptions name. One line for each that does not, and at
# the end
#
#   N passed, N failed, N skipped
#
# SQLITE_TESTS_DIR: instead of build/sqlite. SQLITE_TESTS_BUILDS: plain, batch or both. SQLITE_TESTS_JOBS: files at once (2). SQLITE_TESTS_LIMIT: seconds
# for each file (60). SQLITE_SOURCES: lines of a sources.list in place of those below, for a mirror.
#
# Exits with 77 if this machine cannot build it (a package or the network is missing).
set -u
. "$(dirname "$0")/env.sh"
out=${SQLITE_TESTS_DIR:-$ROOT/build/sqlite}
limit=${SQLITE_TESTS_LIMIT:-60}
exceptions=$ROOT/tests/sqlite/exceptions.txt

cannot() {
    say "SKIP sqlite: $*"
    exit 77
}

# logged NAME COMMAND...: shows what the command says only if it fails.
logged() {
    log=$out/$1.log
    shift
    "$@" >"$log" 2>&1 && return
    tail -n 20 "$log" | sed 's/^/    /' >&2
    return 1
}

# ---- Source and builds ------------------------------------------------------

source_lines() {
    . /etc/os-release
    case "$ID ${ID_LIKE:-}" in
        ubuntu* | *' ubuntu'*)
            echo "deb-src [signed-by=/usr/share/keyrings/ubuntu-archive-keyring.gpg] http://archive.ubuntu.com/ubuntu noble main"
            ;;
        *debian*)
            echo "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian bookworm main"
            ;;
    esac
}

apt_get() {
    apt-get -q -o Dir::Etc::SourceList="$out/apt/sources.list" -o Dir::Etc::SourceParts=/dev/null \
        -o Dir::State::Lists="$out/apt/lists" -o Dir::Cache="$out/apt/cache" -o APT::Sandbox::User="$(id -un)" \
        -o Acquire::Retries=1 -o Acquire::http::Timeout=20 "$@"
}

download() (
    apt_get update && cd "$out/download" && apt_get source --only-source --download-only sqlite3
)

fetch_source() {
    [ ! -d "$out/source" ] || return 0
    have apt-get || cannot 'the source package is fetched by apt-get, which is not here'
    have dpkg-source || cannot 'dpkg-source is missing; install dpkg-dev'
    lines=${SQLITE_SOURCES:-$(source_lines)}
    [ -n "$lines" ] || cannot 'this is neither Debian nor Ubuntu; set SQLITE_SOURCES'
    rm -rf "$out/apt" "$out/download"
    mkdir -p "$out/apt/lists/partial" "$out/apt/cache/archives/partial" "$out/download"
    printf '%s\n' "$lines" >"$out/apt/sources.list"
    say 'fetching the source package'
    logged download download || cannot 'the source package cannot be fetched (offline?)'
    set -- "$out"/download/sqlite3_*.dsc
    logged unpack dpkg-source -x "$1" "$out/download/tree" || cannot "$1 cannot be unpacked"
    mv "$out/download/tree" "$out/source"
    rm -rf "$out/apt" "$out/download"
}

# configured FLAG...: the test program, with the VFS's hook linked in.
# shellcheck disable=SC2086 # flags are a list
configured() (
    flags="-O1 -g0 -DSQLITE_EXTRA_INIT=aquifer_extra_init $*"
    tcl=$(dirname "$(find /usr/lib -name tclConfig.sh | sort | tail -n 1)")
    ../source/configure --disable-shared --disable-amalgamation --with-tcl="$tcl" CFLAGS="$flags" && make sqlite3.h &&
        ${CC:-cc} -O1 -Wall -I. -c "$ROOT/tests/sqlite/shim.c" -o shim.o &&
        make testfixture LIBS="$PWD/shim.o -Wl,-export-dynamic" && make sqlite3.c &&
        ${CC:-cc} $flags -O2 -I. -o speedtest1 ../source/test/speedtest1.c sqlite3.c shim.o -rdynamic -lpthread -ldl -lm
)

# built NAME FLAG...
built() (
    name=$1
    shift
    [ ! -x "$out/$name/speedtest1" ] || exit 0
    say "building SQLite: $name"
    rm -rf "${out:?}/$name"
    mkdir -p "$out/$name" && cd "$out/$name" || exit 1
    logged "build-$name" configured "$@" || cannot "SQLite cannot be built; see $out/build-$name.log"
)

# ---- One file ---------------------------------------------------------------

# excepted KIND NAME: whether the exceptions name it.
excepted() {
    while read -r kind pattern _; do
        [ "$kind" = "$1" ] || continue
        # shellcheck disable=SC2254 # a pattern
        case $2 in
            $pattern) return 0 ;;
        esac
    done <"$exceptions"
    return 1
}

# A file's verdict from what it printed: nothing if all is well.
verdict() {
    [ "$1" != 124 ] || { echo "not finished after $limit s"; return; }
    [ "$1" = 0 ] || grep -aq 'errors out of' printed || { echo "ended early: $(grep -a '^/.*testfixture: ' printed | head -n 1 | cut -d: -f2- | cut -c1-100)"; return; }
    unexpected=''
    for failed in $(sed -n 's/^!Failures on these tests: //p' printed | tr ' ' '\n' | sort -u); do
        excepted fails "$failed" || excepted "$build" "$failed" || unexpected="$unexpected $failed"
    done
    [ -z "$unexpected" ] || echo "failed:$(printf '%s' "$unexpected" | cut -c1-300)"
    "$volume" check disk.vol >checked 2>&1 || echo "the volume: $(tail -n 1 checked)"
}

# one BUILD NAME: runs a file and leaves a line of result.
one() {
    build=$1
    folder=$out/run/$1-$2
    rm -rf "$folder"
    mkdir -p "$folder" && cd "$folder" || exit 1
    "$volume" new disk.vol 512M "$folder" || exit 1
    AQUIFER_SQLITE_LIBRARY=$library AQUIFER_VOLUME=$folder/disk.vol timeout -k 5 "$limit" "$out/$1/testfixture" \
        "$ROOT/tests/sqlite/prelude.tcl" "$out/$1/files.so" "$out/source/test/$2.test" >printed 2>&1
    why=$(verdict $?)
    tests=$(sed -n 's/.* errors out of \([0-9]*\) tests.*/\1/p' printed)
    if [ -z "$why" ]; then
        echo "ok sqlite $1: $2 (${tests:-0} tests)"
        cd / && rm -rf "$folder"
    else
        echo "FAIL sqlite $1: $2: $why"
        rm -f disk.vol
    fi
}

# ---- All ----------------------------------------------------------------------

# The hash of what speedtest1 has read and written.
speedtest() {
    "$@" 2>&1 | sed -n 's/^Verification Hash: //p'
}

# speed BUILD: speedtest1 runs to its end on a volume, and comes to the same as on the file system.
speed() (
    folder=$out/run/$1-speedtest1
    rm -rf "$folder"
    mkdir -p "$folder" && cd "$folder" || exit 1
    "$volume" new disk.vol 1G || exit 1
    native=$(speedtest timeout 600 "$out/$1/speedtest1" --verify --size 50 native.db)
    managed=$(AQUIFER_SQLITE_LIBRARY=$library AQUIFER_VOLUME=$folder/disk.vol \
        speedtest timeout 600 "$out/$1/speedtest1" --vfs aquifer --verify --size 50 volume.db)
    if [ -n "$managed" ] && [ "$managed" = "$native" ] && "$volume" check disk.vol >/dev/null; then
        echo "ok sqlite $1: speedtest1 ($managed)"
        rm -rf "$folder"
    else
        echo "FAIL sqlite $1: speedtest1: '$managed' instead of '$native'"
    fi
)

# killed BUILD: a writer without a journal is killed in the middle of transactions; each is there as a whole or not at all.
killed() (
    folder=$out/run/$1-killed
    rm -rf "$folder"
    mkdir -p "$folder" && cd "$folder" && mkfifo said || exit 1
    "$volume" new disk.vol 64M || exit 1
    export AQUIFER_SQLITE_LIBRARY="$library" AQUIFER_VOLUME="$folder/disk.vol"
    committed=0
    for round in 1 2 3 4 5 6 7 8 9 10; do
        "$out/$1/testfixture" "$ROOT/tests/sqlite/writer.tcl" >said 2>&1 &
        writer=$!
        exec 3<said
        for _ in 1 2 3 4 5 6 7; do
            read -r committed <&3
        done
        kill -KILL $writer
        # It says that it was killed.
        wait $writer 2>/dev/null
        exec 3<&-
        found=$(timeout 60 "$out/$1/testfixture" "$ROOT/tests/sqlite/writer.tcl" check 2>&1)
        last=$(echo "$found" | sed -n 's/^ok \([0-9]*\) 0 1$/\1/p')
        if [ "${last:-0}" -lt "$committed" ]; then
            echo "FAIL sqlite $1: killed in round $round: $found, and $committed was committed"
            exit 1
        fi
    done
    if "$volume" check disk.vol >checked; then
        echo "ok sqlite $1: killed 10 times ($last rows)"
        cd / && rm -rf "$folder"
    else
        echo "FAIL sqlite $1: killed: $(tail -n 1 checked)"
    fi
)

volume=$TARGET/release/examples/volume
library=$TARGET/release/libaquifer_sqlite.so
if [ "${1:-}" = --one ]; then
    one "$2" "$3"
    exit 0
fi

mkdir -p "$out" || exit 1
out=$(cd "$out" && pwd)
export SQLITE_TESTS_DIR="$out"
logged build-crate "$CARGO" build --release --quiet -p aquifer-sqlite --lib --example volume || exit 1
fetch_source
for package in tcl8.6/tcl.h tcl.h; do
    [ ! -e "/usr/include/$package" ] || tcl_header=$(dirname "/usr/include/$package")
done
[ -n "${tcl_header:-}" ] || cannot 'tcl.h is missing; install tcl-dev'

results=$out/results.txt
: >"$results"
skipped=0
for build in ${SQLITE_TESTS_BUILDS:-plain batch}; do
    case $build in
        plain) built plain || exit $? ;;
        batch) built batch -DSQLITE_ENABLE_BATCH_ATOMIC_WRITE || exit $? ;;
        *) cannot "no build is called $build" ;;
    esac
    "${CC:-cc}" -O1 -shared -fPIC -I"$out/$build" -I"$tcl_header" -o "$out/$build/files.so" "$ROOT/tests/sqlite/files.c" || exit 1
    : >"$out/list.txt"
    if [ $# -gt 0 ]; then
        printf '%s\n' "$@" >"$out/list.txt"
    else
        for file in "$out"/source/test/*.test; do
            name=$(basename "$file" .test)
            if excepted skip "$name"; then
                skipped=$((skipped + 1))
            else
                echo "$name" >>"$out/list.txt"
            fi
        done
    fi
    say "== $build: $(grep -c . "$out/list.txt") files"
    xargs -P "${SQLITE_TESTS_JOBS:-2}" -n 1 "$ROOT/scripts/sqlite-tests.sh" --one "$build" <"$out/list.txt" >>"$results" 2>&1
    [ $# -gt 0 ] || speed "$build" >>"$results"
    [ $# -gt 0 ] || [ "$build" != batch ] || killed batch >>"$results"
done
grep -v '^ok ' "$results"
tests=$(sed -n 's/^ok .*(\([0-9]*\) tests)$/\1/p' "$results" | awk '{ n += $1 } END { print n + 0 }')
say "the files that passed have $tests tests; what each came to is in $results"
failed=$(grep -cv '^ok ' "$results")
say "$(grep -c '^ok ' "$results") passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
