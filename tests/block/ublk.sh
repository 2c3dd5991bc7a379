#!/bin/sh
# aquifer block --ublk in an emulated machine, with a kernel of the distribution that has ublk_drv: bytes in and out, discards and zeros, swap, and the end. Timings
# in there mean nothing. One result line each; exits with 1 if one failed.
#
#   tests/block/ublk.sh
#   AQUIFER=PATH           the aquifer command
#   AQUIFER_KERNEL=FILE    a Debian package linux-image-*, instead of downloading one: the newest, of the backports where that is too old
#   AQUIFER_UBLK_S=N       seconds after which the machine counts as hanging [900]
#   AQUIFER_UBLK_LOG=FILE  where the machine's console goes
set -u
cd "$(dirname "$0")/../.." || exit 1
here=$PWD
PATH=$PATH:/usr/sbin:/sbin
limit_s=${AQUIFER_UBLK_S:-900}
subject='ublk'
. tests/lib.sh
. scripts/env.sh
# That goes to where its own callers are.
cd "$here" || exit 1

for program in qemu-system-x86_64:qemu-system-x86 busybox:busybox-static cpio:cpio depmod:kmod modprobe:kmod dpkg-deb:dpkg xz:xz-utils cc:gcc; do
    command -v "${program%%:*}" >/dev/null || skip_all "${program%%:*} is not installed (Debian package ${program##*:})"
done
[ "$(uname -m)" = x86_64 ] || skip_all 'the emulated machine is an x86-64'
case $(ldd "$(command -v busybox)" 2>&1) in
    *'not a dynamic'*) ;;
    *) skip_all 'busybox is not static (Debian package busybox-static)' ;;
esac

