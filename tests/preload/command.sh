#!/bin/sh
# What `aquifer run` itself does: options, reports, the flash file. Prints one line per test.
#
#   tests/preload/command.sh AQUIFER
# shellcheck disable=SC2317 # functions are called by check
set -u
aquifer=$1
dir=${AQUIFER_TEST_DIR:?}
failed=0

# check NAME COMMAND...: the command must succeed.
check() {
    name=$1
    shift
    if "$@"; then
        echo "ok preload command: $name"
    else
        echo "FAIL preload command: $name"
        sed 's/^/    /' "$dir/err" 2>/dev/null
        failed=1
    fi
}

# The program: needs as many MiB as its argument says, and as many again in a child, if there is a second argument.
cat >"$dir/need.c" <<'END'
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int fill(int mib)
{
    static char *blocks[1024];
    for (int i = 0; i < mib; i++) {
        if (!(blocks[i] = malloc(1 << 20)))
            return 1;
        memset(blocks[i], i % 100 + 1, 1 << 20);
    }
    for (int i = 0; i < mib; i++)
        for (int at = 0; at < 1 << 20; at += 4096)
            if (blocks[i][at] != i % 100 + 1)
                return 2;
    return 0;
}

int main(int count, char **arguments)
{
    int status = fill(atoi(arguments[1]));
    if (status == 0 && count > 2) {
        if (!strcmp(arguments[2], "abort"))
            abort();
        if (!strcmp(arguments[2], "_exit"))
            _exit(0);
        char command[4096];
        snprintf(command, sizeof command, "%s %s", arguments[0], arguments[2]);
        status = system(command);
    }
    return status;
}
END
${CC:-cc} -D_GNU_SOURCE -O1 -o "$dir/need" "$dir/need.c" || exit 1

# run OPTIONS... -- PROGRAM...
run() {
    timeout -k 5 60 "$aquifer" run --ram 16M --flash-size 256M --threshold 4K "$@" >"$dir/out" 2>"$dir/err"
}

says() {
    grep -q "$1" "$dir/err"
}

reports() {
    run --report -- "$dir/need" 48 && says 'exceeded its RAM  *yes' && says 'written to flash' && says 'RAM in use'
}

# Most commands close standard error at their end: a disk that is full is told then.
reports_of_commands() {
    seq 2000000 | sort -R >"$dir/numbers"
    run --report -- sort -n -S 64M --parallel=1 -o "$dir/sorted" "$dir/numbers" && says 'exceeded its RAM  *yes' &&
        [ "$(sed -n 1234567p "$dir/sorted")" = 1234567 ] &&
        run --report -- grep -c 7 "$dir/numbers" && says 'managed memory, most' && says 'grep'
}

# A child that shares memory with its parent until it is another program has a standard error of its own.
reports_beside_children() {
    cat >"$dir/children.c" <<'END'
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

int main(void)
{
    pid_t child = vfork();
    if (child == 0) {
        dup2(open("/dev/null", O_WRONLY), 2);
        _exit(0);
    }
    int status = -1;
    waitpid(child, &status, 0);
    for (int i = 0; i < 48; i++)
        memset(malloc(1 << 20), i, 1 << 20);
    return status;
}
END
    ${CC:-cc} -D_GNU_SOURCE -O1 -o "$dir/children" "$dir/children.c" || return 1
    run --report -- "$dir/children" && says 'exceeded its RAM  *yes'
}

# A file that got the number of standard error is the program's.
reports_into_no_file() {
    cat >"$dir/number.c" <<'END'
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int count, char **arguments)
{
    if (strcmp(arguments[2], "fclose") == 0)
        fclose(stderr);
    else if (strcmp(arguments[2], "close_range") == 0)
        close_range(2, 2, 0);
    else
        close(2);
    if (open(arguments[1], O_CREAT | O_TRUNC | O_RDWR, 0600) != 2 || write(2, "bytes", 5) != 5)
        return 3;
    for (int i = 0; i < 48; i++)
        memset(malloc(1 << 20), i, 1 << 20);
    return 0;
}
END
    ${CC:-cc} -D_GNU_SOURCE -O1 -o "$dir/number" "$dir/number.c" || return 1
    for how in close close_range fclose; do
        run --report -- "$dir/number" "$dir/file" $how || return 1
        printf 'bytes' | cmp - "$dir/file" >>"$dir/err" || return 1
    done
    # The last was closed as commands close it.
    says 'exceeded its RAM  *yes'
}

