# shellcheck shell=sh disable=SC2154
# What the tests of programs have in common. Sourced by run.sh, which sets here, work, name and AQUIFER.
#
# A test is a file NAME.sh that sets
#   needs     commands that must be there, with the Debian package of each after a colon
#   ram       what the managed run gets, halved by PROGRAMS_SMALL; its blocks must be four times that, and it must read that much back from flash
#   options   more options of `aquifer run`
#   limit     seconds after which a run is ended
# and defines
#   prepare   makes data in $work; once
#   program   runs the program by `launch` in $work/$mode, $mode being native or managed, and prints what must be equal; of the
#             last launch is the report that must show that the memory was exceeded
# or, if nothing is to be compared,
#   check     prints why it failed

needs='' ram=16M options='' limit=90 mode=native

prepare() { :; }

# A number of bytes or things, or its half if PROGRAMS_SMALL is set.
scaled() {
    if [ -n "${PROGRAMS_SMALL:-}" ]; then echo $(($1 / 2)); else echo "$1"; fi
}

# Bytes in a size like 64M.
bytes() {
    case $1 in
        *K) echo $((${1%K} << 10)) ;;
        *M) echo $((${1%M} << 20)) ;;
        *G) echo $((${1%G} << 30)) ;;
        *) echo "$1" ;;
    esac
}

# Hundredths of seconds since the epoch.
now() {
    echo $(($(date +%s%N) / 10000000))
}

# Seconds with one decimal, of hundredths.
seconds() {
    echo "$(($1 / 100)).$(($1 / 10 % 10)) s"
}

# ---- Processes ------------------------------------------------------------

# Runs a program natively or managed, as $mode says. Its process id is in $work/$mode/pid while it runs.
launch() {
    if [ "$mode" = managed ]; then
        # shellcheck disable=SC2086 # options are words
        set -- "$AQUIFER" run --ram "$given" --flash "$work" --flash-size 2G $options \
            --report-json "$work/report" -- "$@"
    fi
    # A command in the background would get no input.
    exec 3<&0
    # shellcheck disable=SC2016 # expanded by the inner shell
    timeout -k 5 "$limit" sh -c 'echo $$ >"$0.new" && mv "$0.new" "$0" && exec "$@"' "$work/$mode/pid" "$@" <&3 3<&- &
    launched=$!
    disturber=''
    if [ -n "${PROGRAMS_SIGNALS:-}" ]; then
        disturb "$launched" &
        disturber=$!
    fi
    wait "$launched"
    launch_status=$?
    [ -z "$disturber" ] || wait "$disturber"
    rm -f "$work/$mode/pid"
    [ $launch_status -ne 124 ] || echo "ended after $limit s, which is too long" >&2
    return $launch_status
}

random() {
    echo $(($(od -An -N2 -tu2 /dev/urandom) % $1))
}

# Sends harmless signals to the program until the process that waits for it ends.
disturb() {
    while sleep "0.$(random 4)5" && kill -0 "$1" 2>/dev/null; do
        pid=$(cat "$work/$mode/pid" 2>/dev/null) || continue
        case $(random 3) in
            0) kill -CONT "$pid" ;;
            1) kill -WINCH "$pid" ;;
            2) kill -STOP "$pid" && sleep "0.0$(random 9)" && kill -CONT "$pid" ;;
        esac 2>/dev/null
    done
}

# Starts a server in the background, which is ready when the command after `--` succeeds.
# serve PROGRAM ARGUMENT... -- COMMAND ARGUMENT...
serve() {
    server=''
    while [ "$1" != -- ]; do
        server="$server $(quote "$1")"
        shift
    done
    shift
    eval "launch $server" >"$work/$mode/log" 2>&1 &
    server=$!
    tries=0
    until "$@" >/dev/null 2>&1; do
        tries=$((tries + 1))
        if [ $tries -gt 100 ] || ! kill -0 $server 2>/dev/null; then
            echo "the server did not start: $(tail -n 1 "$work/$mode/log")" >&2
            return 1
        fi
        sleep 0.1
    done
}

