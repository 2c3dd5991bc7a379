# shellcheck shell=sh disable=SC2034,SC2154
# The Python interpreter with a dictionary of five million entries, and a forked child that reads it.
needs='/usr/bin/python3:python3'
ram=112M count=5000000
[ -z "${PROGRAMS_SMALL:-}" ] || ram=16M count=350000

program() {
    launch /usr/bin/python3 "$here/python.py" $count
}