# Who has more than half of --ram beside the heap is told how much.
tells_of_what_is_not_managed() {
    "$aquifer" run --ram 16M --flash-size 256M --threshold 2M -- "$dir/need" 48 2>"$dir/err" &&
        says 'need: 4[0-9]\.. MiB of its memory were not managed' &&
        "$aquifer" run --ram 128M --flash-size 1G --threshold 2M -- "$dir/need" 48 2>"$dir/err" && [ ! -s "$dir/err" ]
}

takes_a_device_profile() {
    printf 'aquifer-device-profile = 1\nwrite_depth = 2\nread_ahead_pages = 16\n' >"$dir/device.profile"
    run --report --device-profile "$dir/device.profile" -- "$dir/need" 48 && says 'exceeded its RAM  *yes'
}

refuses_a_broken_device_profile() {
    printf 'aquifer-device-profile = 1\nwrite_depth = two\n' >"$dir/device.profile"
    run --device-profile "$dir/device.profile" -- "$dir/need" 2
    [ $? = 125 ] && says 'line 2: write_depth' && [ "$(wc -l <"$dir/err")" = 1 ]
}

reports_that_ram_sufficed() {
    run --report -- "$dir/need" 2 && says 'exceeded its RAM  *no'
}

is_silent() {
    run -- "$dir/need" 48 && [ ! -s "$dir/err" ] && [ ! -s "$dir/out" ]
}

json() {
    if command -v python3 >/dev/null; then
        python3 -c '
import json, sys
report = json.load(open(sys.argv[1]))
assert report["exceeded_ram"] is (sys.argv[2] == "yes"), report
assert report["block_bytes_max"] >= int(sys.argv[3]) << 20, report
assert (report["stats"] is None) == (sys.argv[2] == "no"), report
assert report["pid"] > 0 and report["program"] and report["version"], report
if report["stats"]:
    assert report["stats"]["ram_used_bytes"] <= 16 << 20, report["stats"]
' "$@" 2>>"$dir/err"
    else
        grep -q '"exceeded_ram":' "$1"
    fi
}

reports_as_json() {
    run --report-json "$dir/r.json" -- "$dir/need" 48 && json "$dir/r.json" yes 48 &&
        run --report-json "$dir/r.json" -- "$dir/need" 2 && json "$dir/r.json" no 2
}

children_report_for_themselves() {
    rm -f "$dir"/c.json*
    run --report-json "$dir/c.json" -- "$dir/need" 40 30 && json "$dir/c.json" yes 40 || return 1
    [ "$(find "$dir" -name 'c.json.*' | wc -l)" = 1 ] && json "$dir"/c.json.* yes 30
}

# Batch systems limit address space; too little for the RAM is said.
works_under_a_limit_on_address_space() {
    # shellcheck disable=SC3045 # shells of Debian and Ubuntu have it
    (ulimit -v 1048576 && "$aquifer" run --ram 16M --report -- "$dir/need" 48) 2>"$dir/err" && says 'exceeded its RAM  *yes' || return 1
    # shellcheck disable=SC3045
    (ulimit -v 614400 && "$aquifer" run --ram 512M -- "$dir/need" 2) 2>"$dir/err"
    [ $? = 125 ] && says 'ulimit -v'
}

takes_the_ram_that_there_is() {
    "$aquifer" run --ram auto --flash-size 1G --report -- "$dir/need" 2 2>"$dir/err" && says 'exceeded its RAM  *no'
}

# The file is gone afterwards if it was not there before.
leaves_no_flash_file() {
    run --flash "$dir/flash" -- "$dir/need" 48 "$1" || [ "$1" = abort ] || return 1
    [ ! -e "$dir/flash" ]
}

# A child that exceeds RAM too has a file of its own.
children_have_files_of_their_own() {
    run --flash "$dir/flash" -- "$dir/need" 48 40 && [ ! -e "$dir/flash" ] && [ ! -s "$dir/err" ]
}

keeps_a_flash_file() {
    : >"$dir/kept" && run --flash "$dir/kept" -- "$dir/need" 48 40 && [ -f "$dir/kept" ]
}

overwrites_no_data() {
    seq 100000 >"$dir/precious"
    run --flash "$dir/precious" -- "$dir/need" 48
    [ $? = 125 ] && says 'holds data' && seq 100000 | cmp - "$dir/precious" 2>>"$dir/err" || return 1
    # What a killed process left is used again.
    run --flash "$dir/left" -- sh -c "$dir/need 48; kill -9 \$\$"
    run --flash "$dir/left" -- "$dir/need" 48
}

uses_a_directory() {
    mkdir -p "$dir/d" && run --flash "$dir/d" -- "$dir/need" 48 40 && [ -z "$(ls -A "$dir/d")" ]
}

