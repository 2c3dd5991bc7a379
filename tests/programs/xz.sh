# shellcheck shell=sh disable=SC2034,SC2154
# xz, with threads for blocks, then with the dictionary and match finder of its highest level.
needs='xz:xz-utils'
ram=16M words=100000
[ -z "${PROGRAMS_SMALL:-}" ] || ram=24M words=60000

prepare() {
    awk 'BEGIN {
        for (n = 0; n < 2000; n++) {
            x = (x * 69069 + 12345) % 4294967296
            word[n] = sprintf("%x", x)
        }
        for (n = 0; n < '"$words"'; n++) {
            x = (x * 69069 + 12345) % 4294967296
            printf "%s%s", word[int(x / 65536) % 2000], n % 12 ? " " : "\n"
        }
    }' >"$work/text"
}

program() {
    launch xz -1 -k -c -T 16 --block-size=32KiB "$work/text" >blocks.xz || return
    cksum <blocks.xz
    launch xz -9 -k -c -T 1 --memlimit=1GiB "$work/text" >text.xz || return
    cksum <text.xz
    xz -t text.xz
    xz -dc text.xz | cmp - "$work/text" && echo decompressed
}
