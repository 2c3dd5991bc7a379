# shellcheck shell=sh
# The same load twice in the same RAM: on the heap of Aquifer, and on malloc
# under kernel swap. Sourced by the compare.sh of an example, which sets
#
#   title, program   the words for people, and the name of the executable
#   beside           bytes of RAM for each 1000 bytes of data that the program
#                    keeps beside the heap: they are not the heap's to use
#   summary()        if it wants: prints what follows from the reports of both,
#                    $work/aquifer.out and $work/plain.out; $1 is empty if the
#                    second is missing
#
# Both run in a memory cgroup with the same limit. Aquifer's budget is less than
# that: what lies beside the heap comes off, and an eighth (16 MiB at the
# least) for page tables that the kernel has dropped and not yet given back. What
# the machine does not allow is left out, with the reason.
#
# DIR gets the flash file and then the swap file; both are removed at the end.

# shellcheck disable=SC2154 # here, title, program: of who sources this
built=${BUILT:-$here/../../build/examples/$program}
ram=64M data='' parent=${TMPDIR:-/var/tmp}
work='' child='' watcher=''
# Code, stacks and what the C library keeps.
OWN_BYTES=$((4 << 20))
# Page tables that the library has dropped and the kernel not yet given back, at
# the least (docs/adr/0009-page-tables-pending-in-the-kernel.md).
TABLE_BYTES_MIN=$((16 << 20))

say() {
    printf '%s\n' "$*"
}

die() {
    say "compare.sh: $*" >&2
    exit 1
}

# shellcheck source=examples/limits.sh
. "$here/../limits.sh"

# Bytes in a size like 64M.
bytes() {
    number=${1%[KMGTkmgt]}
    case $number in
        '' | *[!0-9]*) die "'$1' is not a size; write bytes, or 64M, 4G" ;;
    esac
    case $1 in
        *[Kk]) echo $((number << 10)) ;;
        *[Mm]) echo $((number << 20)) ;;
        *[Gg]) echo $((number << 30)) ;;
        *[Tt]) echo $((number << 40)) ;;
        *) echo "$number" ;;
    esac
}

mib() {
    awk -v bytes="$1" 'BEGIN { printf "%.1f", bytes / 1048576 }'
}

# ---- Undo everything, also after Ctrl-C -----------------------------------

cleanup() {
    status=$?
    trap '' HUP INT TERM
    rm -f "$work/running"
    if [ -n "$child" ] && kill -KILL "$child" 2>/dev/null; then
        wait "$child" 2>/dev/null || true
    fi
    [ -z "$watcher" ] || wait "$watcher" 2>/dev/null || true
    remove_swap
    remove_group
    [ -z "$work" ] || rm -rf "$work"
    exit $status
}

# ---- Runs -------------------------------------------------------------------

# run REPORT COMMAND...: runs it so that the trap can end it, in the group if there is one.
run() {
    report=$1
    shift
    : >"$work/running"
    export cgroup
    # shellcheck disable=SC2016 # for the shell inside
    sh -c '{ [ -z "$cgroup" ] || echo $$ >"$cgroup/cgroup.procs"; } && exec "$@"' sh "$@" >"$report" &
    child=$!
    if [ -n "$cgroup" ]; then
        keep_statistics_fresh &
        watcher=$!
    fi
    status=0
    wait "$child" || status=$?
    child=''
    rm -f "$work/running"
    [ -z "$watcher" ] || wait "$watcher" || true
    watcher=''
    cat "$report"
    return $status
}

# What the group says of a run; the line is in its report too.
tell_peak() {
    peak=$(group_peak)
    if [ -n "$peak" ]; then
        say "RAM limit  at most $(mib "$peak") of $(mib "$ram_bytes") MiB, program and kernel together" | tee -a "$1"
    fi
}

