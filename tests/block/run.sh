#!/bin/sh
# The command aquifer block, used by other programs: NBD by clients that are not ours, and kernel swap. The protocol itself
# is tested in Rust (crates/nbdkit/tests). One result line each; exits with 1 if one failed.
#
#   tests/block/run.sh
#   AQUIFER=PATH              the aquifer command
#   AQUIFER_BLOCK_DIR=PATH    where the devices are made [$TMPDIR or /var/tmp]
#   AQUIFER_BLOCK_LIMIT_S=N   seconds after which a part counts as hanging [600]
#
# Whatever happens, what was made is undone at the end: the swap area, the loop device, the mount, the cgroup. Other swap
# areas are not touched, and only processes that were started here are ended.
set -u
cd "$(dirname "$0")/../.." || exit 1
limit_s=${AQUIFER_BLOCK_LIMIT_S:-600}

subject='block'
. tests/lib.sh

work=$(mktemp -d "${AQUIFER_BLOCK_DIR:-${TMPDIR:-/var/tmp}}/aquifer-block.XXXXXX") || exit 1
server='' loop='' area='' group='' toucher='' guard='' shower=''

# Waits until something is so, for at most so many tenths of a second.
wait_until() {
    tries=$1
    shift
    until "$@"; do
        tries=$((tries - 1))
        [ "$tries" -gt 0 ] || return 1
        sleep 0.1
    done
}

has_ended() {
    ! kill -0 "$1" 2>/dev/null
}

group_is_gone() {
    rmdir "$group" 2>/dev/null || [ ! -d "$group" ]
}

# In this order: who swaps, the area, the loop device, the folder, its process. The process goes last, or the kernel waits
# for pages that nobody has.
undo() {
    [ -z "$toucher" ] || kill -9 "$toucher" 2>/dev/null
    [ -z "$guard" ] || kill "$guard" 2>/dev/null
    toucher='' guard=''
    if [ -n "$area" ]; then
        swapoff "$area" && area='' || fail "the swap area $area stays"
    fi
    if [ -n "$loop" ] && [ -z "$area" ]; then
        losetup -d "$loop" && loop='' || fail "the loop device $loop stays"
    fi
    if [ -n "$group" ]; then
        wait_until 100 group_is_gone && group='' || fail "the cgroup $group stays"
    fi
    [ -z "$area$loop" ] || return
    if [ -n "$shower" ]; then
        # nbdfuse may have ended with its server, and unmounted.
        umount "$work/folder" 2>/dev/null || umount -l "$work/folder" 2>/dev/null
        wait_until 50 has_ended "$shower" || kill "$shower"
        shower=''
    fi
    # The first signal unmounts; where it cannot, the second ends the process anyway.
    if [ -n "$server" ] && ! has_ended "$server"; then
        kill -TERM "$server"
        wait_until 100 has_ended "$server" || { kill -TERM "$server"; wait_until 50 has_ended "$server"; } || {
            fail 'the server does not end'
            kill -9 "$server"
        }
    fi
    server=''
    grep -q " $work/folder fuse" /proc/mounts && umount -l "$work/folder"
    return 0
}

clean() {
    [ -z "${donors:-}" ] || end_donors
    undo
    # A swap area that could not be given back needs its file.
    [ -n "$area$loop" ] || rm -rf "$work"
}
trap clean EXIT
trap 'exit 130' INT TERM

is_told_or_ended() {
    [ -s "$work/out" ] || has_ended "$server"
}

# serve ARGUMENTS...: starts the command, and waits until it says that it serves.
serve() {
    : >"$work/out"
    "$AQUIFER" block --flash "$work/device" "$@" >"$work/out" 2>"$work/err" &
    server=$!
    wait_until 300 is_told_or_ended && [ -s "$work/out" ] && return
    fail "it does not serve: $(cat "$work/err")"
    server=''
    return 1
}

# Ends the command and sees that it ends well; "$1" says after what.
end_well() {
    kill -TERM "$server"
    wait "$server" && pass "$1: it ends in order" || fail "$1: exit status $?: $(tail -n 3 "$work/err")"
    server=''
}

# ---- NBD, by clients of others --------------------------------------------

limited() {
    timeout -k 5 "$limit_s" "$@"
}

