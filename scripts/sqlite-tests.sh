#!/bin/sh
# SQLite's own test suite and speedtest1 on a volume, with the source of Debian's or Ubuntu's package; and a writer with atomic batches that is killed.
#
#   scripts/sqlite-tests.sh [--short | TEST_FILE...]      names without .test; default: all but those in tests/sqlite/exceptions
#
# --short: the files in tests/sqlite/short.txt, which take a minute or two. With them, or with names, each result has its line.
#
# SQLITE_TESTS_ON says how SQLite reaches the volume: vfs (the default), by libaquifer_sqlite.so; mount, by its own unix VFS in a folder where
# `aquifer volume mount` shows the volume. On a mount the only build is the plain one.
#
# The source is fetched once, into build/sqlite; apt checks its signature and keeps its lists there: nothing outside of it changes, and no root is
# needed. SQLite is built twice: as distributions build it, and with SQLITE_ENABLE_BATCH_ATOMIC_WRITE. Each file runs in a process and on a volume of
# its own, which is checked afterwards. A file passes if all its tests do but those that the exceptions name. One line for each that does not, and at
# the end
#
#   N passed, N failed, N skipped
#
# SQLITE_TESTS_DIR: instead of build/sqlite. SQLITE_TESTS_BUILDS: plain, batch or both, on the VFS. SQLITE_TESTS_JOBS: files at once (2).
# SQLITE_TESTS_LIMIT: seconds for each file (60). AQUIFER_PROFILE: as for scripts/build-lib.sh. SQLITE_SOURCES: lines of a sources.list in place of those below, for a mirror.
#
# Exits with 77 if this machine cannot build it (a package or the network is missing), or cannot mount.
set -u
. "$(dirname "$0")/env.sh"
out=${SQLITE_TESTS_DIR:-$ROOT/build/sqlite}
limit=${SQLITE_TESTS_LIMIT:-60}
on=${SQLITE_TESTS_ON:-vfs}

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
    done <"$out/exceptions.$on"
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

# The end of what runs in the background, also for whoever ends this process.
tester='' server=''
end() {
    [ -z "$tester" ] || { kill "$tester"; wait "$tester"; } 2>/dev/null
    # Out of what is to be unmounted.
    cd "$folder" && unmount
    exit 143
}

# Starts the process that serves disk.vol at mounted.
mount() {
    mkdir mounted && : >mount.out || return 1
    "$aquifer" volume mount --foreground --ram 64M disk.vol mounted >mount.out 2>mount.err &
    server=$!
    while [ ! -s mount.out ]; do
        kill -0 "$server" 2>/dev/null || { server=''; return 1; }
        sleep 0.05
    done
}

# Ends it. A test may have left a process that has files open: a second signal does not wait for that.
unmount() {
    [ -n "$server" ] || return 0
    kill "$server" 2>/dev/null
    tries=300
    while kill -0 "$server" 2>/dev/null; do
        tries=$((tries - 1))
        [ "$tries" -gt 0 ] || { echo 'files stay open' >>mount.err; kill "$server" 2>/dev/null; break; }
        sleep 0.1
    done
    wait "$server" || echo "it ended with status $?" >>mount.err
    server=''
}

# What a killed run of this script may have left mounted, which rm would otherwise empty.
take_away() {
    ! mountpoint -q "$1" 2>/dev/null || umount -l "$1" 2>/dev/null || fusermount3 -u -z "$1"
}

# in_background COMMAND...: waits in a way that signals end.
in_background() {
    timeout -k 5 "$limit" "$@" >"$folder/printed" 2>&1 &
    tester=$!
    wait "$tester"
    status=$?
    tester=''
    return $status
}

# run_on_vfs and run_on_mount BUILD NAME: the file's tests, with disk.vol.
run_on_vfs() {
    AQUIFER_SQLITE_LIBRARY=$library AQUIFER_VOLUME=$folder/disk.vol in_background "$out/$1/testfixture" \
        "$ROOT/tests/sqlite/prelude.tcl" "$out/$1/files.so" "$out/source/test/$2.test"
}

run_on_mount() {
    mount || { cat mount.err; return 1; } >printed
    cd mounted && in_background "$out/$1/testfixture" "$out/source/test/$2.test"
    ran=$?
    cd "$folder" && unmount
    return $ran
}

# one BUILD NAME: runs a file and leaves a line of result.
one() {
    build=$1
    folder=$out/run/$on-$1-$2
    take_away "$folder/mounted"
    rm -rf "$folder"
    mkdir -p "$folder" && cd "$folder" || exit 1
    "$volume" new disk.vol 512M "$folder" || exit 1
    : >mount.err
    "run_on_$on" "$1" "$2"
    why=$(verdict $?)
    [ -n "$why" ] || [ ! -s mount.err ] || why="the mount: $(tail -n 1 mount.err)"
    tests=$(sed -n 's/.* errors out of \([0-9]*\) tests.*/\1/p' printed)
    if [ -z "$why" ]; then
        echo "ok sqlite $on $1: $2 (${tests:-0} tests)"
        cd / && rm -rf "$folder"
    else
        echo "FAIL sqlite $on $1: $2: $why"
        rm -f disk.vol
    fi
}

# ---- All ----------------------------------------------------------------------

# The hash of what speedtest1 has read and written.
speedtest() {
    "$@" 2>&1 | sed -n 's/^Verification Hash: //p'
}

