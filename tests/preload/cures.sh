#!/bin/sh
# What `aquifer doctor`, `aquifer run` and the library say when something is in the way, tried: each row makes a condition, holds what is said against a pattern, takes
# the remedy out of the printed text, applies it, and the same works then. One line for each row that fails or cannot be made here.
#
#   cures.sh AQUIFER
# shellcheck disable=SC2016,SC2034,SC2086,SC2317 # shell text and names for `row`, lists of words
set -u
here=$(cd "$(dirname "$0")" && pwd)
work=${AQUIFER_TEST_DIR:?}
failed=0 rows=0 skipped=0 donor=
# shellcheck source=examples/limits.sh
. "$here/../../examples/limits.sh"
trap 'remove_group; [ -z "$donor" ] || kill $donor' EXIT
trap 'exit 130' INT TERM

# ---- What rows are made of ---------------------------------------------------

# Other users run them, too.
mkdir -p "$work/bin" "$work/lib" "$work/alone/bin" "$work/small"
cp "$1" "$work/bin/aquifer"
cp "${1%/*}/libaquifer_preload.so" "$work/lib" 2>/dev/null || cp "${1%/*}/../lib/libaquifer_preload.so" "$work/lib"
aquifer=$work/bin/aquifer PATH=$work/bin:$PATH
cc=${CC:-cc} flags='-std=c11 -D_GNU_SOURCE -O1 -Wall -Wextra -Werror -pthread'
$cc $flags "$here/cures.c" -o "$work/cures" || exit 1
$cc $flags "$here/contained.c" -o "$work/contained" || exit 1

skip() {
    echo "skip preload cures: $name: $*"
    skipped=$((skipped + 1))
}

fail() {
    echo "FAIL preload cures: $name: $*"
    sed 's/^/    /' "$work/err" "$work/said"
    failed=1
}

# within COMMAND...: after what the row's condition is; descriptors of whoever runs this do not count.
within() {
    timeout -k 5 60 sh -c "exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-; $condition; exec \"\$@\"" sh "$@" >"$work/out" 2>"$work/err"
    status=$?
}

# can CONDITION [COMMAND...]: whether a command runs after that.
can() {
    condition=$1
    shift
    within "${@:-true}"
    [ $status = 0 ] || { skip "$(head -1 "$work/err")"; return 1; }
}

# without OPTION: the options but that one.
without() {
    echo " $options" | sed "s| $1 [^ ]*||"
}

# Runs the row's program, or doctor; what is said goes to $work/said, in one line, of doctor that of one part.
asks() {
    case $kind in
        part:*)
            within "$aquifer" doctor $options
            awk -v name="${kind#part:} " '/^[^ ]/ { is_it = index($0, name) == 1 } is_it' "$work/out" | tr -s ' \n' ' ' >"$work/said"
            ;;
        *)
            within "$aquifer" run $options -- $program
            grep -E '^(aquifer|error): ' "$work/err" >"$work/said"
            ;;
    esac
}

# Whether it is refused as it should be: before the program starts, by doctor as well, or in the middle; one line in any case.
is_refused() {
    case $kind in
        part:*) grep -q "^${kind#part:} *no " "$work/said" ;;
        run) [ "$(wc -l <"$work/said")" = 1 ] ;;
        value) [ $status -ge 125 ] && [ $status -le 127 ] && [ ! -s "$work/out" ] && [ "$(wc -l <"$work/said")" = 1 ] ;;
        *)
            [ $status -ge 125 ] && [ $status -le 127 ] && [ ! -s "$work/out" ] && [ "$(wc -l <"$work/err")" = 1 ] || return 1
            [ "$kind" = early ] && return 0
            within "$aquifer" doctor $options
            [ $status = 1 ] && grep -qE "does not work here.*$sentence" "$work/out"
            ;;
    esac
}

works() {
    case $kind in
        part:*) grep -q "^${kind#part:} *yes " "$work/said" ;;
        *) [ $status = 0 ] && grep -q '^right$' "$work/out" && ! grep -qE "$sentence" "$work/said" ;;
    esac
}

