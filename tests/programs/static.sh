# shellcheck shell=sh disable=SC2034,SC2154
# A statically linked program is refused.
needs='cc:gcc'

prepare() {
    printf '#include <stdio.h>\nint main(void) { puts("ran"); }\n' >"$work/static.c"
    cc -static -o "$work/static" "$work/static.c" 2>"$work/errors" || skip='there is no static C library (package libc6-dev)'
}

check() {
    refuses 'is statically linked: .*use a dynamically linked build' "$work/static"
}
