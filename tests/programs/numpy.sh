# shellcheck shell=sh disable=SC2034,SC2154
# NumPy: sorting arrays.
needs='/usr/bin/python3:python3'
ram=16M

prepare() {
    /usr/bin/python3 -c 'import numpy' 2>/dev/null || skip='NumPy is missing (package python3-numpy)'
}

program() {
    launch /usr/bin/python3 "$here/numpy_sort.py" "$(scaled 48)"
}