# both_ways NAME URI: data in and out again, by the programs that are here.
both_ways() {
    if command -v nbdcopy >/dev/null; then
        limited nbdinfo "$2" >"$work/info" 2>&1 && grep -q 'can_multi_conn: true' "$work/info" &&
            pass "$1: nbdinfo" || fail "$1: nbdinfo: $(cat "$work/info")"
        rm -f "$work/back"
        limited nbdcopy --flush "$work/data" "$2" && limited nbdcopy "$2" "$work/back" &&
            cmp -s -n "$(stat -c %s "$work/data")" "$work/data" "$work/back" &&
            pass "$1: nbdcopy in and out" || fail "$1: nbdcopy"
    else
        skip "$1: nbdcopy and nbdinfo are not installed (Debian package libnbd-bin)"
    fi
    if command -v qemu-img >/dev/null; then
        rm -f "$work/back"
        limited qemu-img convert -n -f raw -O raw "$work/data" "$2" &&
            limited qemu-img convert -f raw -O raw "$2" "$work/back" &&
            cmp -s -n "$(stat -c %s "$work/data")" "$work/data" "$work/back" &&
            pass "$1: qemu-img in and out" || fail "$1: qemu-img"
    else
        skip "$1: qemu-img is not installed (Debian package qemu-utils)"
    fi
}

if ! command -v nbdkit >/dev/null; then
    skip 'NBD: nbdkit is not installed (Debian package nbdkit)'
else
# silent_are_harmless WHAT PORT URI: sockets on which nobody says a word lock no client out.
silent_are_harmless() {
    python3 - "$2" >"$work/silent" <<'EOP' &
import socket, sys, time
sockets = [socket.create_connection(("127.0.0.1", int(sys.argv[1]))) for _ in range(64)]
print("there", flush=True)
time.sleep(600)
EOP
    silent=$!
    if wait_until 100 grep -q there "$work/silent" && limited nbdinfo --size "$3" >"$work/info" 2>&1 && limited nbdinfo --size "$3" >>"$work/info" 2>&1; then
        pass "$1: 64 silent sockets lock nobody out"
    else
        fail "$1: 64 silent sockets lock clients out: $(cat "$work/info")"
    fi
    kill "$silent" && wait "$silent" 2>/dev/null
}

# Random bytes with holes between them, as long as the device: qemu-img wants no less.
head -c 8M /dev/urandom >"$work/data"
head -c 16M /dev/zero >>"$work/data"
head -c 8M /dev/urandom >>"$work/data"
if serve --size 32M --listen 127.0.0.1:0; then
    both_ways 'NBD over TCP' "$(sed -n 's/.* is served at //p' "$work/out")"
    end_well 'NBD over TCP'
fi
if serve --size 32M --listen "$work/socket"; then
    both_ways 'NBD over a Unix socket' "nbd+unix:///?socket=$work/socket"
    end_well 'NBD over a Unix socket'
    [ ! -e "$work/socket" ] && pass 'the socket is gone' || fail 'the socket stays'
fi

if serve --size 32M --listen 127.0.0.1:0 --connections 64; then
    uri=$(sed -n 's/.* is served at //p' "$work/out")
    if command -v nbdinfo >/dev/null && command -v python3 >/dev/null; then
        silent_are_harmless 'NBD over TCP' "${uri##*:}" "$uri"
    else
        skip 'NBD over TCP: silent clients: nbdinfo or python3 is not installed'
    fi
    if command -v fio >/dev/null && fio --enghelp 2>/dev/null | grep -qw nbd; then
        limited fio --name=many --aux-path="$work" --ioengine=nbd --uri="$uri" --rw=randrw --bs=4k --size=256k --offset_increment=256k --numjobs=64 --iodepth=4 \
            --verify=crc32c --verify_fatal=1 --do_verify=1 --end_fsync=1 >"$work/info" 2>&1 &&
            pass 'NBD over TCP: 64 clients of fio, verified' || fail "NBD over TCP: fio: $(tail -n 3 "$work/info")"
    else
        skip 'NBD over TCP: fio has no engine nbd here'
    fi
    if command -v qemu-io >/dev/null; then
        limited qemu-io -f raw -c 'write -P 7 4096 65536' -c 'write -f -P 8 0 4096' -c flush -c 'read -P 7 4096 65536' \
            -c 'read -P 8 0 4096' -c 'write -z 8192 1M' -c 'read -P 0 8192 1M' -c 'discard 0 1M' "$uri" >"$work/info" 2>&1 &&
            ! grep -q 'failed' "$work/info" && pass 'NBD over TCP: qemu-io: writes, FUA, flush, zeros, discard' ||
            fail "NBD over TCP: qemu-io: $(cat "$work/info")"
    else
        skip 'NBD over TCP: qemu-io is not installed (Debian package qemu-utils)'
    fi
    end_well 'NBD over TCP, 64 clients'
