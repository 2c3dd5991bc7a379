# shellcheck shell=sh disable=SC2034,SC2154
# A Go program is refused.
PATH=$PATH:/usr/local/go/bin
needs='go:golang-go'

prepare() {
    printf 'package main\n\nfunc main() { println("ran") }\n' >"$work/main.go"
    (cd "$work" && GOCACHE=$work/cache GOPATH=$work/path GOFLAGS=-p=1 GOTELEMETRY=off nice go build -o program main.go) ||
        skip='the Go compiler does not work'
    chmod -R u+w "$work"
}

check() {
    refuses "is a Go program: .*cannot run on managed memory" "$work/program"
}