# Ends the server and waits until it has.
stop_server() {
    kill -TERM "$(cat "$work/$mode/pid")"
    wait "$server"
}

quote() {
    printf "'%s'" "$(printf '%s' "$1" | sed "s/'/'\\\\''/g")"
}

# Ends what a test has left running. $work is that of all tests.
end_runs() {
    for file in "$work"/*/*/pid; do
        [ -f "$file" ] || continue
        left=$(cat "$file")
        kill -CONT "$left" 2>/dev/null
        kill -KILL "$left" 2>/dev/null
    done
}

free_port() {
    python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# ---- Verdicts -------------------------------------------------------------

verdict() {
    if [ -n "$why" ]; then
        echo "FAIL programs $name: $why"
        return 1
    fi
    echo "ok programs $name$*"
}

# A number of the report.
reported() {
    sed -n "s/.*\"$1\":\([0-9]*\).*/\1/p" "$work/report"
}

# Runs the test's program in one mode; its output is in $work/$mode/output.
one_run() {
    mode=$1
    mkdir "$work/$mode"
    begin=$(now)
    (cd "$work/$mode" && program) >"$work/$mode.output" 2>"$work/$mode.errors"
    status=$?
    took=$(($(now) - begin))
    [ $status -eq 0 ] || why="$mode, exit status $status: $(tail -n 3 "$work/$mode.errors" | tr '\n' ' ')"
    [ $status -eq 0 ]
}

# Whether the managed run had to live with a quarter of its memory.
exceeded() {
    if [ ! -f "$work/report" ]; then
        why='there is no report'
        return 1
    fi
    managed=$(reported block_bytes_max) read_back=$(reported device_read_bytes)
    if [ "$managed" -lt $((4 * given)) ] || [ "${read_back:-0}" -lt "$given" ]; then
        why="it is no test: $((managed >> 20)) MiB managed in $((given >> 20)) MiB, ${read_back:-0} bytes read from flash"
        return 1
    fi
}

compare() {
    one_run native || return
    native_took=$took
    if [ ! -s "$work/native.output" ]; then
        why='it printed nothing'
        return
    fi
    runs=${PROGRAMS_RUNS:-1} run=0 failures=0 first=''
    while [ $run -lt "$runs" ]; do
        run=$((run + 1)) why=''
        rm -rf "$work/managed" "$work/report"
        compare_managed && continue
        failures=$((failures + 1))
        first=${first:-$why}
    done
    why=$first
    if [ "$runs" -gt 1 ] && [ $failures -gt 0 ]; then
        why="$failures of $runs runs, of which the first: $first"
    fi
}

compare_managed() {
    one_run managed || return
    cmp "$work/native.output" "$work/managed.output" >"$work/difference" 2>&1 || {
        why="it printed something else: $(cat "$work/difference")"
        return 1
    }
    exceeded
}

one_test() {
    for need in $needs; do
        if ! command -v "${need%%:*}" >/dev/null; then
            echo "skip programs $name: ${need%%:*} is missing (package ${need#*:})"
            return 0
        fi
    done
    why=''
    skip=''
    given=$(scaled "$(bytes "$ram")")
    prepare || why=${why:-the data could not be made}
    if [ -n "$skip" ]; then
        echo "skip programs $name: $skip"
        return 0
    fi
    if [ -n "$why" ]; then
        verdict
    elif command -v check >/dev/null; then
        check
        verdict
    else
        compare
        verdict " (managed $((${managed:-0} >> 20)) MiB in $((given >> 20)) MiB," \
            "$(seconds "$took") instead of $(seconds "${native_took:-0}"), runs: ${runs:-1})"
    fi
}

# The command must refuse the program with this text and exit status 126.
refuses() {
    timeout 20 "$AQUIFER" run -- "$2" >"$work/output" 2>&1
    status=$?
    if [ $status -ne 126 ]; then
        why="exit status $status instead of 126: $(head -n 1 "$work/output")"
    elif ! grep -q -- "$1" "$work/output"; then
        why="the message lacks '$1': $(head -n 1 "$work/output")"
    elif grep -q '^ran$' "$work/output"; then
        why='the program ran'
    fi
}