fi

# What the allocator of the server has, and whether that is more than its two threads take.
heap_kib() {
    awk '/\[heap\]/ { is_heap = 1 } is_heap && $1 == "Size:" { print $2; exit }' "/proc/$server/smaps"
}
has_reserve() {
    [ "$(heap_kib)" -ge $((3 * 16384)) ]
}

# Nothing between a request and its answer asks for memory, in the plugin and in nbdkit.
if command -v cc >/dev/null && command -v python3 >/dev/null && cc -O1 -shared -fPIC -o "$work/allocations.so" tests/block/allocations.c 2>"$work/info"; then
    export COUNT_FILE="$work/count" LD_PRELOAD="$work/allocations.so"
    serve --size 32M --listen "$work/socket"
    unset LD_PRELOAD
    asked=$(limited python3 tests/block/requests.py "$work/socket" "$work/count" 2>&1)
    case $asked in
        '0 of 0') fail 'NBD: memory: nothing was counted' ;;
        '0 of '*) pass "NBD: memory: 4000 rounds of requests asked for none ($asked since it began)" ;;
        *) fail "NBD: memory was asked for: $asked" ;;
    esac
    end_well 'NBD: memory'
else
    skip "NBD: memory: no C compiler or python3 is installed"
fi

# Faults of --fault: a device that fails while a file is there, and is slow.
if command -v qemu-io >/dev/null && serve --size 32M --listen "$work/socket" --fault "write-errors=100%,while=$work/bad,read-delay=200ms"; then
    uri="nbd+unix:///?socket=$work/socket"
    writes() { limited qemu-io -f raw -c 'write 0 4096' "$uri" 2>&1 | grep -q '^wrote 4096'; }
    writes && pass 'faults: none without the file' || fail 'faults: a write fails without the file'
    : >"$work/bad"
    writes && fail 'faults: a write succeeds' || pass 'faults: writes fail while the file is there'
    rm "$work/bad"
    began=$(date +%s%N)
    limited qemu-io -f raw -c 'read 0 4096' "$uri" >"$work/info" 2>&1
    took_ms=$((($(date +%s%N) - began) / 1000000))
    [ "$took_ms" -ge 200 ] && pass "faults: a read takes longer" || fail "faults: a read took $took_ms ms"
    end_well 'faults'
fi

# ---- NBD over TLS, by clients of others -----------------------------------

# as_libnbd FOLDER: the files of a host's folder by the names that libnbd and qemu know, beside them.
as_libnbd() {
    ln -s cluster.pem "$1/ca-cert.pem" && ln -s host.pem "$1/client-cert.pem" && ln -s host-key.pem "$1/client-key.pem"
}

# make_cluster NAME HOST...: a cluster, and a folder NAME-HOST for each host.
make_cluster() {
    cluster=$1
    shift
    "$AQUIFER" cluster init "$work/$cluster" >/dev/null || return 1
    for host in "$@"; do
        "$AQUIFER" cluster join "$work/$cluster" "$host" --into "$work/$cluster-$host" >/dev/null && as_libnbd "$work/$cluster-$host" ||
            return 1
    done
}

# is_refused WHAT SENTENCE COMMAND...: a client that gets nothing, and what the server says of it.
is_refused() {
    what=$1 sentence=$2
    shift 2
    : >"$work/err"
    if limited "$@" >"$work/info" 2>&1; then
        fail "NBD over TLS: $what is served"
    elif [ -z "$sentence" ] || wait_until 100 grep -q "$sentence" "$work/err"; then
        pass "NBD over TLS: $what is refused"
    else
        fail "NBD over TLS: $what: $(tail -n 1 "$work/info") / $(tail -n 1 "$work/err")"
    fi
}

