#!/bin/sh
# Programs of others that verify what they wrote, on a mounted volume: fsx, fio, SQLite with several writers, git,
# rsync, cp and tar with extended attributes, restic, borg, stress-ng. Then the volume is in order. One result line
# each; exits with 1 if one failed. What is not installed is left out with a line.
#
#   tests/mount/suites.sh
#   FSX_OPERATIONS=N    operations of each run of fsx, of which there are nine [60000]
#   STRESS_SECONDS=N    seconds of each stressor of stress-ng's class "filesystem"; 0: none [2]
#   AQUIFER=PATH    the aquifer command
#   AQUIFER_SUITES_DIR=PATH    where the volume and the mount are made [$TMPDIR or /var/tmp]
set -u
cd "$(dirname "$0")/../.." || exit 1
here=$PWD
operations=${FSX_OPERATIONS:-60000} seconds=${STRESS_SECONDS:-2}

subject='mount suites'
. tests/lib.sh
[ -c /dev/fuse ] || skip_all 'there is no /dev/fuse here'
[ "$(id -u)" = 0 ] || command -v fusermount3 >/dev/null || skip_all 'this user may not mount (Debian package fuse3)'
work=$(mktemp -d "${AQUIFER_SUITES_DIR:-${TMPDIR:-/var/tmp}}/aquifer-suites.XXXXXX") || exit 1
at=$work/mounted
server=''

unmount() {
    if [ "$(id -u)" = 0 ]; then umount ${1:+-l} "$at"; else fusermount3 -u ${1:+-z} "$at"; fi
}

clean() {
    [ -z "$server" ] || kill -9 "$server" 2>/dev/null
    unmount lazily 2>/dev/null
    rm -rf "$work"
}
trap clean EXIT
trap 'exit 130' INT TERM

# have PROGRAM WHERE
have() {
    command -v "$1" >/dev/null && return
    skip "$1 is not installed ($2)"
    return 1
}

# run NAME COMMAND...: one result line.
run() {
    name=$1
    shift
    if timeout -k 5 1800 "$@" >"$work/out" 2>&1; then pass "$name"; else fail "$name: $(tail -n 4 "$work/out")"; fi
}

# ---- The suites -----------------------------------------------------------

# With mappings that are synced, mappings that are not, and none. Each seed is said, so that a run can be repeated. No
# operation is of 0 bytes: fsx takes it for a file system without posix_fallocate that such a call is EINVAL everywhere.
fsx_runs() {
    have fsx 'cargo install fsx' || return
    common='truncate = 3.0
close_open = 1.0
invalidate = 1.0
read = 5.0
write = 5.0
fsync = 0.1
fdatasync = 0.1
posix_fallocate = 1.0
punch_hole = 1.0
sendfile = 1.0
copy_file_range = 1.0'
    for seed in 1 2 3; do
        for kind in synced unsynced unmapped; do
            case $kind in
                synced) before='' mapped=5.0 count=$((operations / 4)) ;;
                unsynced) before='nomsyncafterwrite = true' mapped=5.0 count=$operations ;;
                unmapped) before='' mapped=0.0 count=$operations ;;
            esac
            printf '%s\n[opsize]\nmin = 1\n[weights]\n%s\nmapread = %s\nmapwrite = %s\n' "$before" "$common" $mapped $mapped >"$work/fsx.toml"
            run "fsx $kind, seed $seed, $count operations" \
                fsx -q -N "$count" -S $seed -f "$work/fsx.toml" -P "$work" "$at/fsx"
            rm -f "$at/fsx"
        done
    done
}

fio_runs() {
    have fio 'Debian package fio' || return
    for how in 'psync --rw=randwrite --bs=4k --numjobs=4' 'psync --rw=randwrite --bsrange=512-64k --bs_unaligned=1 --numjobs=2' \
        'mmap --rw=randwrite --bs=4k --numjobs=2' 'mmap --rw=randwrite --bsrange=512-16k --bs_unaligned=1 --numjobs=2' \
        'libaio --direct=1 --iodepth=16 --rw=randwrite --bs=4k --numjobs=2' 'psync --direct=1 --rw=randwrite --bs=512' \
        'psync --rw=write --bs=128k --numjobs=2' 'psync --rw=randrw --bs=4k --numjobs=2 --verify_backlog=1000'; do
        # shellcheck disable=SC2086 # a list
        run "fio $how" fio --name=verified --aux-path="$work" --directory="$at" --size=16m --verify=crc32c --verify_fatal=1 \
            --group_reporting --fallocate=none --unlink=1 --ioengine=$how
    done
}

# Four writers to one database for each way to keep a journal.
sqlite_writers() {
    have sqlite3 'Debian package sqlite3' || return
    for mode in delete truncate persist wal; do
        database=$at/$mode.db
        sqlite3 "$database" "PRAGMA journal_mode=$mode; CREATE TABLE t(w, n, b, PRIMARY KEY(w, n)); CREATE INDEX i ON t(b);" >/dev/null
        writers=''
        for writer in 1 2 3 4; do
            seq 100 | sed "s/.*/BEGIN IMMEDIATE; INSERT INTO t VALUES($writer, &, randomblob(300)); COMMIT;/" >"$work/sql.$writer"
            sqlite3 -bail -cmd '.timeout 120000' "$database" <"$work/sql.$writer" >"$work/sql.out.$writer" 2>&1 &
            writers="$writers $!"
        done
        # shellcheck disable=SC2086 # a list
        for writer in $writers; do wait $writer || fail "sqlite3 $mode: $(cat "$work"/sql.out.*)"; done
        found=$(sqlite3 "$database" 'SELECT count(*) FROM t; PRAGMA integrity_check' | tr '\n' ' ')
        if [ "$found" = '400 ok ' ]; then pass "sqlite3 $mode, four writers"; else fail "sqlite3 $mode: $found"; fi
    done
}