# row NAME KIND CONDITION OPTIONS PROGRAM SENTENCE REMEDY CURE
#   KIND        start: `aquifer run` and doctor refuse; early: `aquifer run` does; run: a line in the middle; value: the command line does not
#               take it; part:NAME: a part of doctor is not ready
#   CONDITION   shell text in front of the command
#   REMEDY      what is taken out of the text, a pattern
#   CURE        how it is applied. option: it is an option with its value; out: an option to leave out; shell: a command before the program; with:OPTION,
#               runs:PROGRAM, under:CONDITION: in place of the row's; else shell text
row() {
    name=$1 kind=$2 condition=$3 options=$4 program=$5 sentence=$6 pattern=$7 cure=$8
    rows=$((rows + 1))
    asks
    grep -qE "$sentence" "$work/said" || { fail "does not say '$sentence', status $status"; return; }
    remedy=$(grep -oE -- "$pattern" "$work/said" | head -1)
    [ -n "$remedy" ] || { fail "names no remedy as '$pattern'"; return; }
    is_refused || { fail "is not refused in one line, status $status"; return; }
    case $cure in
        option) options="$(without "${remedy%% *}") $remedy" ;;
        out) options=$(without "${remedy%% *}") ;;
        shell)
            condition="$condition; $remedy"
            sh -c "$condition" 2>/dev/null || { skip "$remedy: not allowed"; return; }
            ;;
        with:*) cure=${cure#with:} options="$(without "${cure%% *}") $cure" ;;
        runs:*) program=${cure#runs:} ;;
        under:*) condition=${cure#under:} condition=${condition:-:} ;;
        *) eval "$cure" ;;
    esac
    asks
    works || fail "'$remedy' does not cure it, status $status: $(tail -1 "$work/out")"
}

flash="--flash $work --flash-size 256M"
base="--ram 16M $flash" on="--ram 16M --flash-size 256M --flash"
fill="$work/cures fill" few="$work/cures fill 2"

# ---- Options -----------------------------------------------------------------

row 'too little RAM' start : "--ram 1M $flash" "$fill" 'needs at least' '--ram [0-9]+M' option
row 'more RAM than the machine has' start : "--ram 100T $flash" "$fill" 'more than the machine' '--ram auto' option
row 'more RAM than there is to stay' start : "--ram 16M --ram-min 1G $flash" "$fill" 'is more than --ram' '--ram-min [0-9]+M' option
row 'too little flash' start : "--ram 16M --flash $work --flash-size 1M" "$fill" 'needs at least' '--flash-size' out
row 'a profile by a thread' early : "$base --profile --faults thread" "$fill" 'leave one of' '--faults thread' out
row 'no place for a picture' early : "$base --profile-svg $work/nowhere/svg" "$fill" 'no flame graph' 'name another path' "with:--profile-svg $work/svg"
row 'no place for samples' early "export TMPDIR=$work/nowhere" "$base --profile" "$fill" 'no file for samples' 'name another directory in TMPDIR' \
    "under:export TMPDIR=$work"
row 'no place for a report' early : "$base --report-json $work/nowhere/json" "$fill" 'cannot be written' 'name another path' "with:--report-json $work/json"
row 'no place for a socket' early : "$base --socket $work/nowhere/socket" "$fill" 'cannot be written' 'name another path' "with:--socket $work/socket"
row 'no profile of a device' early : "$base --device-profile $work/none" "$fill" 'device profile .*No such file' 'aquifer advise --write-profile' \
    'printf "aquifer-device-profile = 1\nwrite_depth = 2\n" >"$work/none"'
name='donors'
"$aquifer" donate --lend 16M --slab 8M --headroom 64M --lend-to-own-machine --listen 127.0.0.1:0 >"$work/donor" 2>&1 &
donor=$!
for _ in $(seq 100); do
    port=$(sed -n 's/^lends at [^ ]*:\([0-9]*\) .*/\1/p' "$work/donor")
    [ -z "$port" ] && kill -0 $donor 2>/dev/null || break
    sleep 0.1