# The server's host is called as clients write its address: they compare it with the certificate.
if make_cluster ours 127.0.0.1 beta && make_cluster theirs beta; then
    if serve --size 32M --listen 127.0.0.1:0 --tls --cluster "$work/ours-127.0.0.1"; then
        uri=$(sed -n 's/.* is served at //p' "$work/out")
        if command -v nbdinfo >/dev/null; then
            limited nbdinfo "$uri/?tls-certificates=$work/ours-beta" >"$work/info" 2>&1 && grep -q 'TLS' "$work/info" &&
                pass "NBD over TLS: nbdinfo: $(grep -o 'with .*encryption\|TLS' "$work/info" | head -n 1)" || fail "NBD over TLS: nbdinfo: $(cat "$work/info")"
            rm -f "$work/back"
            limited nbdcopy --flush "$work/data" "$uri/?tls-certificates=$work/ours-beta" &&
                limited nbdcopy "$uri/?tls-certificates=$work/ours-beta" "$work/back" && cmp -s "$work/data" "$work/back" &&
                pass 'NBD over TLS: nbdcopy in and out' || fail 'NBD over TLS: nbdcopy'
            is_refused 'a host of another cluster' '' nbdinfo "$uri/?tls-certificates=$work/theirs-beta"
            # It believes this cluster, and shows a certificate of the other.
            mkdir "$work/thief" && cp "$work/ours-beta/cluster.pem" "$work/thief/ca-cert.pem" &&
                cp "$work/theirs-beta/host.pem" "$work/thief/client-cert.pem" && cp "$work/theirs-beta/host-key.pem" "$work/thief/client-key.pem"
            is_refused 'a certificate of another cluster' 'gnutls_handshake' nbdinfo "$uri/?tls-certificates=$work/thief"
            is_refused 'a client without TLS' '' nbdinfo "nbd${uri#nbds}"
            silent_are_harmless 'NBD over TLS' "${uri##*:}" "$uri/?tls-certificates=$work/ours-beta"
        else
            skip 'NBD over TLS: nbdcopy and nbdinfo are not installed (Debian package libnbd-bin)'
        fi
        end_well 'NBD over TLS'
    fi
else
    fail 'NBD over TLS: no cluster could be made'
fi
fi
"$AQUIFER" block --flash "$work/device" --size 32M --listen 0.0.0.0:0 >"$work/out" 2>"$work/err"
[ $? = 2 ] && grep -q -e '--tls' "$work/err" && pass 'an address that others reach needs TLS' ||
    fail "an address that others reach: $(cat "$work/out" "$work/err")"
rm -f "$work/device" "$work/back" "$work/data"

# ---- Swap -----------------------------------------------------------------

# Whether the cgroup's memory is limited: by which file, and where its processes are listed.
find_groups() {
    if [ -w /sys/fs/cgroup/memory/memory.limit_in_bytes ] || [ -d /sys/fs/cgroup/memory/ ]; then
        groups=/sys/fs/cgroup/memory limit_file=memory.limit_in_bytes
    elif grep -qw memory /sys/fs/cgroup/cgroup.controllers 2>/dev/null; then
        groups=/sys/fs/cgroup limit_file=memory.max
        echo +memory 2>/dev/null >/sys/fs/cgroup/cgroup.subtree_control
    else
        return 1
    fi
}

# Why kernel swap cannot be tried here; nothing if it can.
why_no_swap() {
    [ "$(id -u)" = 0 ] || { echo 'it needs root'; return; }
    [ -c /dev/fuse ] || { echo 'there is no /dev/fuse here'; return; }
    for program in losetup mkswap swapon swapoff python3; do
        command -v $program >/dev/null || { echo "$program is not installed"; return; }
    done
    [ -e /proc/swaps ] || { echo 'the kernel has no swap'; return; }
    losetup --find >/dev/null 2>&1 || { echo 'there is no free loop device'; return; }
    find_groups || { echo 'there is no memory cgroup'; return; }
}

# Higher than every area that is there, so that ours is used first.
priority() {
    awk 'NR > 1 && $NF > most { most = $NF } END { most += 10; if (most > 32767) most = 32767; print most }' /proc/swaps
}

# A field of our area in /proc/swaps: 3 is its size, 4 what is used, in KiB.
swaps() {
    awk -v area="$area" -v field="$1" '$1 == area { print $field }' /proc/swaps
}

vmstat_of() {
    awk -v name="$1" '$1 == name { print $2 }' /proc/vmstat
}