passes_the_status_on() {
    run -- sh -c 'exit 42'
    [ $? = 42 ]
}

refuses_what_cannot_run() {
    run -- /nonexistent/program
    [ $? = 127 ] && says 'there is no program' || return 1
    # shellcheck disable=SC2016 # for the script
    printf '#!/bin/sh\necho script "$1"\n' >"$dir/script" && chmod +x "$dir/script"
    run -- "$dir/script" works && grep -q 'script works' "$dir/out" || return 1
    echo 'int main(void) { return 0; }' >"$dir/s.c"
    if ${CC:-cc} -static -o "$dir/s" "$dir/s.c" 2>/dev/null; then
        run -- "$dir/s"
        [ $? = 126 ] && says 'statically linked' || return 1
    fi
    run -- "$dir"
    [ $? = 126 ]
}

# What is wrong with flash is said before the program starts, and what to do.
looks_at_flash_first() {
    refused() {
        what=$1
        shift
        "$aquifer" run "$@" -- "$dir/need" 2 2>"$dir/err"
        [ $? = 125 ] && says "$what" && [ "$(wc -l <"$dir/err")" = 1 ] || { echo "    not '$what' of $*: $(cat "$dir/err")"; return 1; }
        ! "$aquifer" doctor "$@" >"$dir/out" && grep -q 'does not work here' "$dir/out"
    }
    mkfifo "$dir/pipe"
    more=$(($(df --output=size -BM "$dir" | tail -1 | tr -dc 0-9) + 1024))
    refused 'does not exist' --flash "$dir/nowhere/file" &&
        refused 'neither a regular file nor' --flash "$dir/pipe" &&
        refused 'are available' --ram $((more / 64))M --flash "$dir" --flash-size ${more}M &&
        refused 'at least' --ram 16M --flash "$dir" --flash-size 1M || return 1
    : >"$dir/used"
    flock "$dir/used" "$aquifer" run --ram 16M --flash "$dir/used" -- "$dir/need" 2 2>"$dir/err"
    [ $? = 125 ] && says 'is in use' || return 1
    [ "$(id -u)" = 0 ] && return 0
    mkdir -m 555 "$dir/closed"
    refused 'no permission' --flash "$dir/closed"
}

says_when_flash_is_full() {
    run -- "$dir/need" 400
    [ $? = 1 ] && says 'memory was refused' && says 'flash-size'
}

# Memory that would be taken over holds the stack: no more is given than fits in RAM, and a line says why.
says_what_stack_is_in_the_way() {
    cat >"$dir/coroutine.c" <<'END'
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

static ucontext_t back, coroutine;
static int status = 1;

static void work(void)
{
    for (int i = 0; i < 64; i++) {
        char *block = malloc(1 << 20);
        if (!block)
            return;
        memset(block, i, 1 << 20);
    }
    status = 0;
}

int main(void)
{
    getcontext(&coroutine);
    coroutine.uc_stack.ss_size = 1 << 20;
    coroutine.uc_stack.ss_sp = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    coroutine.uc_link = &back;
    makecontext(&coroutine, work, 0);
    swapcontext(&back, &coroutine);
    return status;
}
END
    ${CC:-cc} -D_GNU_SOURCE -o "$dir/coroutine" "$dir/coroutine.c" || return 1
    run -- "$dir/coroutine"
    [ $? = 1 ] && says 'a stack lies in the memory' && says 'threshold'
}

# More is protected than can stay in RAM when the memory becomes managed: it is accessible from then on, and a line says so.
opens_what_cannot_be_kept() {
    cat >"$dir/protected.c" <<'END'
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

int main(void)
{
    size_t bytes = 10 << 20;
    char *kept = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (size_t at = 0; at < bytes; at++)
        kept[at] = (char)(at * 7);
    mprotect(kept, bytes, PROT_READ);
    for (int i = 0; i < 30; i++)
        memset(malloc(1 << 20), i, 1 << 20);
    mprotect(kept, bytes, PROT_READ | PROT_WRITE);
    for (size_t at = 0; at < bytes; at++)
        if (kept[at] != (char)(at * 7))
            return 3;
    return 0;
}
END
    ${CC:-cc} -D_GNU_SOURCE -o "$dir/protected" "$dir/protected.c" || return 1
    run -- "$dir/protected" && says 'is not any more'
}

# What it has to say cannot be written: the program goes on, and its status is its own.
goes_on_without_standard_error() {
    "$aquifer" run --ram 16M --flash-size 64M --report -- "$dir/need" 400 2>/dev/full
    [ $? = 1 ] && "$aquifer" run --ram 16M --flash-size 256M --report -- "$dir/need" 48 2>&-
}

