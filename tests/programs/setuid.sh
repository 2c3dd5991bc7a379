# shellcheck shell=sh disable=SC2034,SC2154
# A program with the rights of its owner is refused.

check() {
    cp /bin/echo "$work/echo" && chmod u+s "$work/echo"
    refuses 'runs with the rights of its owner, .*without the set-user-ID bit' "$work/echo"
}