done
if [ -n "$port" ]; then
    row 'a donor without a port' early : "$base --donors 127.0.0.1" "$few" 'no donor can be reached' 'HOST:PORT' "with:--donors 127.0.0.1:$port"
    row 'a donor that is not there' early : "$base --donors 127.0.0.1:1" "$few" 'does not answer' 'is `aquifer donate` running' "with:--donors 127.0.0.1:$port"
else
    skip "none lends here: $(tail -1 "$work/donor")"
fi
kill $donor 2>/dev/null; donor=

# ---- Flash -------------------------------------------------------------------

mkfifo "$work/pipe"
: >"$work/used"
# More than the device holds: what is free changes while others run, by more than any margin.
more=$(($(df --output=size -BM "$work" | tail -1 | tr -dc 0-9) + 1024))
row 'more flash than is free' start : "--ram $((more / 64))M --flash $work --flash-size ${more}M" "$fill" 'are available' '--flash-size [0-9]+M' option
row 'more flash than is free' part:flash : "--ram $((more / 64))M --flash $work --flash-size ${more}M" '' 'are free' '--flash-size [0-9]+M' option
row 'flash missing' start : "$on $work/nowhere/file" "$fill" 'does not exist' 'create the folder' 'mkdir "$work/nowhere"'
row 'flash that is a pipe' start : "$on $work/pipe" "$fill" 'neither a regular file' 'name one of these, or a folder' "with:--flash $work"
row 'flash in use' start "set -- flock $work/used \"\$@\"" "$on $work/used" "$fill" 'is in use' 'stop the process' under:
row 'flash in use by a child' run : "$on $work/used" "$work/cures fork" 'memory was refused.* is in use' 'another --flash' "with:--flash $work"
row 'a limit on files' start 'ulimit -S -f 20000' "$base" "$fill" 'no file in' 'ulimit -f unlimited' shell
row 'flash that fills up' run : "--ram 16M --flash $work --flash-size 32M" "$fill" 'memory was refused.* is full' 'larger --flash-size' "with:--flash-size 256M"

# ---- Limits ------------------------------------------------------------------

# The first that cannot be opened is the flash, and userfaultfd.
for files in 4 5; do
    row "$files open files" run "ulimit -S -n $files" "$base" "$fill" 'memory was refused' 'ulimit -n [0-9]+' shell
done
row 'few open files' 'part:open files' 'ulimit -S -n 30' "$base" '' '30 at a time' 'ulimit -n [0-9]+' shell
row 'few open files for good' 'part:open files' 'ulimit -n 30' "$base" '' '30 at a time' 'docker run --ulimit nofile=[0-9]+' 'condition="ulimit -n ${remedy##*=}"'
row 'address space below RAM' start 'ulimit -S -v 614400' "--ram 512M --flash $work --flash-size 1G" "$fill" 'leaves .* for managed memory' 'ulimit -v unlimited' shell
row 'RAM above address space' start 'ulimit -S -v 614400' "--ram 512M --flash $work --flash-size 1G" "$fill" 'leaves .* for managed memory' '--ram [0-9]+M' option
row 'address space for little' start 'ulimit -S -v 100000' "$base" "$fill" 'leaves .* for managed memory' 'ulimit -v unlimited' shell
row 'address space below flash' run 'ulimit -S -v 600000' "--ram 16M --flash $work --flash-size 1G" "$fill 300" 'memory was refused' 'ulimit -v unlimited' shell
row 'address space' 'part:address space' 'ulimit -S -v 600000' "--ram 16M --flash $work --flash-size 1G" '' 'a half at most' 'ulimit -v unlimited' shell
row 'a limit on data' start 'ulimit -S -d 10000' "$base" "$fill" 'address space for managed memory' 'ulimit -d unlimited' shell
name='few threads' drop=
[ "$(id -u)" != 0 ] || drop='setpriv --reuid=54321 --clear-groups'
one="set -- prlimit --nproc=1 $drop \"\$@\""
! can "$one" || row "$name" run "$one" "$base" "$fill" 'no thread could be made' 'raise the limit on processes and threads' "under:set -- $drop \"\$@\""