# Every page has its number in each of its words, mixed with a seed: a page that comes back as another is noticed, and so
# is one that is half old. Written in order, then read twice, each time in another random order.
cat >"$work/touch.py" <<'EOF'
import mmap, random, struct, sys
pages = int(sys.argv[1]) * 256
memory = mmap.mmap(-1, pages * 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
pattern = lambda page: struct.pack("<Q", page * 0x9E3779B97F4A7C15 + 0xA5A5 & (1 << 64) - 1) * 512
for page in range(pages):
    memory[page * 4096:(page + 1) * 4096] = pattern(page)
bad = 0
for seed in (1, 2):
    order = list(range(pages))
    random.Random(seed).shuffle(order)
    for page in order:
        bad += memory[page * 4096:(page + 1) * 4096] != pattern(page)
print(pages * 2, "pages read,", bad, "bad")
sys.exit(bad != 0)
EOF

donors=''
end_donors() {
    for donor in $donors; do
        kill -KILL "$donor" 2>/dev/null && wait "$donor" 2>/dev/null
    done
    donors=''
}

# donate NAME: lends to this machine. Its number is the last of $donors, its address is in $address.
donate() {
    : >"$work/donor.$1"
    "$AQUIFER" donate --listen 127.0.0.1:0 --lend 512M --slab 16M --headroom 64M --lend-to-own-machine >"$work/donor.$1" 2>&1 &
    donors="$donors $!"
    wait_until 200 grep -q '^32 slabs' "$work/donor.$1" && address=$(sed -n 's/^lends at \([^ ]*\) .*/\1/p' "$work/donor.$1")
}

# show_by WAY OPTION...: the device as the file $work/folder/device, by FUSE of the command or by NBD and nbdfuse.
show_by() {
    way=$1
    shift
    if [ "$way" = fuse ]; then
        serve --size 512M --fuse "$work/folder" --threads 2 "$@" || return
        # Two threads have 16 MiB each, once they run; the reserve is as much again.
        wait_until 50 has_reserve && pass 'swap: threads leave the allocator its reserve' ||
            fail "swap: the allocator has no reserve of 16 MiB: $(heap_kib) KiB in all"
        return
    fi
    serve --size 512M --listen "$work/socket" "$@" || return
    nbdfuse "$work/folder/device" "nbd+unix:///?socket=$work/socket" 2>"$work/nbdfuse.err" &
    shower=$!
    wait_until 100 [ -e "$work/folder/device" ] || { fail "swap: nbdfuse: $(cat "$work/nbdfuse.err")"; return 1; }
}

# swap_run WHAT WAY OPTION...: the device at a folder, a loop device over it, an area on that, a cgroup with little memory. If there are donors, they are killed one after the
# other while it is used.
swap_run() {
    what=$1 shown_by=$2
    shift 2
    limit_mib=64 touched_mib=256
    mkdir -p "$work/folder"
    show_by "$shown_by" "$@" || return
    # Names and numbers are kept before anything else is done: the end undoes what has one.
    loop=$(losetup --find --show --direct-io=on "$work/folder/device" 2>"$work/losetup.err") ||
        { loop='' && skip "swap: no loop device: $(cat "$work/losetup.err")" && return; }
    mkswap "$loop" >/dev/null 2>"$work/mkswap.err" || { fail "swap: mkswap: $(cat "$work/mkswap.err")"; return; }
    if swapon --priority "$(priority)" "$loop" 2>"$work/swapon.err"; then
        area=$loop our_areas="$our_areas $loop"
    else
        skip "swap: swapon: $(cat "$work/swapon.err")"
        return
    fi
    group=$groups/aquifer-block-$$
    mkdir "$group" && echo ${limit_mib}M >"$group/$limit_file" ||
        { skip "swap: no cgroup with a limit can be made in $groups"; return; }
    pages_in=$(vmstat_of pswpin) pages_out=$(vmstat_of pswpout) began=$(date +%s%N) used_kib=0
    # The shell that becomes the program goes into the cgroup, so that its first page counts already.
    # shellcheck disable=SC2016 # the inner shell's
    sh -c 'echo $$ >"$1/cgroup.procs" && exec python3 "$2" "$3"' - "$group" "$work/touch.py" $touched_mib \
        >"$work/touched" 2>&1 &
    toucher=$!
    # From now on the kernel gives it no memory: what it allocates comes from what it has, whatever becomes of donors.
    starved=''
    if command -v prlimit >/dev/null; then
        for pid in "$server" $(pgrep -P "$server"); do
            prlimit --pid "$pid" --data=4096 2>/dev/null && starved="$starved $pid"
        done
    fi
    tries=$((limit_s * 5))
    until has_ended "$toucher"; do
        now_kib=$(swaps 4)
        [ "${now_kib:-0}" -gt "$used_kib" ] && used_kib=$now_kib
        killed=$(cat "$work/killed" 2>/dev/null | wc -l)
        if [ "$(echo "$donors" | wc -w)" -gt "$killed" ] && [ "$used_kib" -gt $((81920 * (1 + killed))) ]; then
            kill -KILL "$(echo "$donors" | awk -v nth=$((killed + 1)) '{ print $nth }')"
            echo killed >>"$work/killed"
        fi
        tries=$((tries - 1))
        [ "$tries" -gt 0 ] || { fail "swap: it hangs: no end after $limit_s s"; return; }
        sleep 0.2
    done
    wait "$toucher"
    status=$?
    toucher=''
    took_ms=$((($(date +%s%N) - began) / 1000000))
    pages_in=$(($(vmstat_of pswpin) - pages_in)) pages_out=$(($(vmstat_of pswpout) - pages_out))
    figures="$touched_mib MiB in a cgroup of $limit_mib MiB: $pages_in pages in, $pages_out out, $took_ms ms"
    if [ $status = 0 ]; then
        pass "swap ($what): $(cat "$work/touched"); $figures"
        [ -n "$starved" ] && pass "swap ($what): it has asked the kernel for no memory" || skip "swap ($what): it may ask for memory: prlimit is missing"
    else
        fail "swap ($what): status $status: $(tail -n 3 "$work/touched"); $figures"
    fi
    # What does not fit in the cgroup was on our area: no other has its priority.
    if [ "$used_kib" -ge $(((touched_mib - limit_mib) * 1024 / 2)) ]; then
        pass "swap: our area held up to $((used_kib / 1024)) MiB"
    else
        fail "swap: our area held only $used_kib KiB"
    fi
    if [ "$shown_by" = nbd ]; then
        swapoff "$area" && area='' && losetup -d "$loop" && loop='' && umount "$work/folder" && wait "$shower" && shower='' ||
            { fail 'swap: it cannot be undone'; return; }
        end_well "swap ($what)"
        rmdir "$group" && group='' || fail 'swap: the cgroup stays'
        return
    fi
    # While it is in use, a signal does not take the folder away.
    kill -TERM "$server"
    wait_until 50 grep -q 'is in use' "$work/err" && pass 'swap: it says that the folder is in use, and goes on' ||
        fail "swap: no word that the folder is in use: $(tail -n 2 "$work/err")"
    has_ended "$server" && fail 'swap: the server has ended under its area'
    swapoff "$area" && area='' && losetup -d "$loop" && loop='' || { fail 'swap: it cannot be undone'; return; }
    umount "$work/folder" && wait "$server" && pass 'swap: it ends when it is unmounted' || fail 'swap: no end'
    server=''
    rmdir "$group" && group='' || fail 'swap: the cgroup stays'
}

why=$(why_no_swap)
if [ -n "$why" ]; then
    skip "swap: $why"
else
    find_groups
    our_areas=''
    # swap_to_donors WAY: both of them are killed, in turn.
    swap_to_donors() {
        rm -f "$work/killed"
        if donate first && first=$address && donate second; then
            swap_run "donors, both killed, by $1" "$1" --donors "$first,$address"
            [ "$(wc -l <"$work/killed")" = 2 ] && pass 'swap: both donors were killed while it was used' ||
                fail 'swap: not both donors were killed'
            undo
        else
            skip "swap: no donor: $(tail -n 1 "$work/donor.first")"
        fi
        end_donors
    }
    swap_run 'flash, by fuse' fuse
    undo
    swap_to_donors fuse
    if command -v nbdkit >/dev/null && command -v nbdfuse >/dev/null; then
        swap_to_donors nbd
    else
        skip 'swap by NBD: nbdkit or nbdfuse is not installed (Debian packages nbdkit, libnbd-bin)'
    fi
    # Others may have come and gone meanwhile.
    left=''
    for ours in $our_areas; do
        ! grep -q "^${ours}[[:space:]]" /proc/swaps || left="$left $ours"
    done
    if [ -z "$left" ]; then pass 'swap: none of our areas is left'; else fail "swap: in use still:$left"; fi
fi
exit $failed