git_runs() {
    have git 'Debian package git' || return
    git -C "$here" rev-parse --git-dir >/dev/null 2>&1 || { skip 'git: this is no repository to clone'; return; }
    run 'git clone' git clone -q "file://$here" "$at/repository"
    run 'git fsck' git -C "$at/repository" fsck --full --strict --no-dangling
    run 'git gc' git -C "$at/repository" gc -q --prune=now
    run 'git fsck after gc' git -C "$at/repository" fsck --full --no-dangling
    run 'git status finds no change' sh -c "test -z \"\$(git -C '$at/repository' status --porcelain)\""
    rm -rf "$at/repository"
}

# Files of several sizes.
tree() {
    [ ! -d "$work/tree" ] || return 0
    for number in $(seq 400); do
        folder=$work/tree/$((number % 20))
        mkdir -p "$folder"
        head -c $((number * 37)) /dev/urandom >"$folder/$number"
    done
}

# The tree, with an extended attribute for each file, to the mount and back.
copies() {
    have setfattr 'Debian package attr' || return
    tree
    setfattr -n user.test -v 1 "$work/tree" 2>/dev/null || { skip 'copies: this folder keeps no attributes'; return; }
    find "$work/tree" -type f -exec setfattr -n user.number -v some {} +
    for how in 'cp -a $0/. $1' 'rsync -aX $0/ $1' 'mkdir $1 && tar -C $0 --xattrs -c . | tar -C $1 --xattrs -x'; do
        program=$(echo "$how" | grep -o 'cp\|rsync\|tar' | head -n 1)
        have "$program" "Debian package $program" || continue
        run "$program with attributes, there and back" sh -ec "copy() { sh -ec '$how' \"\$@\"; }
            listed() { (cd \$1 && find . | sort | xargs getfattr -d -m user.); }
            copy '$work/tree' '$at/tree'; copy '$at/tree' '$work/back'; diff -r '$work/tree' '$work/back'
            listed '$work/tree' >'$work/before'; listed '$work/back' >'$work/after'; cmp '$work/before' '$work/after'"
        rm -rf "$at/tree" "$work/back"
    done
}

# Backups of the tree in the programs' own formats: repository and restored files are on the mount.
backups() {
    tree
    if have restic 'Debian package restic'; then
        run 'restic, a backup that is read and restored' sh -ec "export RESTIC_PASSWORD=password RESTIC_REPOSITORY='$at/restic'
            restic() { command restic --no-cache -q \"\$@\"; }
            cd '$work/tree'; restic init; restic backup .; restic backup .; restic check --read-data
            restic restore latest --target '$at/restored'; diff -r . '$at/restored'; restic forget --keep-last 1 --prune; restic check"
        rm -rf "$at/restic" "$at/restored"
    fi
    if have borg 'Debian package borgbackup'; then
        run 'borg, a backup that is read and restored' sh -ec "export BORG_REPO='$at/borg' BORG_BASE_DIR='$work/borg' HOME='$work'
            export BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK=yes
            cd '$work/tree'; borg init -e none; borg create ::one .; borg create ::two .; borg check --verify-data
            mkdir '$at/restored'; cd '$at/restored'; borg extract ::two; diff -r '$work/tree' .; borg delete ::one; borg compact; borg check"
        rm -rf "$at/borg" "$at/restored"
    fi
}

stressors() {
    [ "$seconds" -gt 0 ] || { skip 'stress-ng: STRESS_SECONDS is 0'; return; }
    have stress-ng 'Debian package stress-ng' || return
    mkdir "$at/stress"
    # These two mount file systems of their own; stress-ng fails where it may not.
    run "stress-ng, class filesystem, $seconds s each" stress-ng --temp-path "$at/stress" --class filesystem \
        --exclude bind-mount,binderfs --sequential 1 --verify -t "$seconds"
}

# ---- On one volume --------------------------------------------------------

mkdir "$at"
"$AQUIFER" volume create "$work/volume" --size 4G >/dev/null || { fail 'no volume'; exit 1; }
"$AQUIFER" volume mount --foreground --ram 128M "$work/volume" "$at" >"$work/mount.out" 2>"$work/mount.err" &
server=$!
tries=600
until [ -s "$work/mount.out" ] || [ $tries = 0 ] || ! kill -0 "$server" 2>/dev/null; do
    tries=$((tries - 1))
    sleep 0.1
done
[ -s "$work/mount.out" ] || { fail "the volume cannot be mounted: $(cat "$work/mount.err")"; exit 1; }
fio_runs
sqlite_writers
git_runs
copies
backups
fsx_runs
stressors
unmount || fail 'it cannot be unmounted'
wait "$server" || fail "the process does not end well: $(cat "$work/mount.err")"
server=''
if said=$("$AQUIFER" volume scrub "$work/volume" 2>&1); then pass 'the volume is in order'; else fail "the volume: $said"; fi
exit $failed
