# shellcheck shell=sh disable=SC2034,SC2154
# GNU sort with 16 threads: with temporary files that children compress, then with all of its input in one buffer.
ram=16M

prepare() {
    awk 'BEGIN {
        for (n = 0; n < '"$(scaled 450000)"'; n++) {
            x = (x * 69069 + 12345) % 4294967296
            printf "%010d %d record\n", x, n % 1000
        }
    }' >"$work/text"
}

program() {
    launch sort --parallel=16 -S "$(scaled 20)M" -T . --compress-program=gzip -s -k 2,2n "$work/text" >stable || return
    cksum <stable
    launch sort --parallel=16 -S "$(scaled 80)M" "$work/text" >sorted || return
    cksum <sorted
}
