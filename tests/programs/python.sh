# shellcheck shell=sh disable=SC2034,SC2154
# The Python interpreter with a dictionary of five million entries.
needs='/usr/bin/python3:python3'
ram=112M

program() {
    launch /usr/bin/python3 "$here/python.py" 5000000
}