# speed_on_vfs and speed_on_mount BUILD: its hash on disk.vol.
speed_on_vfs() {
    AQUIFER_SQLITE_LIBRARY=$library AQUIFER_VOLUME=$folder/disk.vol \
        speedtest timeout 600 "$out/$1/speedtest1" --vfs aquifer --verify --size 50 volume.db
}

speed_on_mount() {
    mount && speedtest timeout 600 "$out/$1/speedtest1" --verify --size 50 mounted/volume.db
    unmount
}

# speed BUILD: speedtest1 runs to its end on a volume, and comes to the same as on the file system.
speed() (
    trap end TERM
    folder=$out/run/$on-$1-speedtest1
    take_away "$folder/mounted"
    rm -rf "$folder"
    mkdir -p "$folder" && cd "$folder" || exit 1
    "$volume" new disk.vol 1G || exit 1
    native=$(speedtest timeout 600 "$out/$1/speedtest1" --verify --size 50 native.db)
    managed=$("speed_on_$on" "$1")
    if [ -n "$managed" ] && [ "$managed" = "$native" ] && "$volume" check disk.vol >/dev/null; then
        echo "ok sqlite $on $1: speedtest1 ($managed)"
        rm -rf "$folder"
    else
        echo "FAIL sqlite $on $1: speedtest1: '$managed' instead of '$native'"
    fi
)

# killed BUILD: a writer without a journal is killed in the middle of transactions; each is there as a whole or not at all.
killed() (
    folder=$out/run/$on-$1-killed
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
            echo "FAIL sqlite $on $1: killed in round $round: $found, and $committed was committed"
            exit 1
        fi
    done
    if "$volume" check disk.vol >checked; then
        echo "ok sqlite $on $1: killed 10 times ($last rows)"
        cd / && rm -rf "$folder"
    else
        echo "FAIL sqlite $on $1: killed: $(tail -n 1 checked)"
    fi
)

volume=$BUILT/examples/volume
library=$ROOT/build/lib/libaquifer_sqlite.so
aquifer=$ROOT/build/bin/aquifer
if [ "${1:-}" = --one ]; then
    trap end TERM
    one "$2" "$3"
    exit 0
fi

mkdir -p "$out" || exit 1
out=$(cd "$out" && pwd)
export SQLITE_TESTS_DIR="$out" SQLITE_TESTS_ON="$on"
case $on in
    vfs) builds=${SQLITE_TESTS_BUILDS:-plain batch} ;;
    mount)
        builds=plain
        [ -c /dev/fuse ] || cannot 'there is no /dev/fuse here'
        [ "$(id -u)" = 0 ] || have fusermount3 || cannot 'this user may not mount; install fuse3'
        ;;
    *) cannot "SQLITE_TESTS_ON is vfs or mount, not $on" ;;
esac
cat tests/sqlite/exceptions/both.txt "tests/sqlite/exceptions/$on.txt" >"$out/exceptions.$on" || exit 1
logged build-crate scripts/build-lib.sh --quiet --lib --bins --example volume || exit 1
fetch_source
for package in tcl/tcl.h tcl8.6/tcl.h tcl.h; do
    [ ! -e "/usr/include/$package" ] || tcl_header=$(dirname "/usr/include/$package")
done
[ -n "${tcl_header:-}" ] || cannot 'tcl.h is missing; install tcl-dev'

# Each file in a process of its own group, which ends with this one.
files=''
trap '[ -z "$files" ] || { kill -s TERM -- "-$files"; wait "$files"; }; exit 130' INT TERM
all() {
    setsid xargs -P "${SQLITE_TESTS_JOBS:-2}" -n 1 "$ROOT/scripts/sqlite-tests.sh" --one "$1" <"$list" >>"$results" 2>&1 &
    files=$!
    wait "$files"
    files=''
}

results=$out/results.$on.txt list=$out/list.$on.txt
: >"$results"
skipped=0
# What is asked for by name.
# shellcheck disable=SC2046 # a list
[ "${1:-}" != --short ] || set -- $(sed -n 's/^\([a-z][^ ]*\) .*/\1/p' tests/sqlite/short.txt)
for build in $builds; do
    case $build in
        plain) built plain || exit $? ;;
        batch) built batch -DSQLITE_ENABLE_BATCH_ATOMIC_WRITE || exit $? ;;
        *) cannot "no build is called $build" ;;
    esac
    "${CC:-cc}" -O1 -shared -fPIC -I"$out/$build" -I"$tcl_header" -o "$out/$build/files.so" "$ROOT/tests/sqlite/files.c" || exit 1
    : >"$list"
    if [ $# -gt 0 ]; then
        printf '%s\n' "$@" >"$list"
    else
        for file in "$out"/source/test/*.test; do
            name=$(basename "$file" .test)
            if excepted skip "$name"; then
                skipped=$((skipped + 1))
            else
                echo "$name" >>"$list"
            fi
        done
    fi
    say "== $on $build: $(grep -c . "$list") files"
    all "$build"
    [ $# -gt 0 ] || speed "$build" >>"$results"
    [ $# -gt 0 ] || [ "$build" != batch ] || killed batch >>"$results"
done
if [ $# -gt 0 ]; then cat "$results"; else grep -v '^ok ' "$results"; fi
tests=$(sed -n 's/^ok .*(\([0-9]*\) tests)$/\1/p' "$results" | awk '{ n += $1 } END { print n + 0 }')
say "the files that passed have $tests tests; what each came to is in $results"
failed=$(grep -cv '^ok ' "$results")
say "$(grep -c '^ok ' "$results") passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
