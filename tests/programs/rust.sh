# shellcheck shell=sh disable=SC2034,SC2154
# A Rust program with the standard library's collections, and 16 threads.
needs='rustc:rustc cc:gcc'
ram=16M

prepare() {
    rustc -O -o "$work/program" "$here/collections.rs" 2>"$work/errors" || why=$(head -n 1 "$work/errors")
}

program() {
    launch "$work/program" "$(scaled 200)" "$(scaled 4000000)"
}
