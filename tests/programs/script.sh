# shellcheck shell=sh disable=SC2034,SC2154
# Scripts run if their interpreter can; what a shell script starts is managed too.
needs='python3:python3'

prepare() {
    # shellcheck disable=SC2016 # expanded by the script
    printf '#!/bin/sh\necho "args: $*"\nsort -rn "$1" | head -n 3\nexit 7\n' >"$work/shell"
    printf '#!/usr/bin/env python3\nimport sys\nprint("args:", *sys.argv[1:])\nsys.exit(7)\n' >"$work/python"
    chmod +x "$work/shell" "$work/python"
    seq 1 20000 >"$work/numbers"
}

check() {
    for script in shell python; do
        "$work/$script" "$work/numbers" 'two words' >"$work/native" 2>&1
        expected=$?
        timeout 20 "$AQUIFER" run --flash "$work" -- "$work/$script" "$work/numbers" 'two words' >"$work/managed" 2>&1
        status=$?
        if [ $status -ne $expected ] || ! cmp -s "$work/native" "$work/managed"; then
            why="the $script script: exit status $status instead of $expected: $(head -n 1 "$work/managed")"
            return
        fi
    done
}