run_aquifer() {
    say "== $title on aq_malloc: $(mib "$data_bytes") MiB of data, $(mib "$ram_bytes") MiB of RAM"
    tables=$((ram_bytes / 8))
    [ $tables -ge $TABLE_BYTES_MIN ] || tables=$TABLE_BYTES_MIN
    budget=$((ram_bytes - tables - OWN_BYTES - data_bytes / 1000 * beside))
    [ "$budget" -ge $((8 << 20)) ] ||
        die "$(mib "$ram_bytes") MiB of RAM leave $(mib "$budget") for the heap, which needs 8; give more with --ram, or less --data"
    if ! make_group "$ram_bytes" no; then
        remove_group
        say "(no limit on the whole process: $why; the heap keeps to its budget)"
    fi
    AQUIFER_RAM=$budget AQUIFER_FLASH=$work/flash AQUIFER_FLASH_SIZE=$((2 * data_bytes)) \
        run "$work/aquifer.out" "$built/$program" --data "$data_bytes" "$@" ||
        die "the program on aq_malloc ended with status $?"
    [ -z "$cgroup" ] || tell_peak "$work/aquifer.out"
    remove_group
    rm -f "$work/flash"
}

# False if it was not possible, which was said.
run_plain() {
    say ''
    say "== $title on malloc, kernel swap: the same data and RAM"
    if ! may_swap || ! make_group "$ram_bytes" yes || ! make_swap $((3 * data_bytes)); then
        say "skipped: $why"
        say 'As root, where memory cgroups and swap may be used, this runs the program on malloc in the same RAM too.'
        return 1
    fi
    read_no_neighbours
    status=0
    run "$work/plain.out" "$built/$program-plain" --data "$data_bytes" "$@" || status=$?
    kills=$(group_kills)
    [ "${kills:-0}" = 0 ] || die "the kernel killed the plain program for want of RAM; no comparison"
    [ "$status" = 0 ] || die "the plain program ended with status $status"
    tell_peak "$work/plain.out"
    remove_group
}

# ---- Main -----------------------------------------------------------------

# Takes its own options out of the arguments; the others are for the program.
left=$#
while [ "$left" -gt 0 ]; do
    case $1 in
        --ram=* | --data=* | --dir=*) value=${1#*=} taken=1 ;;
        --ram | --data | --dir)
            [ "$left" -gt 1 ] || die "$1 needs a value"
            value=$2 taken=2
            ;;
        *) value='' taken=1 ;;
    esac
    case $1 in
        --ram | --ram=*) ram=$value ;;
        --data | --data=*) data=$value ;;
        --dir | --dir=*) parent=$value ;;
        *) set -- "$@" "$1" ;;
    esac
    shift $taken
    left=$((left - taken))
done
case " $* " in
    *' --help '*)
        say "compare.sh takes --ram SIZE, --data SIZE and --dir DIRECTORY, and then what the program takes:"
        say ''
        exec "$built/$program-plain" --help
        ;;
esac
for each in "$built/$program" "$built/$program-plain"; do
    [ -x "$each" ] || die "$each is missing; run 'make -C examples/$program' first"
done
ram_bytes=$(bytes "$ram")
data_bytes=$((8 * ram_bytes))
[ -z "$data" ] || data_bytes=$(bytes "$data")
PATH=$PATH:/usr/sbin:/sbin
trap cleanup EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM
mkdir -p "$parent"
work=$(mktemp -d "$parent/$program.XXXXXX")
free_bytes=$(($(df -Pk "$work" | awk 'NR == 2 { print $4 }') * 1024))
[ "$free_bytes" -gt $((3 * data_bytes)) ] ||
    die "$parent needs $((3 * data_bytes >> 20)) MiB of free space and has $((free_bytes >> 20)); choose another with --dir"
DISK_STAT=$(disk_stat_of "$work")
export DISK_STAT

run_aquifer "$@"
both=yes
run_plain "$@" || both=''
if command -v summary >/dev/null; then
    summary "$both"
fi
