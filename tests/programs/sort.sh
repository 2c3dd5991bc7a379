# shellcheck shell=sh disable=SC2034,SC2154
# GNU sort with all of its input in one buffer, and two threads.
ram=16M

prepare() {
    awk 'BEGIN {
        for (n = 0; n < 450000; n++) {
            x = (x * 69069 + 12345) % 4294967296
            printf "%010d %d record\n", x, n % 1000
        }
    }' >"$work/text"
}

program() {
    launch sort --parallel=2 -S 80M "$work/text" >sorted || return
    cksum <sorted
    launch sort --parallel=2 -S 80M -s -k 2,2n "$work/text" >stable || return
    cksum <stable
}