# Blocks stay with the C library, and mappings of the program do not.
manages_mappings_alone() {
    cat >"$dir/both.c" <<'END'
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

int main(void)
{
    size_t bytes = 40 << 20;
    char *mapped = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *block = malloc(6 << 20);
    memset(block, 1, 6 << 20);
    for (size_t at = 0; at < bytes; at++)
        mapped[at] = (char)(at * 7);
    for (size_t at = 0; at < bytes; at++)
        if (mapped[at] != (char)(at * 7))
            return 3;
    free(block);
    return 0;
}
END
    ${CC:-cc} -D_GNU_SOURCE -o "$dir/both" "$dir/both.c" || return 1
    run --report -- "$dir/both" && says 'managed memory, most *46\.0 MiB' &&
        run --malloc no --report -- "$dir/both" && says 'managed memory, most *40\.0 MiB' && says 'exceeded its RAM  *yes'
}

# A program that waits for flash longer than it runs is told so, with the RAM that would help; where the flash is so fast that this one runs longer, it is not.
says_that_it_thrashes() {
    cat >"$dir/thrash.c" <<'END'
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Touches pages of the first 32 of 96 MiB in no order until there is a file of the name given. They were written last: not even the first touch of one needs more RAM. */
int main(int count, char **arguments)
{
    size_t bytes = 96 << 20, used = 32 << 20;
    volatile char *memory = malloc(bytes);
    uint64_t state = count;
    memset((char *)memory + used, 1, bytes - used);
    memset((char *)memory, 1, used);
    while (access(arguments[1], F_OK) != 0)
        for (int i = 0; i < 5000; i++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            (void)memory[(state >> 20) % used];
        }
    return 0;
}
END
    ${CC:-cc} -D_GNU_SOURCE -O1 -o "$dir/thrash" "$dir/thrash.c" || return 1
    rm -f "$dir/enough"
    run --report-json "$dir/t.json" -- "$dir/thrash" "$dir/enough" &
    running=$!
    for _ in $(seq 160); do
        says 'waited for flash longer' && break
        sleep 0.25
    done
    : >"$dir/enough"
    wait "$running" || return 1
    if says 'waited for flash longer'; then
        says 'with --ram [34][0-9]M three of four'
    else
        python3 -c 'import json, sys; r = json.load(open(sys.argv[1])); assert r["flash_wait_seconds"] < r["cpu_seconds"], r' "$dir/t.json" 2>>"$dir/err"
    fi
}

by_a_thread() {
    run --faults thread -- "$dir/need" 48
}

# Calls that are not caught, too.
calls_by_a_thread() {
    "${CC:-cc}" -std=c11 -D_GNU_SOURCE -O1 -pthread raw_calls.c -o "$dir/raw_calls" 2>"$dir/err" &&
        "$aquifer" run --ram 16M --flash-size 512M --threshold 4K --faults thread -- "$dir/raw_calls" thread >"$dir/err" 2>&1
}

check 'works under a limit on address space' works_under_a_limit_on_address_space
check 'takes the RAM that there is' takes_the_ram_that_there_is
check 'reports' reports
check 'reports of commands' reports_of_commands
check 'reports beside children' reports_beside_children
check 'reports into no file' reports_into_no_file
check 'reports that RAM sufficed' reports_that_ram_sufficed
check 'tells of what is not managed' tells_of_what_is_not_managed
check 'takes a device profile' takes_a_device_profile
check 'refuses a broken device profile' refuses_a_broken_device_profile
check 'is silent' is_silent
check 'reports as JSON' reports_as_json
check 'children report for themselves' children_report_for_themselves
check 'leaves no flash file' leaves_no_flash_file 1
check 'leaves no flash file after abort' leaves_no_flash_file abort
check 'leaves no flash file after _exit' leaves_no_flash_file _exit
check 'children have files of their own' children_have_files_of_their_own
check 'keeps a flash file that was there' keeps_a_flash_file
check 'overwrites no data' overwrites_no_data
check 'uses a directory' uses_a_directory
check 'passes the status on' passes_the_status_on
check 'refuses what cannot run' refuses_what_cannot_run
check 'looks at flash first' looks_at_flash_first
check 'says when flash is full' says_when_flash_is_full
check 'says what stack is in the way' says_what_stack_is_in_the_way
check 'opens what cannot be kept' opens_what_cannot_be_kept
check 'goes on without standard error' goes_on_without_standard_error
check 'manages mappings alone' manages_mappings_alone
check 'says that it thrashes' says_that_it_thrashes
check 'handles faults by a thread' by_a_thread
check 'serves calls of all kinds by a thread' calls_by_a_thread
exit $failed