# ---- Programs ----------------------------------------------------------------

cp "$work/cures" "$work/closed" && cp "$work/cures" "$work/user" && cp "$work/cures" "$work/group"
echo 'neither a script nor a program' >"$work/text"
chmod 644 "$work/closed" && chmod u+s "$work/user" && chmod g+s "$work/group" && chmod 755 "$work/text"
cp "$aquifer" "$work/alone/bin"
row 'no such program' early : "$base" "$work/nowhere/cures" 'there is no program' 'give its path' "runs:$fill"
row 'a folder' early : "$base" "$work" 'cannot be run' 'give the path of a program' "runs:$fill"
row 'a file that may not be run' early : "$base" "$work/closed fill" 'cannot be run' 'give the path of a program that this user may run' 'chmod 755 "$work/closed"'
row 'a text' early : "$base" "$work/text" 'not a program for' 'use a build that is' "runs:$fill"
for bit in user group; do
    row "set-$bit-ID" early : "$base" "$work/$bit fill" 'rights of its owner' "a copy without .*set-$bit-ID" \
        'cp "$work/$bit" "$work/plain" && chmod 755 "$work/plain"; program="$work/plain fill"'
done
name='a static program'
$cc $flags -static "$here/cures.c" -o "$work/static" 2>/dev/null || skip 'none can be linked here'
[ ! -e "$work/static" ] || row "$name" early : "$base" "$work/static fill" 'statically linked' 'use a dynamically linked build' "runs:$fill"
row 'no library' start "shift; set -- $work/alone/bin/aquifer \"\$@\"" "$base" "$fill" 'neither in' 'AQUIFER_PRELOAD' \
    'condition="$condition; export AQUIFER_PRELOAD=$work/lib/libaquifer_preload.so"'
row 'a library that is named' start "export AQUIFER_PRELOAD=$work/nowhere.so" "$base" "$fill" 'which is no file' 'unset' under:
row 'a library that is named' 'part:preload library' "export AQUIFER_PRELOAD=$work/nowhere.so" "$base" '' 'which is no file' 'unset AQUIFER_PRELOAD' shell
row 'a stack in a block' run : "$base" "$work/cures coroutine" 'a stack lies in' '--threshold' "with:--threshold 2M"
row 'a stack of a thread' run : "$base" "$work/cures stack" "a thread's stack" 'map it with MAP_STACK' "runs:$work/cures stack-mapped"
for when in late early; do
    row "protected $when" run : "$base" "$work/cures protected-$when" 'protect' 'more --ram' "with:--ram 64M"
done
row 'small blocks left out' run : "$base --threshold 2M" "$fill" 'were not managed' '--threshold' out
row 'blocks left out' run : "$base --malloc no" "$fill" 'were not managed' '--malloc no' out
for what in ring aio own-ring; do
    name=$what
    ! can : "$aquifer" run $base --faults thread -- "$work/cures" "$what" || row "$name" run : "$base" "$work/cures $what" 'io_uring|aio' '--faults thread' option
done

# ---- The kernel, and containers ----------------------------------------------

name='an old kernel'
old="set -- setarch $(uname -m) --uname-2.6 \"\$@\""
if can "$old"; then
    row "$name" start "$old" "$base" "$fill" 'this kernel is 2.6' 'needs Linux [0-9.]+ or newer' under:
    row "$name" part:kernel "$old" "$base" '' 'is older than' 'a newer kernel' under:
fi
inside='set -- bwrap --bind / / --dev /dev --unshare-all --uid 65534 --gid 65534 --die-with-parent'
launcher="set -- $work/contained \"\$@\""
proc='--proc /proc "$@"'
name='containers'
if can "$inside $proc"; then
    mkdir -m 555 "$work/closed.folder"
    row 'flash that is read-only' start "$inside --ro-bind $work/small $work/small $proc" "$on $work/small" "$fill" 'cannot be written' \
        'remount its file system writable' "under:$inside $proc"
    row 'flash that is closed' start "$inside $proc" "$on $work/closed.folder" "$fill" 'no permission' 'change its owner or mode' 'chmod 755 "$work/closed.folder"'
    full="$inside --size 67108864 --tmpfs $work/small $proc"
    row 'flash that is too small' start "$full" "$on $work/small" "$fill 30" 'are available' '--flash-size [0-9]+M' option
    row 'flash that is memory' part:flash "$full" "--ram 16M --flash-size 32M --flash $work/small" '' 'is memory itself' '--flash' "with:--flash $work"
    echo 1000 >"$work/few"
    row 'few mappings' part:mappings "$inside --proc /proc --ro-bind $work/few /proc/sys/vm/max_map_count \"\$@\"" "$base --faults fence" '' \
        '1000 at a time' 'sysctl vm.max_map_count=[0-9]+' 'echo "${remedy##*=}" >"$work/few"'
    row 'faults by protection without /proc' start "$inside --tmpfs /proc \"\$@\"" "$base --faults fence" "$fill" '/proc/self/mem' 'mount /proc' "under:$inside $proc"
    row 'neither userfaultfd nor /proc' start "$launcher; $inside --tmpfs /proc \"\$@\"" "$base" "$fill" 'userfaultfd may not be used' 'where /proc is mounted' \
        "under:$launcher; $inside $proc"
fi
# here PART: whether doctor says outside that it is ready.
here() {
    kind=part:$1 name="$1 refused" condition=: options=''
    asks
    works || { skip 'it is refused outside, too'; return 1; }
}
name='a filter of system calls'
if can "$launcher"; then
    if here io_uring; then
        row "$name" part:io_uring "$launcher" "$base" '' 'no rings' 'security-opt seccomp=unconfined' under:
        echo 2 >"$work/switch"
        switch="$inside --proc /proc --ro-bind $work/switch /proc/sys/kernel/io_uring_disabled \"\$@\""
        name='io_uring switched off'
        ! can "$switch" || row "$name" part:io_uring "$launcher; $switch" "$base" '' 'no rings' 'sysctl kernel.io_uring_disabled=0' \
            'echo "${remedy##*=}" >"$work/switch"; condition=$switch'
    fi
    if here userfaultfd; then
        row "$name" part:userfaultfd "$launcher" "$base" '' 'are refused' 'security-opt seccomp=unconfined' under:
        row "$name" run "$launcher" "$base" "$fill" 'userfaultfd is refused' 'aquifer doctor' \
            'within $remedy $options; grep -q seccomp=unconfined "$work/out" && condition=:'
        row "$name, by a thread" start "$launcher" "$base --faults thread" "$fill" 'userfaultfd may not be used' '--faults signal' option
        name='a device'
        device="$launcher; $inside --dev-bind /dev/userfaultfd /dev/userfaultfd $proc"
        if [ -w /dev/userfaultfd ]; then
            ! can "$device" || row "$name" part:userfaultfd "$launcher" "$base" '' 'are refused' 'docker run --device /dev/userfaultfd' "under:$device"
        else
            skip 'this user may not use /dev/userfaultfd'
        fi
    fi
fi

# ---- Memory cgroups ----------------------------------------------------------

name='a memory cgroup'
if make_group $((256 << 20)) no; then
    chmod 666 "$cgroup/cgroup.procs"
    group="echo \$\$ >$cgroup/cgroup.procs"
    row 'more RAM than its cgroup has' part:RAM "$group" "--ram 512M $flash" '' 'left in the memory cgroup' '--ram auto' option
    echo $((20 << 20)) >"$(group_file limit)"
    row 'a cgroup too small for any' part:RAM "$group" "$base" '' 'leaves too little' 'docker run --memory 1g' 'echo $((1 << 30)) >"$(group_file limit)"'
    echo $((20 << 20)) >"$(group_file limit)"
    row 'a cgroup too small for auto' value "$group" "--ram auto $flash" "$fill" 'leaves too little' 'raise the limit' 'echo $((1 << 30)) >"$(group_file limit)"'
else
    skip "$why"
fi
[ $failed != 0 ] || echo "ok preload cures, $rows rows, $skipped skipped"
exit $failed
