#!/bin/sh
# What `aquifer run --profile` says about programs whose faults come from known places. Prints one line per test.
#
#   tests/preload/profile.sh AQUIFER
# shellcheck disable=SC2317 # functions are called by check
set -u
here=$(cd "$(dirname "$0")" && pwd)
aquifer=$1
dir=${AQUIFER_TEST_DIR:?}
failed=0

# check NAME COMMAND...: the command must succeed.
check() {
    name=$1
    shift
    if "$@"; then
        echo "ok preload profile: $name"
    else
        echo "FAIL preload profile: $name"
        sed 's/^/    /' "$dir/err" 2>/dev/null
        failed=1
    fi
}

cc=${CC:-cc}
"$cc" -std=c11 -D_GNU_SOURCE -O1 -g -fomit-frame-pointer -pthread -o "$dir/scans" "$here/scans.c" &&
    "$cc" -D_GNU_SOURCE -O1 -s -pthread -o "$dir/stripped" "$here/scans.c" &&
    "$cc" -D_GNU_SOURCE -O1 -g -shared -fPIC -o "$dir/late.so" -xc - <<'END' &&
long scan_late(volatile char *memory, long pages)
{
    long sum = 0;
    for (int lap = 0; lap < 4; lap++)
        for (long page = 0; page < pages; page++)
            sum += memory[page * 7919 % pages * 4096];
    return sum;
}
END
    "$cc" -D_GNU_SOURCE -O1 -g -o "$dir/loads" -xc - -ldl <<'END' || exit 1
#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int count, char **arguments)
{
    long pages = 8 << 10;
    char *memory = malloc(pages * 4096);
    memset(memory, 1, pages * 4096);
    void *library = count > 1 ? dlopen(arguments[1], RTLD_NOW) : NULL;
    long (*scan)(char *, long) = library ? dlsym(library, "scan_late") : NULL;
    if (!scan || scan(memory, pages) == 42)
        return 1;
    raise(SIGKILL);
}
END

# run OPTIONS... -- PROGRAM...
run() {
    rm -f "$dir/faults.svg"
    timeout -k 5 60 "$aquifer" run --ram 16M --flash-size 256M --threshold 4K "$@" >"$dir/out" 2>"$dir/err"
}

says() {
    grep -q "$1" "$dir/err"
}

# The hot place comes first, with 5 of 6 faults, and the other second.
names_the_hot_place() {
    awk '/^ / && $1 ~ /^[0-9]/ { n++; line[n] = $0; share[n] = $1 }
        END { exit !(n >= 2 && line[1] ~ /scan_hot at scans.c:[0-9]+ \(scans\)$/ && share[1] > 70 && share[1] < 90 &&
            line[2] ~ /scan_rarely at scans.c:/ && share[2] > 8 && share[2] < 28) }' "$dir/err"
}

draws_both() {
    grep -q 'scan_hot' "$dir/faults.svg" && grep -q 'scan_rarely' "$dir/faults.svg" &&
        grep -q 'main' "$dir/faults.svg"
}

one_thread() {
    run --profile-svg "$dir/faults.svg" -- "$dir/scans" && names_the_hot_place && draws_both
}

threads() {
    run --profile-svg "$dir/faults.svg" -- "$dir/scans" 4 && names_the_hot_place && draws_both
}

# killed HOW STATUS
killed() {
    run --profile-svg "$dir/faults.svg" -- "$dir/scans" 1 "$1"
    [ $? = "$2" ] && names_the_hot_place && draws_both
}

few_samples() {
    run --profile --profile-samples 512 -- "$dir/scans" && says '(512 samples)' && says 'scan_hot'
}

without_symbols() {
    run --profile -- "$dir/stripped" && says 'stripped+0x[0-9a-f]* (stripped)'
}

late_library() {
    run --profile -- "$dir/loads" "$dir/late.so"
    [ $? = 137 ] && says 'scan_late at .*:[0-9]* (late.so)'
}

children() {
    run --profile -- sh -c "'$dir/scans'; exit 7"
    [ $? = 7 ] && names_the_hot_place
}

fits() {
    run --profile-svg "$dir/faults.svg" -- true && says 'no faults' && [ ! -e "$dir/faults.svg" ]
}

by_a_thread() {
    run --profile --faults thread -- true
    [ $? = 125 ] && says 'leave one of'
}

nowhere_to_draw() {
    run --profile-svg "$dir/nowhere/faults.svg" -- "$dir/scans"
    [ $? = 125 ] && [ ! -s "$dir/out" ]
}

# A signal to the command reaches the program, whose status is the command's; also if it is ignored where the tests run, as under
# nohup.
forwards() {
    # shellcheck disable=SC2016 # expanded by the inner shell
    env --default-signal="$1" "$aquifer" run --profile -- \
        sh -c 'trap "exit 5" '"$1"'; echo ready; for n in $(seq 400); do sleep 0.05; done' >"$dir/out" 2>"$dir/err" &
    command=$!
    for _ in $(seq 100); do
        [ ! -s "$dir/out" ] || break
        sleep 0.05
    done
    kill -"$1" $command
    wait $command
    [ $? = 5 ]
}

leaves_no_file() {
    mkdir -p "$dir/tmp" && TMPDIR=$dir/tmp run --profile -- "$dir/scans" && [ -z "$(ls -A "$dir/tmp")" ]
}

check 'one thread' one_thread
check 'four threads' threads
check 'a program that aborts' killed abort 134
check 'a program that is killed' killed kill 137
check 'a program that ends by _exit' killed _exit 3
check 'few samples' few_samples
check 'a program without symbols' without_symbols
check 'a library that is loaded late' late_library
check 'children' children
check 'a program that fits into RAM' fits
check 'refuses faults by a thread' by_a_thread
check 'refuses a picture that has no place' nowhere_to_draw
check 'forwards SIGTERM' forwards TERM
check 'forwards SIGHUP' forwards HUP
check 'leaves no file' leaves_no_file
exit $failed