work=$(mktemp -d "${TMPDIR:-/var/tmp}/aquifer-ublk.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

# ---- The kernel --------------------------------------------------------------------------------------------------------------

# The package that the newest kernel is in; options of apt come before.
newest_kernel() {
    apt-cache "$@" depends linux-image-amd64 2>/dev/null | sed -n 's/.*Depends: \(linux-image-[0-9]\)/\1/p' | head -n 1
}

# is_new_enough PACKAGE: Linux 6.5 knows the commands.
is_new_enough() {
    echo "$1" | awk -F '[-.]' '{ exit !($3 > 6 || $3 == 6 && $4 >= 5) }'
}

# Lists of the backports beside those of this machine, which stay as they are; options for apt are in $apt.
add_backports() {
    # shellcheck disable=SC1091 # the distribution's
    codename=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
    site=$(apt-get indextargets --format '$(SITE)' "Codename: $codename" 2>/dev/null | head -n 1)
    [ -n "$site" ] || site=$(apt-get indextargets --format '$(SITE)' 2>/dev/null | grep '/debian/*$' | head -n 1)
    [ -n "$site" ] || return 1
    mkdir -p "$work/apt/lists/partial" "$work/apt/cache/archives/partial"
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $site $codename-backports main" >"$work/apt/sources.list"
    apt="-o Dir::Etc::sourcelist=$work/apt/sources.list -o Dir::Etc::sourceparts=/nonexistent -o Dir::State::lists=$work/apt/lists -o Dir::Cache=$work/apt/cache"
    # shellcheck disable=SC2086 # several options
    apt-get $apt -o Acquire::Languages=none update >"$work/download" 2>&1
}

kernel=${AQUIFER_KERNEL:-}
apt=''
if [ -z "$kernel" ]; then
    package=$(newest_kernel)
    if [ -z "$package" ] || ! is_new_enough "$package"; then
        add_backports || skip_all "there is no kernel from 6.5 on (here: ${package:-none}), and no lists of the backports: $(tail -n 1 "$work/download" 2>/dev/null)"
        # shellcheck disable=SC2086 # several options
        package=$(newest_kernel $apt)
    fi
    [ -n "$package" ] && is_new_enough "$package" || skip_all "there is no kernel from 6.5 on: ${package:-none}"
    # shellcheck disable=SC2086 # several options
    (cd "$work" && apt-get $apt download "$package") >"$work/download" 2>&1 || skip_all "the kernel cannot be had: $(tail -n 1 "$work/download")"
    kernel=$(find "$work" -name 'linux-image-*.deb')
fi
dpkg-deb --extract "$kernel" "$work/kernel" || skip_all "not a package: $kernel"
image=$(find "$work/kernel/boot" -name 'vmlinuz-*')
version=${image##*/vmlinuz-}
modules=$work/kernel
[ -d "$modules/lib/modules" ] || modules=$work/kernel/usr
depmod --basedir "$modules" "$version"
# needed_by MODULE: its file, after those that it needs.
needed_by() {
    modprobe --dirname "$modules" --set-version "$version" --show-depends "$1" 2>/dev/null | sed -n 's/^insmod \([^ ]*\).*/\1/p'
}
[ -n "$(needed_by ublk_drv)" ] || skip_all "the kernel $version has no ublk_drv"

# ---- What the machine has ----------------------------------------------------------------------------------------------------

root=$work/root
mkdir -p "$root/bin" "$root/dev" "$root/proc" "$root/sys" "$root/tmp" "$root/modules"
cp "$(command -v busybox)" "$root/bin/"
{ strip -o "$root/bin/aquifer" "$AQUIFER" 2>/dev/null || cp "$AQUIFER" "$root/bin/aquifer"; } || exit 1
"$CARGO" test --package aquifer-block --no-run --message-format=json --test ublk 2>"$work/build" | sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' >"$work/tests"
[ -s "$work/tests" ] || { fail "the tests are not built: $(tail -n 1 "$work/build")"; exit 1; }
test=$(cat "$work/tests")
strip -o "$root/bin/ublk-tests" "$test" || exit 1
{ ldd "$AQUIFER"; ldd "$test"; } | awk '$2 == "=>" { print $3 } $1 ~ /^\// { print $1 }' | sort -u | while read -r file; do
    mkdir -p "$root$(dirname "$file")"
    cp -L "$file" "$root$file"
done
cc -O2 -Wall -Werror -static -o "$root/bin/guest" tests/block/guest.c 2>"$work/cc" || { fail "guest.c: $(tail -n 1 "$work/cc")"; exit 1; }
# put NAME MODULE...: modules and what they need go into a list.
put() {
    list=$1
    shift
    for module in "$@"; do
        needed_by "$module"
    done | awk '!seen[$1]++ { print $1 }' | while read -r file; do
        name=$(basename "${file%.xz}")
        case $file in
            *.xz) xz -dc "$file" >"$root/modules/$name" ;;
            *) cp "$file" "$root/modules/" ;;
        esac
        echo "$name"
    done >"$root/modules/$list"
}
put disk virtio_pci virtio_blk
put ublk ublk_drv
cat >"$root/init" <<'INIT'
#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t devtmpfs none /dev; mount -t proc none /proc; mount -t sysfs none /sys; mount -t tmpfs none /tmp
mkdir -p /sys/fs/cgroup; mount -t cgroup2 none /sys/fs/cgroup
echo +memory >/sys/fs/cgroup/cgroup.subtree_control
insmods() {
    while read -r module; do
        insmod "/modules/$module" || echo "module $module: no"
    done <"/modules/$1"
}
pass() { echo "RESULT ok $*"; }
fail() { echo "RESULT FAIL $*"; }
# is WHAT COMMAND...: one result.
is() {
    what=$1
    shift
    if "$@" >/tmp/said 2>&1; then pass "$what"; else fail "$what: $(tail -n 2 /tmp/said | tr '\n' ' ')"; fi
}
# wait_until COMMAND...: at most two minutes.
wait_until() {
    tries=1200
    until "$@"; do
        tries=$((tries - 1))
        [ $tries -gt 0 ] || return 1
        usleep 100000
    done
}
has_ended() { ! kill -0 "$server" 2>/dev/null; }
is_told_or_ended() { [ -s /tmp/out ] || has_ended; }
show_threads() {
    for task in /proc/$server/task/*; do echo "$(cat "$task/comm"): $(cat "$task/syscall") $(cat "$task/stack" | head -n 4 | tr '\n' ' ')"; done >/dev/console
}
serve() {
    : >/tmp/out
    aquifer block --flash /dev/vda --ublk "$@" >/tmp/out 2>/tmp/err &
    server=$!
    wait_until is_told_or_ended
    device=$(sed -n 's/.* is the block device //p' /tmp/out)
    [ -b "$device" ] && return
    # Nothing that follows makes sense without it.
    fail "it does not serve: $(cat /tmp/err)"
    show_threads
    echo 'RESULT end'
    poweroff -f
}
ends_well() {
    kill -TERM "$server"
    wait_until has_ended || { show_threads; return 1; }
    wait "$server" && [ ! -e "$device" ]
}

insmods disk
wait_until [ -b /dev/vda ]
uname -r
aquifer block --flash /dev/vda --ublk >/tmp/out 2>/tmp/err
is 'without the module it says what to load' grep -q 'modprobe ublk_drv' /tmp/err
insmods ublk

serve --threads 2 && pass 'it is served'
echo "served: $(cat /tmp/out) $(cat /tmp/err)"
is 'nothing was left out' [ ! -s /tmp/err ]
is 'its size is that of the device' [ "$(blockdev --getsize64 "$device")" = "$(blockdev --getsize64 /dev/vda)" ]
echo "queues: $(ls /sys/block/ublkb0/mq | wc -l), $(cat /sys/block/ublkb0/queue/max_hw_sectors_kb) KiB, cache $(cat /sys/block/ublkb0/queue/write_cache), fua $(cat /sys/block/ublkb0/queue/fua)"
locked=$(awk '$1 == "VmLck:" { print $2 }' /proc/$server/status)
is "its memory is locked: $locked KiB" [ "$locked" -gt 16384 ]

# The tests in Rust have a process and a device of their own.
ublk-tests --test-threads=1 --show-output >/tmp/tests 2>&1
status=$?
is "tests in Rust: $(grep '^test result' /tmp/tests)" [ $status = 0 ]
grep -e '^test ' -e panicked -e SKIP -e 'requests a second' /tmp/tests

# Bytes: through the page cache in large requests, directly in small ones, and two at once. Compared after the cache was dropped, and on the disk below.
dd if=/dev/urandom of=/tmp/data bs=1M count=24 2>/dev/null
drop() { sync; echo 3 >/proc/sys/vm/drop_caches; }
sum_of() { dd if="$1" bs=4096 skip="$2" count="$3" 2>/dev/null | md5sum; }
data=$(md5sum </tmp/data)
is 'it is written through the cache' dd if=/tmp/data of="$device" bs=1M seek=1 conv=fsync
drop
is 'what was written is read' [ "$(sum_of "$device" 256 6144)" = "$data" ]
is 'and is on the disk below' [ "$(sum_of /dev/vda 256 6144)" = "$data" ]
dd if=/tmp/data of="$device" bs=4096 seek=16384 count=2048 oflag=direct 2>/dev/null &
first=$!
dd if=/tmp/data of="$device" bs=512 seek=262144 count=4096 oflag=direct 2>/dev/null &
wait $first $!
is 'small writes, two programs at once' [ "$(sum_of "$device" 16384 2048)" = "$(sum_of /tmp/data 0 2048)" ]
is 'and sectors' [ "$(sum_of "$device" 32768 512)" = "$(sum_of /tmp/data 0 512)" ]
is 'zeros are written' guest zero "$device" 1052672 8388608
drop
is 'and read' [ "$(sum_of "$device" 257 2048)" = "$(sum_of /dev/zero 0 2048)" ]
is 'and nothing beside them' [ "$(sum_of "$device" 2305 1000)$(sum_of "$device" 256 1)" = "$(sum_of /tmp/data 2049 1000)$(sum_of /tmp/data 0 1)" ]
is 'ranges are discarded' blkdiscard -o 1048576 -l 16777216 "$device"
is 'it ends by a signal' ends_well
echo "said: $(cat /tmp/err)"
is 'nothing of it stays' [ -z "$(ls /dev | grep -e ublkb -e ublkc)" ]
rm -f /tmp/data

# One that is killed.
serve --threads 2
kill -KILL "$server"
wait "$server"
gone() { [ ! -e "$device" ]; }
is 'the device of a process that was killed goes' wait_until gone
serve --threads 2 && pass 'another one is served'
is 'and took away what the first one had left' [ "$(ls /dev | grep -c ublkc)" = 1 ]

# Swap: more memory than the group may have, written in order and read in a random one.
is 'it is a swap area' mkswap "$device"
# Pages that are read ahead are not wanted here, and cost time.
echo 0 >/proc/sys/vm/page-cluster
is 'which is used' swapon "$device"
mkdir /sys/fs/cgroup/small
echo $((64 << 20)) >/sys/fs/cgroup/small/memory.max
sh -c 'echo $$ >/sys/fs/cgroup/small/cgroup.procs && exec guest touch 256' >/tmp/touched 2>&1 &
toucher=$!
most=0
while kill -0 $toucher 2>/dev/null; do
    used=$(awk -v device="$device" '$1 == device { print $4 }' /proc/swaps)
    [ "${used:-0}" -gt $most ] && most=$used
    echo "swap: $used KiB, $(grep -e pswpin -e pswpout /proc/vmstat | tr '\n' ' ')"
    sleep 2
done
wait $toucher
status=$?
is "256 MiB in a group of 64 MiB: $(cat /tmp/touched), up to $((most >> 10)) MiB on the device" [ $status = 0 -a $most -gt 131072 ]
kill -TERM "$server"
is 'while it is used a signal does not end it' wait_until grep -q 'is in use' /tmp/err
is 'and it goes on' kill -0 "$server"
is 'the area is given back' swapoff "$device"
# The signal before counted as the one that was refused: this one does not ask.
is 'it ends by the next signal' ends_well
echo "said: $(cat /tmp/err)"

# One whose area is still used.
serve
mkswap "$device" >/dev/null && swapon "$device"
kill -TERM "$server"
wait_until grep -q 'is in use' /tmp/err
# At once it would be part of the first.
kill -TERM "$server"
sleep 2
is 'nor does one that repeats it at once' kill -0 "$server"
is 'a second signal does not wait' ends_well
echo "said: $(cat /tmp/err), $(ls /dev | grep ublk)"
# Nothing was on it.
swapoff "$device" 2>/dev/null || swapoff -a
dmesg | grep -i -e 'BUG' -e 'hung task' -e 'WARNING:' -e 'Oops' | head -n 5
echo 'RESULT end'
poweroff -f
INIT
chmod +x "$root/init"
(cd "$root" && find . | cpio --quiet -o -H newc | gzip -1) >"$work/initramfs" || exit 1
# More than twice what is swapped: a fuller area gives up what was read, which is written again then.
truncate -s 640M "$work/disk"

# ---- The machine -------------------------------------------------------------------------------------------------------------

timeout "$limit_s" qemu-system-x86_64 -accel tcg,thread=multi -smp 2 -m 768 -nographic -no-reboot -nic none -kernel "$image" -initrd "$work/initramfs" \
    -drive "file=$work/disk,if=virtio,format=raw,cache=unsafe" -append 'console=ttyS0 quiet panic=-1' </dev/null >"$work/console" 2>&1
ended=$?
[ -z "${AQUIFER_UBLK_LOG:-}" ] || cp "$work/console" "$AQUIFER_UBLK_LOG"
tr -d '\r' <"$work/console" | sed -n 's/^RESULT \(ok\|FAIL\) /\1 /p' >"$work/results"
sed "s/^\(ok\|FAIL\) /\1 $subject: /" "$work/results"
grep -q '^FAIL' "$work/results" && failed=1
tr -d '\r' <"$work/console" | grep -q '^RESULT end' ||
    fail "the machine did not come to its end (exit status $ended): $(tail -n 3 "$work/console" | tr -d '\r')"
# shellcheck disable=SC2154 # tests/lib.sh
exit "$failed"
